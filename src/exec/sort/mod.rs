//! ORDER BY and LIMIT on a device. In: device chunks. Out: device chunks, in order.
//!
//! ```text
//! chunks ─► with a limit: the best rows of each, merged now and then ─► all rows fit: one sort ───────────► pieces of it
//!                                                                       └─ they do not: sorted runs ─► merged on the host
//! ```

pub(crate) mod limit;
pub(crate) mod merge;
pub(crate) mod node;
pub(crate) mod run;
pub(crate) mod run_writer;
pub(crate) mod sorted_rows;
