//! [`Keys`]: order-preserving words of a column, and the domain in which other columns get comparable words.

use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::opaque::Opaque;

/// Order-preserving keys of a column: `a < b` exactly if `keys[a] < keys[b]`, among keys of one [`KeyDomain`].
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) values: Buffer<u64>,
    /// A bit for each row, set if its value is not NULL; `None` if no value is NULL. A NULL satisfies no comparison.
    pub(crate) valid: Option<Bits>,
}

impl Keys {
    pub(crate) fn rows(&self) -> usize {
        self.values.len()
    }
}

/// How values of other columns are made comparable with a base column's keys.
#[derive(Debug)]
pub(crate) enum KeyDomain {
    /// A key depends on the value alone.
    Natural,
    /// `key = value - low + 1`; values outside `low ..= high` are clamped to 0 and `high - low + 2`.
    Offset { low: i128, high: i128 },
    /// Keys are ranks among the base column's distinct values.
    Ranked(Ranks),
}

impl KeyDomain {
    /// The distance from `low`; `None` unless the values up to `high`, and one more at each end, span at most 64 bits.
    pub(crate) fn offset(low: i128, high: i128) -> Option<Self> {
        let span = high.checked_sub(low)?;
        (span <= i128::from(u64::MAX - 2)).then_some(Self::Offset { low, high })
    }
}

/// The sorted distinct values of a base column.
#[derive(Debug)]
pub(crate) struct Ranks(pub(crate) Opaque);

/// The group id of a row without a group: it matches nothing.
pub(crate) const NO_GROUP: u32 = u32::MAX;
