//! `bowtie_clusters`: the connected components of a query's pairs, such as near-duplicates, with one id for each.
//!
//! ```text
//!  function.rs     the table function, and its table
//!       │
//!  pairs_query.rs  a text ──► the logical plan of a query with two columns of one type
//!       ▼
//!  exec/clusters/  ClustersExec, above the plan of that query: pairs in, ids with their clusters out
//! ```
//!
//! Where the pairs are on a device, the rule puts a node of the device in the place of `ClustersExec` (`plan/clusters.rs`).

pub(crate) mod function;
mod pairs_query;
