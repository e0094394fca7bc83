//! The windows of consecutive characters of each text of a column, as lists. A text with fewer characters than a window is one itself.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StringArrayType};
use arrow::buffer::{Buffer as Bytes, OffsetBuffer};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field};
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::column::Column;
use crate::device::host::columns::values::bytes_of;
use crate::error::{BowtieError, Result};

/// Rows that one task cuts, at least.
const TASK_ROWS: usize = 1 << 13;

/// A list of the windows of `length` characters of each value.
///
/// # Errors
/// [`BowtieError::NeedsDataFusion`] where the windows of a single text are too long: that is an error of the function.
pub(crate) fn shingle_text(budget: &Arc<Budget>, column: &Column, length: u32) -> Result<Column> {
    let texts = column.on_host()?;
    let reserved = budget.lease(estimated_bytes(texts, length)?, "columns")?;
    let lists = lists_of(texts, length).map_err(|error| match error {
        BowtieError::MustSplit { .. } if column.rows() == 1 => BowtieError::NeedsDataFusion,
        error => error,
    })?;
    drop(reserved);
    let lease = budget.lease(bytes_of(std::slice::from_ref(&lists))?, "columns")?;
    Ok(Column::host(lists, lease))
}

/// The same of an array.
///
/// # Errors
/// [`BowtieError::MustSplit`] where offsets cannot count the bytes of all windows.
pub(crate) fn lists_of(texts: &ArrayRef, length: u32) -> Result<ArrayRef> {
    let task_rows = texts.len().div_ceil(rayon::current_num_threads());
    let task_rows = task_rows.max(TASK_ROWS);
    let begins: Vec<usize> = (0..texts.len().max(1)).step_by(task_rows).collect();
    let lists = begins.par_iter().map(|begin| {
        let texts = texts.slice(*begin, task_rows.min(texts.len() - begin));
        let made = match texts.data_type() {
            DataType::Utf8 => windows(texts.as_string::<i32>(), length),
            DataType::LargeUtf8 => windows(texts.as_string::<i64>(), length),
            DataType::Utf8View => windows(texts.as_string_view(), length),
            other => Err(BowtieError::Internal(format!("{other} has no characters"))),
        };
        made.map(|lists| Arc::new(lists) as ArrayRef)
    });
    let lists = lists.collect::<Result<Vec<_>>>()?;
    if let [lists] = &lists[..] {
        return Ok(Arc::clone(lists));
    }
    check_bytes(bytes_of(&lists)?)?;
    Ok(concat(
        &lists.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
    )?)
}

/// The bytes of all windows with their offsets, as if each character had one byte.
fn estimated_bytes(texts: &ArrayRef, length: u32) -> Result<u64> {
    fn sum<'a>(texts: impl StringArrayType<'a>, length: u64) -> u64 {
        let bytes = texts.iter().map(|text| {
            let bytes = text.map_or(0, |text| text.len() as u64);
            match bytes > length {
                true => (bytes - length + 1).saturating_mul(length + 4),
                false => bytes + 4,
            }
        });
        bytes.fold(0, u64::saturating_add)
    }
    let length = u64::from(length);
    Ok(match texts.data_type() {
        DataType::Utf8 => sum(texts.as_string::<i32>(), length),
        DataType::LargeUtf8 => sum(texts.as_string::<i64>(), length),
        DataType::Utf8View => sum(texts.as_string_view(), length),
        other => return Err(BowtieError::Internal(format!("{other} has no characters"))),
    })
}

/// Offsets have 32 bits.
fn check_bytes(bytes: u64) -> Result<()> {
    match bytes > i32::MAX as u64 {
        false => Ok(()),
        true => Err(BowtieError::MustSplit {
            what: "column of shingles",
            size: bytes,
            most: i32::MAX as u64,
            unit: "bytes",
        }),
    }
}

fn windows<'a>(texts: impl StringArrayType<'a>, length: u32) -> Result<ListArray> {
    let (mut bytes, mut ends, mut lists) = (vec![], vec![0i32], vec![0i32]);
    let length = length as usize;
    for row in 0..texts.len() {
        if texts.is_valid(row) {
            let text = texts.value(row);
            let begins = text.char_indices().map(|(at, _)| at);
            // Where windows end: at each character behind the first ones, and at the end.
            let mut later = begins.clone().skip(length).chain([text.len()]);
            for begin in begins {
                let Some(end) = later.next() else {
                    break;
                };
                bytes.extend_from_slice(&text.as_bytes()[begin..end]);
                check_bytes(bytes.len() as u64)?;
                ends.push(bytes.len() as i32);
            }
        }
        lists.push((ends.len() - 1) as i32);
    }
    let values =
        StringArray::try_new(OffsetBuffer::new(ends.into()), Bytes::from_vec(bytes), None)?;
    Ok(ListArray::try_new(
        Arc::new(Field::new_list_field(DataType::Utf8, true)),
        OffsetBuffer::new(lists.into()),
        Arc::new(values),
        texts.logical_nulls(),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(texts: Vec<Option<&str>>, length: u32) -> Vec<Option<Vec<String>>> {
        let array: ArrayRef = Arc::new(StringArray::from(texts));
        let lists = lists_of(&array, length).unwrap();
        let lists = lists.as_list::<i32>();
        let list = |list: ArrayRef| {
            let list = list.as_string::<i32>();
            (0..list.len()).map(|i| list.value(i).to_string()).collect()
        };
        lists.iter().map(|l| l.map(list)).collect()
    }

    #[test]
    fn windows_of_characters() {
        let texts = vec![Some("abcd"), None, Some(""), Some("aß→x"), Some("é")];
        let own = |windows: &[&str]| Some(windows.iter().map(|w| w.to_string()).collect());
        assert_eq!(
            shown(texts, 3),
            [
                own(&["abc", "bcd"]),
                None,
                own(&[]),
                own(&["aß→", "ß→x"]),
                own(&["é"])
            ]
        );
    }

    #[test]
    fn tasks_lie_one_behind_the_other() {
        let texts: Vec<String> = (0..3 * TASK_ROWS).map(|i| format!("{i}é")).collect();
        let of = |texts: &[String]| shown(texts.iter().map(|t| Some(t.as_str())).collect(), 2);
        let all = of(&texts);
        assert_eq!(all.len(), texts.len());
        for row in [0, TASK_ROWS - 1, TASK_ROWS, 3 * TASK_ROWS - 1] {
            assert_eq!(all[row..=row], of(&texts[row..=row]), "{row}");
        }
    }
}
