//! Limits of chunks that all layers share.

/// The most rows of a chunk: row ids are `u32`, with one value for "none", and kernels round up to whole tiles of rows.
pub(crate) const MAX_CHUNK_ROWS: usize = u32::MAX as usize - 4096;
