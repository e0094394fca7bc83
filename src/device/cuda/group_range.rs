//! Direct address: keys in a narrow range are group ids once the least of them is taken off (`kernels/group_range.cu`).

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::group_ids::Ids;
use super::queue::{Arg, Memory, Queue, Shape};
use super::stored::Stored;
use super::values::{Values, width};
use crate::device::buffer::Column;
use crate::error::{BowtieError, Result};

/// Ids without a table. Not every id has rows.
#[derive(Debug)]
pub(super) struct DirectIds<'a> {
    words: Words<'a>,
    first: u32,
    /// Ids are below this.
    pub(super) range: usize,
}

#[derive(Debug)]
enum Words<'a> {
    /// The values of a column of 32 bits without NULLs, as they are.
    Values(&'a Memory),
    Made(Memory),
}

impl DirectIds<'_> {
    pub(super) fn ids(&self) -> Ids<'_> {
        let words = match &self.words {
            Words::Values(values) => values,
            Words::Made(made) => made,
        };
        Ids {
            words,
            first: self.first,
        }
    }
}

/// Ids that nobody has: accumulators of so many a row cost less than a table.
const RANGE_PER_ROW: usize = 2;
/// A range that is always narrow.
const NARROW: usize = 1 << 12;
/// The widest, whatever the rows: results have a place for each id.
const WIDEST: usize = 1 << 27;

/// Values that are numbers to the kernels.
#[derive(Debug, Clone, Copy)]
struct Number<'a> {
    values: &'a Values,
    /// Of signed types the sign bit; `None` for Booleans.
    sign: Option<u64>,
}

