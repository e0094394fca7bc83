//! Predicates on text and binary values, and substrings by characters. Dictionaries are tested once for each of their
//! values; the keys gather the results.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::builder::make_view;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, GenericStringArray,
    OffsetSizeTrait, StringViewArray,
};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::column::Column;
use crate::device::host::columns::text_values::{INLINE, TextValues};
use crate::device::host::columns::values::bytes_of;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;
use crate::ir::text_predicate::{LikePattern, TextPredicate, TextSlice, TextTest};

/// Rows that one task tests.
const TASK_ROWS: usize = 1 << 13;

/// A check for cancellation: an error if the query is cancelled.
type CancelCheck<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// The result of `test` for each value.
pub(crate) fn test_text(
    budget: &Arc<Budget>,
    column: &Column,
    other: Option<&Column>,
    test: &TextTest,
    check_cancelled: CancelCheck<'_>,
) -> Result<Column> {
    let other = other.map(Column::on_host).transpose()?;
    let truths = truths(column.on_host()?, other, test, check_cancelled)?;
    let truths: ArrayRef = Arc::new(truths);
    let lease = budget.lease(bytes_of(std::slice::from_ref(&truths))?, "columns")?;
    Ok(Column::host(truths, lease))
}

fn truths(
    array: &ArrayRef,
    other: Option<&ArrayRef>,
    test: &TextTest,
    check_cancelled: CancelCheck<'_>,
) -> Result<BooleanArray> {
    let rows = array.len();
    if let TextPredicate::Present = test.predicate {
        let nulls = array.logical_nulls();
        return Ok(BooleanArray::new(BooleanBuffer::new_set(rows), nulls));
    }
    if let Some(other) = other {
        let (array, other) = (undictionaried(array)?, undictionaried(other)?);
        let TextPredicate::Column(op, _) = test.predicate else {
            return Err(BowtieError::Internal(
                "a test with a column too many".into(),
            ));
        };
        let (left, right) = (TextValues::of(&array)?, TextValues::of(&other)?);
        let nulls = arrow::buffer::NullBuffer::union(array.nulls(), other.nulls());
        let truths = by_row(rows, check_cancelled, |row| {
            holds(op, left.value(row).cmp(right.value(row)))
        })?;
        return Ok(BooleanArray::new(truths, nulls));
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let of_values = truths(dictionary.values(), None, test, check_cancelled)?;
        let gathered = take(&of_values, dictionary.keys(), None)?;
        return Ok(gathered.as_boolean().clone());
    }
    let values = TextValues::of(array)?;
    let truths = by_row(rows, check_cancelled, |row| {
        let value = values.value(row);
        let value = match test.slice {
            Some(slice) => &value[characters(value, slice)],
            None => value,
        };
        says(&test.predicate, value)
    })?;
    Ok(BooleanArray::new(truths, array.nulls().cloned()))
}

fn undictionaried(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values)?,
        _ => Arc::clone(array),
    })
}

fn by_row(
    rows: usize,
    check_cancelled: CancelCheck<'_>,
    says: impl Fn(usize) -> bool + Sync,
) -> Result<BooleanBuffer> {
    let parts = (0..rows.div_ceil(TASK_ROWS)).into_par_iter().map(|task| {
        check_cancelled()?;
        let from = task * TASK_ROWS;
        let rows = TASK_ROWS.min(rows - from);
        Ok(BooleanBuffer::collect_bool(rows, |i| says(from + i)))
    });
    let parts = parts.collect::<Result<Vec<BooleanBuffer>>>()?;
    let mut all = BooleanBufferBuilder::new(rows);
    for part in &parts {
        all.append_buffer(part);
    }
    Ok(all.finish())
}

fn says(predicate: &TextPredicate, value: &[u8]) -> bool {
    match predicate {
        TextPredicate::Present | TextPredicate::Column(..) => true,
        TextPredicate::Among(constants) => constants
            .binary_search_by(|constant| constant.as_slice().cmp(value))
            .is_ok(),
        TextPredicate::Compare(op, constant) => holds(*op, value.cmp(constant)),
        TextPredicate::Like(pattern) => is_like(pattern, value),
    }
}

fn holds(op: Comparison, order: Ordering) -> bool {
    match op {
        Comparison::Lt => order.is_lt(),
        Comparison::LtEq => order.is_le(),
        Comparison::Gt => order.is_gt(),
        Comparison::GtEq => order.is_ge(),
        Comparison::Eq => order.is_eq(),
        Comparison::NotEq => order.is_ne(),
    }
}

