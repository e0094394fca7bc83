//! Host to device and back: upload, download, and host batches gathered into chunks.

pub(crate) mod chunk_limits;
pub(crate) mod chunker;
pub(crate) mod download;
pub(crate) mod evaluator;
pub(crate) mod partitions;
pub(crate) mod sizes;
pub(crate) mod staged_chunk;
pub(crate) mod upload;
