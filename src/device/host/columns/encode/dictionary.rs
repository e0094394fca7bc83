//! Text and binary values of which there are few, as numbers of their sorted distinct values.
//!
//! ```text
//! a sample ─► few distinct values? ─► parallel: numbers of each task's own values ─► all values, sorted ─► parallel: codes
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{ArrowPrimitiveType, DataType, UInt8Type, UInt16Type};
use hashbrown::HashMap;
use rayon::prelude::*;

use crate::device::data::encoding::{ArrayValues, EncodedArrays};
use crate::device::host::columns::text_values::TextValues;
use crate::error::Result;
use crate::ir::program::Kind;

/// The most values of a dictionary, with NULL.
const MOST: usize = 1 << 16;
/// Rows that decide whether it is worth reading all of them.
const SAMPLED: usize = 1 << 13;
/// A dictionary is made for at least this many rows a value.
const ROWS_PER_VALUE: usize = 4;
/// Rows of a task, as far as parts are not longer.
const TASK_ROWS: usize = 1 << 17;

/// The number of a NULL among a task's own values.
const NULL: u16 = u16::MAX;

/// The codes of some parts of one type; `None` if they have too many values.
pub(crate) fn encode(parts: &[ArrayRef]) -> Result<Option<EncodedArrays>> {
    let rows: usize = parts.iter().map(|part| part.len()).sum();
    let most = (MOST - 1).min(rows / ROWS_PER_VALUE);
    if !may_be_few(parts, rows, most)? {
        return Ok(None);
    }
    let numbered = tasks(parts).into_par_iter();
    let numbered = numbered.map(|part| Numbered::of(parts, part, most));
    let Some(numbered) = numbered.collect::<Result<Option<Vec<_>>>>()? else {
        return Ok(None);
    };
    let Some(all) = AllValues::of(&numbered, most) else {
        return Ok(None);
    };
    let values = all.values.len() + usize::from(all.has_nulls);
    let (code, codes) = match values {
        ..=0x100 => (Kind::U8, codes::<UInt8Type>(&numbered, &all, |n| n as u8)),
        _ => (
            Kind::U16,
            codes::<UInt16Type>(&numbered, &all, |n| n as u16),
        ),
    };
    Ok(Some(EncodedArrays {
        codes,
        code,
        bound: values as u64,
        blocks: None,
        values: ArrayValues::Dictionary(all.array(parts)?),
    }))
}

/// Whether the values of some rows of text repeat so often that a column of such values has codes.
pub(crate) fn repeats(part: &ArrayRef) -> bool {
    let most = part.len() / ROWS_PER_VALUE;
    may_be_few(std::slice::from_ref(part), part.len(), most).unwrap_or(false)
}

/// Whether a sample of the rows does not have too many values.
fn may_be_few(parts: &[ArrayRef], rows: usize, most: usize) -> Result<bool> {
    if most == 0 {
        return Ok(false);
    }
    let (mut seen, mut sampled) = (HashMap::<&[u8], ()>::new(), 0);
    let each = SAMPLED.div_ceil(parts.len()).max(1);
    for part in parts {
        let values = TextValues::of(part.as_ref())?;
        let step = (part.len() / each).max(1);
        for row in (0..part.len()).step_by(step) {
            seen.insert(values.value(row), ());
            sampled += 1;
        }
    }
    // All rows were seen, or some values repeat in the sample: of 2^16 values, one in 16.
    Ok(match sampled == rows {
        true => seen.len() <= most,
        false => seen.len() + sampled / 64 <= sampled,
    })
}

/// Consecutive parts of about [`TASK_ROWS`] rows.
fn tasks(parts: &[ArrayRef]) -> Vec<std::ops::Range<usize>> {
    let (mut tasks, mut from, mut rows) = (vec![], 0, 0);
    for (at, part) in parts.iter().enumerate() {
        rows += part.len();
        if rows >= TASK_ROWS || at + 1 == parts.len() {
            tasks.push(from..at + 1);
            (from, rows) = (at + 1, 0);
        }
    }
    tasks
}

/// Some parts, with numbers of their own values in the order in which these occur.
struct Numbered<'a> {
    /// Each value, with the part and the row where it occurs first.
    values: Vec<(&'a [u8], (usize, usize))>,
    /// Of each part.
    numbers: Vec<Vec<u16>>,
    has_nulls: bool,
}

impl<'a> Numbered<'a> {
    /// `None` if there are more than `most` values.
    fn of(
        parts: &'a [ArrayRef],
        task: std::ops::Range<usize>,
        most: usize,
    ) -> Result<Option<Self>> {
        let mut known = HashMap::<&[u8], u16>::new();
        let mut made = Self {
            values: vec![],
            numbers: vec![],
            has_nulls: false,
        };
        for at in task {
            let part = &parts[at];
            let values = TextValues::of(part.as_ref())?;
            let nulls = part.nulls().filter(|nulls| nulls.null_count() > 0);
            made.has_nulls |= nulls.is_some();
            let mut numbers = Vec::with_capacity(part.len());
            for row in 0..part.len() {
                if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                    numbers.push(NULL);
                    continue;
                }
                let value = values.value(row);
                let next = made.values.len();
                let number = *known.entry(value).or_insert(next as u16);
                if usize::from(number) == next {
                    if next == most {
                        return Ok(None);
                    }
                    made.values.push((value, (at, row)));
                }
                numbers.push(number);
            }
            made.numbers.push(numbers);
        }
        Ok(Some(made))
    }
}

/// The values of all tasks, sorted.
struct AllValues<'a> {
    /// Each value's number, part and row.
    numbers: HashMap<&'a [u8], usize>,
    values: Vec<(&'a [u8], (usize, usize))>,
    has_nulls: bool,
}

