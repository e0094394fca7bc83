//! [`KeyBitmap`]: the set of keys of one side, one bit for each key of a range. It suffices where equal keys are the
//! whole condition and only the existence of a match matters.
//!
//! Keys are addressed directly: the bit of a key is its distance from the least key, and several columns are digits of
//! one mixed-radix number. A table of positions has 32 bits for each address, so the range of a bitmap of the same size
//! is 32 times as wide.

use arrow::datatypes::DataType;

use crate::device::data::structures::Flags;
use crate::error::{BowtieError, Result};
use crate::ir::physical_type::TypeRow;
use crate::ir::strategies::EquiStrategy;

/// The most bits for each indexed row, unless direct addressing is forced: as many bytes as a hash table has.
const BITS_PER_ROW: u64 = 128;

/// Bits that are allowed for any number of rows.
const FEW_BITS: u64 = 1 << 20;

/// Bit numbers are 32 bits wide, and the greatest one means none.
const MOST_BITS: u64 = u32::MAX as u64 - 1;

/// The bitmap may have at most this fraction of the budget: one `MEMORY_SHARE`-th.
pub(crate) const MEMORY_SHARE: u64 = 8;

/// The margin at each end of a sampled range: one `MARGIN_SHARE`-th of the range.
const MARGIN_SHARE: u64 = 64;

/// Margins are multiples of this number of bits, so that consecutive ascending keys share words as they would without
/// margins.
const ALIGNED: u64 = 32;

/// Whether values of a type are integers whose differences are addresses.
pub(crate) fn are_addresses(data_type: &DataType) -> bool {
    TypeRow::of(data_type).is_integer
}

/// The least and the greatest value of a key column, as words. Words have the order and the distances of the values.
/// `least` exceeds `greatest` if there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub least: u64,
    pub greatest: u64,
}

impl Extent {
    /// The extent of no value.
    pub(crate) const NONE: Self = Self {
        least: u64::MAX,
        greatest: 0,
    };

    /// The extent of the values of both.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
        }
    }

    /// Extended at both ends for values that a sample missed, up to `most`.
    pub(crate) fn with_margin(self, most: u64) -> Self {
        if self.least > self.greatest {
            return self;
        }
        let margin = (self.greatest - self.least) / MARGIN_SHARE;
        let margin = margin.next_multiple_of(ALIGNED);
        Self {
            least: self.least.saturating_sub(margin),
            greatest: self.greatest.saturating_add(margin).min(most),
        }
    }

    fn holds(self, other: Self) -> bool {
        let is_none = other.least > other.greatest;
        is_none || (self.least <= other.least && other.greatest <= self.greatest)
    }
}

/// The range of the keys of some rows: the extent of each key column. The words are those of the device that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange(pub(crate) Vec<Extent>);

impl KeyRange {
    /// The range of the keys of both.
    pub(crate) fn with(self, other: &Self) -> Self {
        let both = self.0.into_iter().zip(&other.0);
        Self(both.map(|(a, b)| a.with(*b)).collect())
    }

    /// Whether it is the range of no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|extent| extent.least > extent.greatest)
    }

    /// Whether all keys of the other range are in it.
    fn holds(&self, other: &Self) -> bool {
        let both = self.0.iter().zip(&other.0);
        both.into_iter().all(|(a, b)| a.holds(*b))
    }

    /// Whether a bitmap of the range is as fast as a table for `rows` rows, or direct addressing is forced.
    pub(crate) fn is_narrow(
        &self,
        null_equal: bool,
        rows: u64,
        strategy: Option<EquiStrategy>,
    ) -> bool {
        let places = BitNumbering::of(self, null_equal);
        let direct = strategy == Some(EquiStrategy::Direct);
        places.is_some_and(|places| direct || places.is_worthwhile(rows))
    }
}

fn most_bits(rows: u64) -> u64 {
    FEW_BITS.max(rows.saturating_mul(BITS_PER_ROW))
}

/// Whether about `bits` bits are few for `rows` rows, or allowed because direct addressing is forced.
pub(crate) fn are_few_bits(bits: f64, rows: u64, strategy: Option<EquiStrategy>) -> bool {
    let most = match strategy {
        Some(EquiStrategy::Direct) => MOST_BITS,
        _ => most_bits(rows).min(MOST_BITS),
    };
    bits <= most as f64
}

/// The digit of a key column in the number of a key's bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digits {
    pub least: u64,
    /// The number of values from the least to the greatest.
    pub values: u32,
    /// The digit of NULL, if NULLs are equal.
    pub null: Option<u32>,
    pub stride: u32,
}

impl Digits {
    /// The extent of the values that have digits.
    fn extent(&self) -> Extent {
        match self.values {
            0 => Extent::NONE,
            values => Extent {
                least: self.least,
                greatest: self.least + u64::from(values - 1),
            },
        }
    }
}

/// The numbering of a bitmap's bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BitNumbering {
    pub digits: Vec<Digits>,
    pub count: u64,
}

impl BitNumbering {
    /// `None` if the bits exceed 32-bit numbers.
    pub(crate) fn of(range: &KeyRange, null_equal: bool) -> Option<Self> {
        let mut count = 1u64;
        let mut digits = Vec::with_capacity(range.0.len());
        for Extent { least, greatest } in &range.0 {
            let values = match least <= greatest {
                true => (greatest - least).checked_add(1)?,
                false => 0,
            };
            let all = values.checked_add(u64::from(null_equal))?;
            let stride = count;
            count = count.checked_mul(all).filter(|count| *count <= MOST_BITS)?;
            digits.push(Digits {
                least: *least,
                values: u32::try_from(values).ok()?,
                null: null_equal.then_some(values as u32),
                stride: stride as u32,
            });
        }
        Some(Self { digits, count })
    }

