//! [`Keys`]: order-preserving words of a column, and the domain in which other columns get comparable ones.

use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::opaque::Opaque;

/// Order-preserving keys of a column: `a < b` exactly when `keys[a] < keys[b]`, among keys of one [`KeyDomain`].
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) values: Buffer<u64>,
    /// Rows whose value is not NULL; `None` when all are. A NULL satisfies no comparison.
    pub(crate) valid: Option<Bits>,
}

impl Keys {
    pub(crate) fn rows(&self) -> usize {
        self.values.len()
    }
}

/// How values of other columns become comparable with a base column's keys.
#[derive(Debug)]
pub(crate) enum KeyDomain {
    /// Keys depend on the value alone.
    Natural,
    /// `key = value - low + 1`; values outside `low ..= high` are clamped to 0 and `high - low + 2`.
    Offset { low: i128, high: i128 },
    /// Ranks among the base column's distinct values.
    Ranked(Ranks),
}

impl KeyDomain {
    /// The distance from `low`, where the values up to `high`, and one more on either side, span at most 64 bits.
    pub(crate) fn offset(low: i128, high: i128) -> Option<Self> {
        let span = high.checked_sub(low)?;
        (span <= i128::from(u64::MAX - 2)).then_some(Self::Offset { low, high })
    }
}

/// The sorted distinct values of a base column.
#[derive(Debug)]
pub(crate) struct Ranks(pub(crate) Opaque);

/// "In no group": the row can match nothing.
pub(crate) const NO_GROUP: u32 = u32::MAX;
