//! [`PieceLimits`]: how long the pieces are that a table is cut to.

use datafusion::execution::TaskContext;

use crate::device::primitives::device::Device;
use crate::exec::chunk::chunk_limits::{ChunkLimits, Role};
use crate::options::BowtieOptions;

/// Text of a piece, on average of its rows: half of what 32-bit offsets address.
pub(crate) const MOST_TEXT_BYTES: u64 = 1 << 30;
/// Pieces of fewer rows are not made for the length of their text.
pub(crate) const LEAST_ROWS_OF_TEXT: u64 = 1 << 10;
/// Rows are not stored if fewer of them fit a chunk.
const LEAST_ROWS: u64 = 8;

/// All columns of a piece take at most this part of the device's memory as values, as a divisor: as codes they take about half of it, and few
/// scans read them all. Shorter pieces cost more for each row: upload, filter and projection of one take some 0.8 ms, however short it is.
const SHARE_OF_MEMORY: u64 = 4;

/// The rows and bytes of a piece. They are the same for all scans of a table: what one has stored, another finds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceLimits {
    pub rows: usize,
    /// The most rows of what cannot be cut.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "row groups"))]
    pub uncut_rows: usize,
    bytes: u64,
}

impl PieceLimits {
    pub(crate) fn new(device: &dyn Device, context: &TaskContext) -> Self {
        let options = BowtieOptions::of(context.session_config().options());
        let pool = context.memory_pool();
        let rows = |chunk_rows| {
            let schema = arrow::datatypes::Schema::empty().into();
            ChunkLimits::new(device, &schema, chunk_rows, Role::Left, pool.as_ref()).most_rows
        };
        Self {
            rows: rows(options.chunk_rows.0).min(device.profile().stored_rows),
            uncut_rows: rows(None),
            bytes: most_bytes(device.budget().limit()),
        }
    }

    /// As many rows of these bytes each as a piece may have; `None` if they are so long that they are not stored.
    pub(crate) fn rows_of(&self, row_bytes: u64) -> Option<usize> {
        let rows = self.bytes / row_bytes.max(1);
        (rows >= LEAST_ROWS).then_some(rows as usize)
    }
}

/// The most bytes of a piece on a device of `memory` bytes.
pub(crate) fn most_bytes(memory: u64) -> u64 {
    memory / SHARE_OF_MEMORY
}

/// The number of pieces of `rows` rows of `row_bytes` bytes, as far as the bytes decide it, on a device of `memory` bytes.
pub(crate) fn pieces_in(memory: u64, rows: u64, row_bytes: u64) -> u64 {
    rows.saturating_mul(row_bytes)
        .div_ceil(most_bytes(memory).max(1))
        .max(1)
}