    /// Whether the bitmap is as fast as a table for `rows` rows.
    fn is_worthwhile(&self, rows: u64) -> bool {
        self.count <= most_bits(rows)
    }
}

/// One bit for each key of a range.
#[derive(Debug)]
pub(crate) struct KeyBitmap {
    pub(crate) places: BitNumbering,
    pub(crate) bits: Flags,
}

impl KeyBitmap {
    /// `range`, or the range of no key if all keys in it have bits.
    pub(crate) fn unless_held(&self, range: KeyRange) -> KeyRange {
        let extents = self.places.digits.iter().map(Digits::extent);
        match KeyRange(extents.collect()).holds(&range) {
            true => KeyRange(vec![Extent::NONE; range.0.len()]),
            false => range,
        }
    }

    /// The digits of the key columns. An error if their number is not `columns`.
    pub(crate) fn digits(&self, columns: usize) -> Result<&[Digits]> {
        match columns == self.places.digits.len() {
            true => Ok(&self.places.digits),
            false => Err(BowtieError::Internal("bits of other keys".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(extents: &[(u64, u64)]) -> KeyRange {
        let extents = extents.iter();
        KeyRange(
            extents
                .map(|(least, greatest)| Extent {
                    least: *least,
                    greatest: *greatest,
                })
                .collect(),
        )
    }

    fn count(extents: &[(u64, u64)], null_equal: bool) -> Option<u64> {
        BitNumbering::of(&range(extents), null_equal).map(|places| places.count)
    }

    #[test]
    fn places_are_products() {
        assert_eq!(count(&[(5, 11)], false), Some(7));
        assert_eq!(count(&[(5, 11)], true), Some(8));
        assert_eq!(count(&[(5, 11), (0, 1)], true), Some(24));
        assert_eq!(count(&[(u64::MAX, 0)], false), Some(0));
        assert_eq!(count(&[(u64::MAX, 0)], true), Some(1));
        assert_eq!(count(&[(5, 11), (u64::MAX, 0)], false), Some(0));
        assert_eq!(count(&[(0, u64::MAX)], false), None);
        assert_eq!(count(&[(0, u64::MAX - 1)], true), None);
        assert_eq!(count(&[(7, 6 + MOST_BITS)], false), Some(MOST_BITS));
        assert_eq!(count(&[(7, 6 + MOST_BITS)], true), None);
        assert_eq!(count(&[(0, 1 << 20), (0, 1 << 20)], false), None);
        let places = BitNumbering::of(&range(&[(5, 11), (0, 1)]), true).unwrap();
        let [first, second] = places.digits[..] else {
            panic!("two columns");
        };
        assert_eq!((first.stride, first.null), (1, Some(7)));
        assert_eq!((second.stride, second.null), (8, Some(2)));
    }

    #[test]
    fn ranges_grow() {
        let of_both = range(&[(5, 11), (u64::MAX, 0)]).with(&range(&[(2, 7), (3, 3)]));
        assert_eq!(of_both, range(&[(2, 11), (3, 3)]));
    }

    #[test]
    fn samples_say_more_than_they_saw() {
        let extent = |least, greatest| Extent { least, greatest };
        let with_margin = |least, greatest| extent(least, greatest).with_margin(u32::MAX.into());
        assert_eq!(with_margin(5, 5), extent(5, 5));
        assert_eq!(
            with_margin(1 << 20, 1 << 21),
            extent((1 << 20) - (1 << 14), (1 << 21) + (1 << 14))
        );
        assert_eq!(with_margin(100, 100 + 64), extent(68, 196));
        assert_eq!(with_margin(1, u32::MAX.into()), extent(0, u32::MAX.into()));
        let whole = extent(1, u64::MAX - 1).with_margin(u64::MAX);
        assert_eq!(whole, extent(0, u64::MAX));
        assert_eq!(Extent::NONE.with_margin(u64::MAX), Extent::NONE);
    }

    #[test]
    fn a_range_holds_what_lies_in_all_of_its_extents() {
        let all = range(&[(5, 11), (2, 3)]);
        for (others, holds) in [
            ([(5, 11), (2, 3)], true),
            ([(6, 7), (3, 3)], true),
            ([(u64::MAX, 0), (u64::MAX, 0)], true),
            ([(4, 7), (3, 3)], false),
            ([(6, 12), (3, 3)], false),
            ([(6, 7), (3, 4)], false),
        ] {
            assert_eq!(all.holds(&range(&others)), holds, "{others:?}");
        }
        let none = range(&[(u64::MAX, 0)]);
        assert!(none.holds(&none) && !none.holds(&range(&[(0, 0)])));
    }

    #[test]
    fn few_bits_a_row_pay() {
        let pay = |count, rows| {
            let digits = vec![];
            BitNumbering { digits, count }.is_worthwhile(rows)
        };
        assert!(pay(FEW_BITS, 0));
        assert!(!pay(FEW_BITS + 1, 10));
        assert!(pay(1 << 28, 1 << 21));
        assert!(!pay(1 << 28, (1 << 21) - 1));
    }
}
