//! [`BlockExtents`]: the least and the greatest code of each block of a stored column.

/// Rows of a block. The first row of a block is aligned for every access of a kernel.
pub(crate) const BLOCK_ROWS: usize = 1 << 16;

/// The least and the greatest code that is not NULL of each block of [`BLOCK_ROWS`] rows; the last block may be shorter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockExtents(pub(crate) Vec<Option<(u64, u64)>>);
