//! Match flags: one bit a row. Several threads set them, so the words are atomic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::error::Result;

/// Flags of the rows of one chunk.
#[derive(Debug)]
pub(crate) struct Flags {
    words: Vec<AtomicU64>,
    _lease: Lease,
}

impl Flags {
    pub(crate) fn new(budget: &Arc<Budget>, rows: usize) -> Result<Self> {
        let words = rows.div_ceil(64);
        let lease = budget.lease(words as u64 * 8, "match flags")?;
        Ok(Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            _lease: lease,
        })
    }

    pub(crate) fn set(&self, row: usize) {
        let (word, bit) = (&self.words[row / 64], 1u64 << (row % 64));
        // Most rows match more than once: a load is cheaper than an atomic write.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_set(&self, row: usize) -> bool {
        self.words[row / 64].load(Ordering::Relaxed) & (1 << (row % 64)) != 0
    }

    /// The rows of `from .. from + len` whose flag is `set`, ascending, relative to `from`.
    pub(crate) fn rows_where(
        &self,
        budget: &Arc<Budget>,
        from: usize,
        len: usize,
        set: bool,
    ) -> Result<Buffer<u32>> {
        let rows: Vec<u32> = (0..len)
            .filter(|i| self.is_set(from + i) == set)
            .map(|i| i as u32)
            .collect();
        let lease = budget.lease(rows.len() as u64 * 4, "flagged rows")?;
        Ok(Buffer::host(rows, lease))
    }

    /// Whether each of the flags `from .. from + len` is `set`, as a Boolean column.
    pub(crate) fn column(
        &self,
        budget: &Arc<Budget>,
        from: usize,
        len: usize,
        set: bool,
    ) -> Result<Column> {
        let lease = budget.lease(len as u64 / 8, "mark column")?;
        let bits = BooleanBuffer::collect_bool(len, |i| self.is_set(from + i) == set);
        let array: ArrayRef = Arc::new(BooleanArray::new(bits, None));
        Ok(Column::host(array, lease))
    }
}
