//! Transfers: an upload stages record batches as chunks for a device, a download makes record batches of device chunks.

pub(crate) mod chunker;
pub(crate) mod download;
pub(crate) mod evaluator;
mod output_batches;
pub(crate) mod partitions;
pub(crate) mod stands_for;
pub(crate) mod upload;
pub(crate) mod way_back;
