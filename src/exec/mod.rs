//! The plan nodes, a folder for each operator. Between `BowtieUploadExec` and `BowtieDownloadExec` they exchange chunks on the
//! device.

pub(crate) mod aggregate;
pub(crate) mod blocking;
pub(crate) mod chunk;
pub(crate) mod input;
pub(crate) mod join;
pub(crate) mod join_aggregate;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod partition;
pub(crate) mod rows;
pub(crate) mod transfer;
