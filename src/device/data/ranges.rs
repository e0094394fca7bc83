//! Rows in key order, ranges of their positions, and matches as row ids.

use crate::device::data::buffer::Buffer;

/// Rows of a chunk in the order (group, key). Rows that can match nothing are missing.
#[derive(Debug)]
pub(crate) struct OrderedRows {
    /// The row id at each position.
    pub(crate) rows: Buffer<u32>,
    /// The key at each position; `None` if rows are only grouped.
    pub(crate) keys: Option<Buffer<u64>>,
    /// Group `g` has the positions `segments[g] .. segments[g + 1]`; `None` if all rows are one group.
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

/// For each probe position, the build positions `lo .. hi` that its row matches (`lo == hi`: none).
#[derive(Debug)]
pub(crate) struct Ranges {
    pub(crate) lo: Buffer<u32>,
    pub(crate) hi: Buffer<u32>,
}

impl Ranges {
    pub(crate) fn rows(&self) -> usize {
        self.lo.len()
    }

    /// Whether there are more ranges than lists, which are the segments of `matches`.
    pub(crate) fn share_lists(&self, matches: &OrderedRows) -> bool {
        let segments = matches.segments.as_ref();
        segments.is_some_and(|segments| segments.len() <= self.rows())
    }
}

/// The row ids of matches: one of each side for each match.
#[derive(Debug)]
pub(crate) struct Pairs {
    pub(crate) probe: Buffer<u32>,
    pub(crate) build: Buffer<u32>,
}
