//! The plan nodes, a folder for each operator. A `BowtieUploadExec` makes device chunks of record batches, device nodes
//! exchange them, and a `BowtieDownloadExec` makes record batches again.

pub(crate) mod aggregate;
pub(crate) mod blocking;
pub(crate) mod card_times;
pub(crate) mod chunk;
pub(crate) mod clusters;
pub(crate) mod input;
pub(crate) mod join;
pub(crate) mod join_aggregate;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod node_counters;
pub(crate) mod partition;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod sort;
#[cfg(feature = "stages")]
pub(crate) mod stage;
pub(crate) mod transfer;
