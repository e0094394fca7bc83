//! What `plan` says and `exec` does, as plain data: it can be printed, tested without a device, and costed.

/// Most rows that a chunk may have: row ids are `u32`, with one value for "none", and kernels round up to whole tiles of rows.
pub(crate) const MAX_CHUNK_ROWS: usize = u32::MAX as usize - 4096;
