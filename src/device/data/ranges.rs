//! Rows in the order of their keys, and ranges of them.

use crate::device::data::buffer::Buffer;

/// Rows of a chunk in the order (group, key), with rows that can match nothing left out.
#[derive(Debug)]
pub(crate) struct OrderedRows {
    /// Row id at each sorted position.
    pub(crate) rows: Buffer<u32>,
    /// Keys at each sorted position; `None` when only grouped.
    pub(crate) keys: Option<Buffer<u64>>,
    /// Group `g` lies at positions `segments[g] .. segments[g + 1]`; `None` when all rows are one group.
    pub(crate) segments: Option<Buffer<u32>>,
}

impl OrderedRows {
    /// Rows in an order without keys.
    pub(crate) fn of_rows(rows: Buffer<u32>) -> Self {
        Self {
            rows,
            keys: None,
            segments: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// For every searching position the sorted positions `lo .. hi` that its row matches (`lo == hi`: none).
#[derive(Debug)]
pub(crate) struct Ranges {
    pub(crate) lo: Buffer<u32>,
    pub(crate) hi: Buffer<u32>,
}

impl Ranges {
    pub(crate) fn rows(&self) -> usize {
        self.lo.len()
    }
}

/// Matching row ids, one of each side a pair.
#[derive(Debug)]
pub(crate) struct Pairs {
    pub(crate) probe: Buffer<u32>,
    pub(crate) build: Buffer<u32>,
}
