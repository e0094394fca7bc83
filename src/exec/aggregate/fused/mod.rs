//! Filters and projections over a stored table, fused with the aggregation above them: one pass over the stored columns, and what a filter drops is
//! never written.
//!
//! ```text
//! compose.rs   at the start: filters, projections and aggregates as one program over the columns of the scan
//! bind.rs      for each piece: the program over its codes, if its keys have few
//! words.rs     the groups of the words that the device returns
//! run.rs       pieces one after the other; those that do not bind take the steps one by one
//! ```

pub(crate) mod bind;
pub(crate) mod compose;
pub(crate) mod run;
pub(crate) mod words;