/// Whether a character begins with this byte (UTF-8).
fn begins(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// The position of the next character after the one at `at`.
fn next(value: &[u8], at: usize) -> usize {
    let rest = value[at + 1..].iter();
    at + 1 + rest.take_while(|byte| !begins(**byte)).count()
}

/// The bytes of the characters that `slice` selects.
fn characters(value: &[u8], slice: TextSlice) -> Range<usize> {
    let ahead = |mut at: usize, count: u32| {
        // All characters, whatever their number.
        if count as usize >= value.len() - at {
            return value.len();
        }
        for _ in 0..count {
            if at == value.len() {
                break;
            }
            at = next(value, at);
        }
        at
    };
    let start = ahead(0, slice.skip);
    start..ahead(start, slice.take)
}

/// Matches segment by segment from the left: the leftmost occurrence of a segment leaves most bytes for the following
/// ones.
fn is_like(pattern: &LikePattern, value: &[u8]) -> bool {
    let Some((first, rest)) = pattern.segments.split_first() else {
        return false;
    };
    let Some(mut at) = end_of(first, value, 0) else {
        return false;
    };
    let Some((last, between)) = rest.split_last() else {
        return at == value.len();
    };
    for segment in between {
        let ends = (at..value.len())
            .filter(|at| begins(value[*at]))
            .find_map(|at| end_of(segment, value, at));
        match ends {
            Some(end) => at = end,
            None => return false,
        }
    }
    start_of(last, value).is_some_and(|start| start >= at)
}

/// The end of a segment that begins at `at`, if the value matches it there.
fn end_of(segment: &[u8], value: &[u8], mut at: usize) -> Option<usize> {
    for byte in segment {
        match value.get(at)? {
            _ if *byte == LikePattern::ANY => at = next(value, at),
            found if found == byte => at += 1,
            _ => return None,
        }
    }
    Some(at)
}

/// The begin of the segment at the end of the value, if it matches there.
fn start_of(segment: &[u8], value: &[u8]) -> Option<usize> {
    let mut at = value.len();
    for byte in segment.iter().rev() {
        at = at.checked_sub(1)?;
        if *byte == LikePattern::ANY {
            while !begins(value[at]) {
                at = at.checked_sub(1)?;
            }
        } else if value[at] != *byte {
            return None;
        }
    }
    Some(at)
}

/// The same substring of each value.
pub(crate) fn slice_text(
    budget: &Arc<Budget>,
    column: &Column,
    slice: TextSlice,
) -> Result<Column> {
    let array = column.on_host()?;
    let sliced: ArrayRef = match array.data_type() {
        DataType::Utf8 => Arc::new(slices(array.as_string::<i32>(), slice)),
        DataType::LargeUtf8 => Arc::new(slices(array.as_string::<i64>(), slice)),
        DataType::Utf8View => Arc::new(slices_of_views(array.as_string_view(), slice)?),
        other => return Err(BowtieError::Internal(format!("{other} has no characters"))),
    };
    let lease = budget.lease(bytes_of(std::slice::from_ref(&sliced))?, "columns")?;
    Ok(Column::host(sliced, lease))
}

fn slices<O: OffsetSizeTrait>(
    array: &GenericStringArray<O>,
    slice: TextSlice,
) -> GenericStringArray<O> {
    let values = array.iter();
    values
        .map(|value| value.map(|value| &value[characters(value.as_bytes(), slice)]))
        .collect()
}

/// Substrings of views share the bytes of the values.
fn slices_of_views(array: &StringViewArray, slice: TextSlice) -> Result<StringViewArray> {
    let views = array.views().iter().enumerate().map(|(row, view)| {
        if array.is_null(row) {
            return 0;
        }
        let value = array.value(row).as_bytes();
        let place = characters(value, slice);
        let (buffer, from) = match value.len() {
            ..=INLINE => (0, 0),
            _ => ((view >> 64) as u32, (view >> 96) as u32),
        };
        make_view(&value[place.clone()], buffer, from + place.start as u32)
    });
    Ok(StringViewArray::try_new(
        ScalarBuffer::from(views.collect::<Vec<u128>>()),
        array.data_buffers().to_vec(),
        array.nulls().cloned(),
    )?)
}
