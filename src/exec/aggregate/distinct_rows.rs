//! Whether rows are distinct, so that each is a group by itself.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{cast, max, min};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::hash_utils::{RandomState, create_hashes};

use crate::error::Result;

/// Rows that are looked at first: where keys repeat, they do so among few.
const FEW: usize = 1024;

/// Values up to which the span of integers is marked by a bit each, for every row.
const SPAN_PER_ROW: u64 = 64;

/// Whether no two rows of `columns` are equal, where NULLs are. `false` may also be an accident of hashes, or of types
/// whose equal values may differ.
pub(crate) fn are_distinct(columns: &[ArrayRef]) -> Result<bool> {
    let columns = columns.iter();
    let columns: Vec<ArrayRef> = columns
        .filter(|column| is_equal_by_bytes(column.data_type()))
        .cloned()
        .collect();
    let Some(first) = columns.first() else {
        return Ok(false);
    };
    let few = columns.iter();
    let few: Vec<ArrayRef> = few.map(|c| c.slice(0, c.len().min(FEW))).collect();
    if !have_distinct_hashes(&few)? {
        return Ok(false);
    }
    if first.len() <= FEW {
        return Ok(true);
    }
    for column in &columns {
        if are_distinct_integers(column)? {
            return Ok(true);
        }
    }
    have_distinct_hashes(&columns)
}

fn have_distinct_hashes(columns: &[ArrayRef]) -> Result<bool> {
    let mut hashes = vec![0; columns[0].len()];
    create_hashes(columns, &RandomState::default(), &mut hashes)?;
    hashes.sort_unstable();
    Ok(hashes.windows(2).all(|pair| pair[0] != pair[1]))
}

fn is_equal_by_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_equal_by_bytes(values),
        other => !other.is_floating() && !other.is_nested(),
    }
}

/// Whether they are integers without NULLs, close to one another and distinct.
fn are_distinct_integers(column: &ArrayRef) -> Result<bool> {
    let fits = matches!(
        column.data_type(),
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
    );
    if !fits || column.null_count() > 0 {
        return Ok(false);
    }
    let words = cast(column, &DataType::Int64)?;
    let words = words.as_primitive::<Int64Type>();
    let (Some(least), Some(greatest)) = (min(words), max(words)) else {
        return Ok(true);
    };
    let span = greatest.abs_diff(least);
    if span / SPAN_PER_ROW > words.len() as u64 {
        return Ok(false);
    }
    let mut seen = vec![0u64; (span / 64 + 1) as usize];
    Ok(words.values().iter().all(|word| {
        let at = word.abs_diff(least);
        let (place, bit) = ((at / 64) as usize, 1 << (at % 64));
        let is_new = seen[place] & bit == 0;
        seen[place] |= bit;
        is_new
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray, UInt32Array};

    use super::*;

    fn distinct(columns: &[ArrayRef]) -> bool {
        are_distinct(columns).unwrap()
    }

    #[test]
    fn rows_are_distinct_if_their_values_are() {
        let close: ArrayRef = Arc::new(Int64Array::from(vec![-3, 5, 0, 61, -67]));
        let far: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX, 7, 8]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "", "c", "ab"]));
        let repeated: ArrayRef = Arc::new(UInt32Array::from(vec![1, 2, 2, 3, 4]));
        let other: ArrayRef = Arc::new(StringArray::from(vec!["x", "x", "y", "x", "x"]));
        for column in [&close, &far, &text] {
            assert!(distinct(&[Arc::clone(column)]), "{column:?}");
            assert!(distinct(&[Arc::clone(&repeated), Arc::clone(column)]));
        }
        assert!(!distinct(&[Arc::clone(&repeated)]));
        assert!(distinct(&[Arc::clone(&repeated), Arc::clone(&other)]));
        assert!(!distinct(&[other]));
        let many: ArrayRef = Arc::new(Int64Array::from_iter_values(-5000..5000));
        let text = cast(&many, &DataType::Utf8).unwrap();
        let twice: Vec<i64> = (0..9999).chain([7]).collect();
        let twice: ArrayRef = Arc::new(Int64Array::from(twice));
        assert!(distinct(&[Arc::clone(&many)]) && distinct(&[text]));
        assert!(!distinct(&[Arc::clone(&twice)]));
        assert!(!distinct(&[cast(&twice, &DataType::Utf8).unwrap()]));
        assert!(distinct(&[twice, many]));
    }

    #[test]
    fn nulls_are_equal_and_floats_are_not_judged() {
        let one: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let two: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1), None]));
        assert!(distinct(&[one]));
        assert!(!distinct(&[two]));
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        assert!(!distinct(&[zeros]));
        assert!(!distinct(&[]));
    }
}