impl<'a> AllValues<'a> {
    fn of(tasks: &[Numbered<'a>], most: usize) -> Option<Self> {
        let mut numbers = HashMap::new();
        let mut values = vec![];
        for (value, place) in tasks.iter().flat_map(|task| &task.values) {
            if numbers.insert(*value, 0).is_none() {
                values.push((*value, *place));
            }
        }
        if values.len() > most {
            return None;
        }
        values.sort_unstable();
        for (number, (value, _)) in values.iter().enumerate() {
            numbers.insert(*value, number);
        }
        Some(Self {
            numbers,
            values,
            has_nulls: tasks.iter().any(|task| task.has_nulls),
        })
    }

    /// The values as an array of the parts' type.
    fn array(&self, parts: &[ArrayRef]) -> Result<ArrayRef> {
        let null = new_null_array(parts[0].data_type(), 1);
        let mut arrays: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        arrays.push(null.as_ref());
        let mut places: Vec<(usize, usize)> = self.values.iter().map(|(_, at)| *at).collect();
        if self.has_nulls {
            places.push((parts.len(), 0));
        }
        let values = interleave(&arrays, &places)?;
        // Views would keep the bytes of all parts alive.
        Ok(match values.data_type() {
            DataType::Utf8View => Arc::new(values.as_string_view().gc()),
            DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
            _ => values,
        })
    }
}

fn codes<C: ArrowPrimitiveType>(
    tasks: &[Numbered<'_>],
    all: &AllValues<'_>,
    code: impl Fn(usize) -> C::Native + Sync,
) -> Vec<ArrayRef> {
    let codes = tasks.par_iter().flat_map_iter(|task| {
        let of_values = task.values.iter();
        let of_values =
            of_values.map(|(value, _)| code(all.numbers.get(value).copied().unwrap_or(0)));
        let of_values: Vec<C::Native> = of_values.collect();
        let null = code(all.values.len());
        task.numbers.iter().map(move |numbers| {
            let codes = numbers.iter().map(|number| match *number {
                NULL => null,
                number => of_values[usize::from(number)],
            });
            let codes = PrimitiveArray::<C>::from_iter_values(codes);
            Arc::new(codes) as ArrayRef
        })
    });
    codes.collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, LargeStringArray, StringArray, StringViewArray};
    use arrow::compute::{concat, take};

    use super::*;

    fn round_trip(parts: &[ArrayRef]) -> Option<(Kind, usize)> {
        let EncodedArrays {
            codes,
            code,
            values,
            ..
        } = encode(parts).unwrap()?;
        let ArrayValues::Dictionary(values) = values else {
            panic!("text has no least value");
        };
        assert_eq!(codes.len(), parts.len());
        for (codes, part) in codes.iter().zip(parts) {
            assert_eq!(codes.null_count(), 0);
            assert_eq!(&take(&values, codes, None).unwrap(), part);
        }
        Some((code, values.len()))
    }

    #[test]
    fn values_of_every_layout_are_numbered_in_their_order() {
        let text = ["b", "", "a long value that no view holds inline", "b"];
        let texts = || {
            text.iter()
                .copied()
                .map(Some)
                .chain([None])
                .cycle()
                .take(40)
        };
        let arrays: [ArrayRef; 4] = [
            Arc::new(StringArray::from_iter(texts())),
            Arc::new(LargeStringArray::from_iter(texts())),
            Arc::new(StringViewArray::from_iter(texts())),
            Arc::new(BinaryArray::from_iter(
                texts().map(|t| t.map(str::as_bytes)),
            )),
        ];
        for array in arrays {
            let parts = [array.slice(0, 13), array.slice(13, 0), array.slice(13, 27)];
            assert_eq!(round_trip(&parts), Some((Kind::U8, 4)));
        }
    }

    #[test]
    fn values_that_are_many_are_not_numbered() {
        let rows = 1 << 18;
        let of = |values: usize| -> [ArrayRef; 2] {
            // Each value, and then any.
            let value = |i: usize| match i < values {
                true => i,
                false => {
                    (i as u64)
                        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                        .rotate_left(20) as usize
                        % values
                }
            };
            let text = (0..rows).map(|i| format!("{:07}", value(i)));
            let all = StringArray::from_iter_values(text);
            [
                Arc::new(all.slice(0, 100_000)),
                Arc::new(all.slice(100_000, rows - 100_000)),
            ]
        };
        assert_eq!(round_trip(&of(256)), Some((Kind::U8, 256)));
        assert_eq!(round_trip(&of(257)), Some((Kind::U16, 257)));
        assert_eq!(round_trip(&of(MOST - 1)), Some((Kind::U16, MOST - 1)));
        assert_eq!(round_trip(&of(MOST)), None);
        assert_eq!(round_trip(&of(rows)), None);
        let few: [ArrayRef; 1] = [Arc::new(StringArray::from(vec!["a", "b", "a"]))];
        assert_eq!(round_trip(&few), None);
        assert_eq!(
            round_trip(&[Arc::new(StringArray::from(Vec::<&str>::new()))]),
            None
        );
    }

    #[test]
    fn one_value_and_null_alone_are_values() {
        let same: ArrayRef = Arc::new(StringArray::from(vec!["x"; 9]));
        assert_eq!(round_trip(&[same]), Some((Kind::U8, 1)));
        let nulls: ArrayRef = Arc::new(StringViewArray::from(vec![None::<&str>; 9]));
        assert_eq!(round_trip(&[Arc::clone(&nulls)]), Some((Kind::U8, 1)));
        let both = concat(&[&nulls, &StringViewArray::from(vec!["y"; 9])]).unwrap();
        assert_eq!(both.as_string_view().null_count(), 9);
        assert_eq!(round_trip(&[both]), Some((Kind::U8, 2)));
    }
}