impl<'a> Number<'a> {
    fn of(column: &'a Column) -> Option<Self> {
        let Some(Stored::Fixed(values)) = column.stored() else {
            return None;
        };
        use DataType::*;
        let sign = match &values.data_type {
            Boolean => None,
            UInt8 | UInt16 | UInt32 | UInt64 => Some(0),
            Int8 => Some(1 << 7),
            Int16 => Some(1 << 15),
            Int32 | Date32 | Time32(_) | Decimal32(..) => Some(1 << 31),
            Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
                Some(1 << 63)
            }
            _ => return None,
        };
        Some(Self { values, sign })
    }

    /// Values of 32 bits are ids once the least of them, as it is, is taken off: differences wrap, so signs do not matter.
    fn as_ids(self, digits: &Digits) -> Option<(&'a Memory, u32)> {
        match (width(&self.values.data_type), &self.values.valid, self.sign) {
            (Some(4), None, Some(sign)) => {
                Some((&self.values.values, (digits.least ^ sign) as u32))
            }
            _ => None,
        }
    }

    fn kernel(self, of: [&'static str; 4]) -> Result<&'static str> {
        match width(&self.values.data_type) {
            Some(1) => Ok(of[0]),
            Some(2) => Ok(of[1]),
            Some(4) => Ok(of[2]),
            Some(8) => Ok(of[3]),
            _ => Err(BowtieError::Internal("a number of no width".into())),
        }
    }
}

/// Digits that a column gives to the ids.
#[derive(Debug, Clone, Copy)]
struct Digits {
    least: u64,
    /// Values from the least to the greatest; a NULL is the digit after them.
    values: u64,
    nullable: bool,
}

/// The digits' product, where it is narrow for so many rows.
fn range_of(digits: &[Digits], rows: usize) -> Option<usize> {
    let widest = (RANGE_PER_ROW * rows).clamp(NARROW, WIDEST) as u64;
    let of = |digits: &Digits| digits.values.checked_add(u64::from(digits.nullable));
    let range = digits.iter().try_fold(1u64, |range, digits| {
        range.checked_mul(of(digits)?).filter(|r| *r <= widest)
    })?;
    Some(range as usize)
}

impl Queue {
    /// Ids of `rows` rows by direct address; `None` where keys are no numbers, or lie too far apart. `from_0`: the words are to
    /// be the ids themselves.
    pub(super) fn direct_ids<'a>(
        self: &Arc<Self>,
        keys: &[&'a Column],
        rows: usize,
        from_0: bool,
    ) -> Result<Option<DirectIds<'a>>> {
        let Some(numbers) = keys
            .iter()
            .map(|key| Number::of(key))
            .collect::<Option<Vec<_>>>()
        else {
            return Ok(None);
        };
        let digits = self.digits(&numbers, rows)?;
        let Some(range) = range_of(&digits, rows) else {
            return Ok(None);
        };
        if let ([number], [digits], false) = (&numbers[..], &digits[..], from_0)
            && let Some((words, first)) = number.as_ids(digits)
        {
            return Ok(Some(DirectIds {
                words: Words::Values(words),
                first,
                range,
            }));
        }
        let ids = self.alloc(rows * 4, "group ids")?;
        let mut stride = 1u64;
        for (i, (number, digits)) in numbers.iter().zip(&digits).enumerate() {
            self.add_digits(*number, *digits, (stride as u32, i > 0), &ids, rows)?;
            stride *= digits.values + u64::from(digits.nullable);
        }
        Ok(Some(DirectIds {
            words: Words::Made(ids),
            first: 0,
            range,
        }))
    }

    fn digits(self: &Arc<Self>, numbers: &[Number<'_>], rows: usize) -> Result<Vec<Digits>> {
        const BYTES: usize = 16;
        let unknown = [u64::MAX.to_le_bytes(), 0u64.to_le_bytes()].concat();
        let extents = self.send(&unknown.repeat(numbers.len()), "key ranges")?;
        for (i, number) in numbers.iter().enumerate() {
            let Some(sign) = number.sign else { continue };
            let kernel = number.kernel([
                "group_range_extent8",
                "group_range_extent16",
                "group_range_extent32",
                "group_range_extent64",
            ])?;
            let args = [
                (&number.values.values).into(),
                number.values.valid.as_ref().into(),
                (rows as u32).into(),
                sign.into(),
                extents.part(i * BYTES).into(),
            ];
            // SAFETY: a column holds as many values of the kernel's width as there are rows, and as many bits; its extent is two
            // words.
            unsafe { self.launch(kernel, self.strips(rows.div_ceil(4)), &args)? };
        }
        let mut bytes = vec![0; numbers.len() * BYTES];
        self.read_few(&mut bytes, &extents, 0)?;
        let word = |at: usize| {
            let word = bytes[at..][..8].try_into();
            u64::from_le_bytes(word.unwrap_or_default())
        };
        Ok(numbers
            .iter()
            .enumerate()
            .map(|(i, number)| {
                let (least, greatest) = match number.sign {
                    None => (0, 1),
                    Some(_) => (word(i * BYTES), word(i * BYTES + 8)),
                };
                Digits {
                    least,
                    // None at all where all rows are NULL.
                    values: match least <= greatest {
                        true => (greatest - least).saturating_add(1),
                        false => 0,
                    },
                    nullable: number.values.valid.is_some(),
                }
            })
            .collect())
    }

    /// Adds a column's digits, times a stride, to what other columns gave.
    fn add_digits(
        &self,
        number: Number<'_>,
        digits: Digits,
        (stride, add): (u32, bool),
        ids: &Memory,
        rows: usize,
    ) -> Result<()> {
        let null = digits.values as u32;
        let mut args: Vec<Arg> = vec![
            (&number.values.values).into(),
            number.values.valid.as_ref().into(),
            (rows as u32).into(),
        ];
        let kernel = match number.sign {
            None => "group_range_ids_bool",
            Some(sign) => {
                args.extend([Arg::from(sign), digits.least.into()]);
                number.kernel([
                    "group_range_ids8",
                    "group_range_ids16",
                    "group_range_ids32",
                    "group_range_ids64",
                ])?
            }
        };
        args.extend([
            Arg::from(null),
            stride.into(),
            u32::from(add).into(),
            ids.into(),
        ]);
        // SAFETY: a column holds as many values of the kernel's width as there are rows, and as many bits; `ids` holds a word a row.
        unsafe { self.launch(kernel, Shape::rows(rows), &args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_ranges_are_products() {
        let digits = |values, nullable| Digits {
            least: 5,
            values,
            nullable,
        };
        assert_eq!(range_of(&[digits(7, false)], 1), Some(7));
        assert_eq!(range_of(&[digits(7, true), digits(2, true)], 1), Some(24));
        assert_eq!(range_of(&[digits(0, true)], 10), Some(1));
        assert_eq!(range_of(&[digits(4097, false)], 10), None);
        assert_eq!(range_of(&[digits(100_000, false)], 50_000), Some(100_000));
        assert_eq!(range_of(&[digits(100_001, false)], 50_000), None);
        assert_eq!(range_of(&[digits(u64::MAX, true)], 1 << 30), None);
        assert_eq!(range_of(&[digits(1 << 27, false)], 1 << 30), Some(1 << 27));
        let wide = [digits(1 << 20, false), digits(1 << 20, false)];
        assert_eq!(range_of(&wide, 1 << 30), None);
    }
}
