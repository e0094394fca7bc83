//! Values of columns: upload (on the host a reservation and a shared reference), gather and compaction.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, UInt32Array,
    downcast_primitive_array, new_empty_array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use hashbrown::HashMap;
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::host::keys::order_keys::HostKeys;
use crate::device::row_width::gathered_bytes;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;

/// Concatenates `parts` as one column and reserves its bytes.
pub(crate) fn upload(budget: &Arc<Budget>, parts: &[ArrayRef]) -> Result<Column> {
    check_chunk_rows(parts.iter().map(|part| part.len()).sum())?;
    let mut lease = budget.lease(bytes_of(parts)?, "columns")?;
    let column = concat_arrays(parts)?;
    if parts.len() > 1 {
        // Concatenation of several dictionaries may drop values.
        lease.shrink_to(bytes_of(std::slice::from_ref(&column))?);
    }
    Ok(Column::host(column, lease))
}

/// Concatenates `parts`. A single part is shared, not copied.
pub(crate) fn concat_arrays(parts: &[ArrayRef]) -> Result<ArrayRef> {
    match parts {
        [part] => Ok(Arc::clone(part)),
        parts => {
            let parts: Vec<ArrayRef> = parts.iter().map(of_few_buffers).collect();
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            Ok(concat(&parts)?)
        }
    }
}

/// The most data buffers of a view array that are kept at concatenation.
const FEW_BUFFERS: usize = 64;

/// Copies the bytes of views with more than [`FEW_BUFFERS`] data buffers. A gathered column keeps all buffers of its
/// source, and a concatenated one those of all its parts: without copies, their number multiplies from join to join.
fn of_few_buffers(part: &ArrayRef) -> ArrayRef {
    match part.data_type() {
        DataType::Utf8View if part.as_string_view().data_buffers().len() > FEW_BUFFERS => {
            Arc::new(part.as_string_view().gc())
        }
        DataType::BinaryView if part.as_binary_view().data_buffers().len() > FEW_BUFFERS => {
            Arc::new(part.as_binary_view().gc())
        }
        _ => Arc::clone(part),
    }
}

/// Bytes of the rows of all parts. Dictionary values that all parts share count once, as concatenation does not copy
/// them.
pub(crate) fn bytes_of(parts: &[ArrayRef]) -> Result<u64> {
    if let Some(values) = shared_values(parts) {
        let keys = parts.iter().map(|part| part.as_any_dictionary().keys());
        let keys: Vec<ArrayRef> = keys.map(|keys| keys.slice(0, keys.len())).collect();
        return Ok(bytes_of(&keys)? + bytes_of(&[values])?);
    }
    let mut bytes = 0;
    for part in parts {
        bytes += part.to_data().get_slice_memory_size()? as u64;
    }
    Ok(bytes)
}

/// The values of the dictionaries, if all parts share them.
fn shared_values(parts: &[ArrayRef]) -> Option<ArrayRef> {
    let mut values = parts
        .iter()
        .map(|part| Some(part.as_any_dictionary_opt()?.values()));
    let first = values.next()??;
    let shared = parts.len() > 1
        && values.all(|values| values.is_some_and(|v| v.to_data().ptr_eq(&first.to_data())));
    shared.then(|| Arc::clone(first))
}

/// Row `i` of the result is row `rows[i]` of `column`.
pub(crate) fn gather(budget: &Arc<Budget>, column: &Column, rows: &Buffer<u32>) -> Result<Column> {
    gather_parts(
        budget,
        std::slice::from_ref(column.on_host()?),
        rows.on_host()?.clone(),
    )
}

/// Rows of several parts that one task gathers.
const TASK_ROWS: usize = 2048;

/// Rows from which on one part is gathered by several threads.
pub(crate) const MANY_ROWS: usize = 1 << 16;

/// Gathers rows of the concatenation of `parts` without concatenating them. Several parts are gathered by several
/// threads, as each row is a random read.
pub(crate) fn gather_parts(
    budget: &Arc<Budget>,
    parts: &[ArrayRef],
    rows: ScalarBuffer<u32>,
) -> Result<Column> {
    let rows = UInt32Array::new(rows, None);
    let firsts: Vec<u32> = parts
        .iter()
        .scan(0, |next, part| {
            let first = *next;
            *next += part.len() as u32;
            Some(first)
        })
        .collect();
    let places: Vec<(u64, Vec<(usize, usize)>)> = match parts {
        [array] => vec![(gathered_bytes(array, rows.values())?, vec![])],
        parts => rows
            .values()
            .par_chunks(TASK_ROWS)
            .map(|rows| places_in(parts, &firsts, rows))
            .collect::<Result<_>>()?,
    };
    let bytes: u64 = places.iter().map(|(bytes, _)| bytes).sum();
    // Arrow's 32-bit offsets end here; the caller makes a shorter piece, as for any refused lease.
    let too_long = || BowtieError::MustSplit {
        what: "column of an output batch",
        size: bytes.max(i32::MAX as u64 + 1),
        most: i32::MAX as u64,
        unit: "bytes",
    };
    if bytes > i32::MAX as u64 && rows.len() > 1 {
        return Err(too_long());
    }
    let lease = budget.lease(bytes, "output columns")?;
    let gathered = match parts {
        [array] if rows.len() >= MANY_ROWS && has_bytes_of_its_own(array.data_type()) => {
            let _pieces = match array.null_count() > 0 || !array.data_type().is_primitive() {
                true => Some(budget.lease(bytes, "output columns")?),
                false => None,
            };
            take_in_parallel(array, &rows)
        }
        [array] => take(array, &rows, None),
        _ if rows.is_empty() => Ok(new_empty_array(parts[0].data_type())),
        parts => {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            let pieces: std::result::Result<Vec<ArrayRef>, ArrowError> = places
                .par_iter()
                .map(|(_, places)| interleave(&parts, places))
                .collect();
            pieces.and_then(|pieces| match pieces.as_slice() {
                [piece] => Ok(Arc::clone(piece)),
                pieces => concat(&pieces.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
            })
        }
    };
    match gathered {
        Ok(gathered) => Ok(Column::host(gathered, lease)),
        // Text inside lists, of which only the mean length was known.
        Err(ArrowError::OffsetOverflowError(_)) if rows.len() > 1 => Err(too_long()),
        Err(error) => Err(error.into()),
    }
}

/// Arrow's `take` by several threads, as each row is a random read.
fn take_in_parallel(
    array: &ArrayRef,
    rows: &UInt32Array,
) -> std::result::Result<ArrayRef, ArrowError> {
    if array.null_count() == 0 {
        downcast_primitive_array! {
            array => return Ok(Arc::new(take_values(array, rows))),
            _ => {}
        }
    }
    let task_rows = rows.len().div_ceil(rayon::current_num_threads());
    let task_rows = task_rows.max(TASK_ROWS);
    let begins: Vec<usize> = (0..rows.len()).step_by(task_rows).collect();
    let of_task = |begin: &usize| {
        let rows = rows.slice(*begin, task_rows.min(rows.len() - begin));
        take(array, &rows, None)
    };
    let pieces: std::result::Result<Vec<ArrayRef>, ArrowError> =
        begins.par_iter().map(of_task).collect();
    concat(&pieces?.iter().map(AsRef::as_ref).collect::<Vec<_>>())
}

/// Of an array without NULLs.
fn take_values<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    rows: &UInt32Array,
) -> PrimitiveArray<T> {
    let values = array.values();
    let rows = rows.values().par_iter().with_min_len(TASK_ROWS);
    let taken: Vec<T::Native> = rows.map(|row| values[*row as usize]).collect();
    PrimitiveArray::new(taken.into(), None).with_data_type(array.data_type().clone())
}

/// Whether rows are copied by a concatenation, and nothing that they share with others.
fn has_bytes_of_its_own(data_type: &DataType) -> bool {
    use DataType::{Binary, Boolean, FixedSizeBinary, LargeBinary, LargeUtf8, Utf8};
    data_type.is_primitive()
        || matches!(
            data_type,
            Boolean | Utf8 | LargeUtf8 | Binary | LargeBinary | FixedSizeBinary(_)
        )
}

/// The bytes of `rows`, and the part and the row within the part of each. `firsts`: the first row of each part.
fn places_in(
    parts: &[ArrayRef],
    firsts: &[u32],
    rows: &[u32],
) -> Result<(u64, Vec<(usize, usize)>)> {
    let places: Vec<(usize, usize)> = rows
        .iter()
        .map(|row| {
            let part = firsts.partition_point(|first| first <= row) - 1;
            (part, (row - firsts[part]) as usize)
        })
        .collect();
    if let Some(width) = parts[0].data_type().primitive_width() {
        return Ok((width as u64 * rows.len() as u64, places));
    }
    let mut of_parts: HashMap<usize, Vec<u32>> = HashMap::new();
    for (part, row) in &places {
        of_parts.entry(*part).or_default().push(*row as u32);
    }
    let mut bytes = 0;
    for (part, rows) in of_parts {
        bytes += gathered_bytes(&parts[part], &rows)?;
    }
    Ok((bytes, places))
}

/// A column of `rows` NULLs.
pub(crate) fn nulls(budget: &Arc<Budget>, data_type: &DataType, rows: usize) -> Result<Column> {
    let array = new_null_array(data_type, rows);
    let lease = budget.lease(
        array.to_data().get_slice_memory_size()? as u64,
        "output columns",
    )?;
    Ok(Column::host(array, lease))
}

/// The entries of `rows` whose `keep` is TRUE, in order.
pub(crate) fn compact(
    budget: &Arc<Budget>,
    rows: &Buffer<u32>,
    keep: &BooleanArray,
) -> Result<Buffer<u32>> {
    let keep = kept(rows.len(), keep)?;
    let lease = budget.lease(keep.count_set_bits() as u64 * 4, "compacted rows")?;
    let rows = rows.on_host()?;
    Ok(Buffer::host(
        keep.set_indices().map(|i| rows[i]).collect(),
        lease,
    ))
}

/// The rows to keep: those whose flag is TRUE, not NULL.
pub(crate) fn kept(rows: usize, keep: &BooleanArray) -> Result<BooleanBuffer> {
    if rows != keep.len() {
        return Err(BowtieError::Internal(format!(
            "{} filter values for {rows} rows",
            keep.len()
        )));
    }
    Ok(match keep.nulls() {
        Some(nulls) => keep.values() & nulls.inner(),
        None => keep.values().clone(),
    })
}

/// The `len` numbers `from, from + 1, …`.
pub(crate) fn sequence(budget: &Arc<Budget>, from: u32, len: usize) -> Result<Buffer<u32>> {
    let lease = budget.lease(len as u64 * 4, "row ids")?;
    Ok(Buffer::host((from..from + len as u32).collect(), lease))
}

/// The fraction of sampled pairs that satisfy a comparison. Pairs with a NULL key do not.
pub(crate) fn sample_selectivity(
    left: &Keys,
    op: Comparison,
    right: &Keys,
    sample: usize,
) -> Result<f64> {
    let spread = |keys: &Keys| -> Vec<usize> {
        let rows = keys.rows();
        let count = rows.min(sample);
        (0..count)
            .map(|i| (i as u128 * rows as u128 / count as u128) as usize)
            .collect()
    };
    let (left_rows, right_rows) = (spread(left), spread(right));
    if left_rows.is_empty() || right_rows.is_empty() {
        return Ok(0.0);
    }
    let (left, right) = (HostKeys::new(left)?, HostKeys::new(right)?);
    let satisfied: usize = left_rows
        .iter()
        .filter(|l| left.is_valid(**l))
        .map(|l| {
            let holds = |r: usize| right.is_valid(r) && op.holds(left.words[*l], right.words[r]);
            right_rows.iter().filter(|r| holds(**r)).count()
        })
        .sum();
    Ok(satisfied as f64 / (left_rows.len() * right_rows.len()) as f64)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringArray, StringViewArray};
    use arrow::datatypes::Int8Type;

    use super::*;

    #[test]
    fn values_that_parts_share_are_counted_once() {
        let budget = Budget::new(u64::MAX);
        let words: Vec<_> = (0..100).map(|i| format!("{i:0>50}")).collect();
        let shared: arrow::array::DictionaryArray<Int8Type> =
            words.iter().map(|w| w.as_str()).collect();
        let parts: Vec<ArrayRef> = (0..10)
            .map(|i| shared.slice(10 * i, 10))
            .map(|p| Arc::new(p) as _)
            .collect();
        let column = upload(&budget, &parts).unwrap();
        assert_eq!(column.on_host().unwrap().len(), 100);
        let bytes = bytes_of(&[Arc::new(shared)]).unwrap();
        assert_eq!((column.bytes(), budget.in_use()), (bytes, bytes));
        assert_eq!(budget.peak(), bytes);
    }

    #[test]
    fn rows_of_several_parts_are_those_of_all_together() {
        let budget = Budget::new(u64::MAX);
        let text = |from: usize, len: usize| {
            (from..from + len).map(|i| (i % 5 != 0).then(|| "é".repeat(i)))
        };
        let spans = [(0, 7), (7, 0), (7, 1), (8, 30)];
        let columns: [Vec<ArrayRef>; 4] = [
            spans
                .map(|(from, len)| Arc::new(text(from, len).collect::<StringArray>()) as _)
                .into(),
            spans
                .map(|(from, len)| Arc::new(text(from, len).collect::<StringViewArray>()) as _)
                .into(),
            spans
                .map(|(from, len)| {
                    let values = (from..from + len).map(|i| (i % 3 != 0).then_some(i as i32));
                    Arc::new(values.collect::<Int32Array>()) as _
                })
                .into(),
            spans
                .map(|(from, len)| {
                    let names = text(from % 4, len).collect::<Vec<_>>();
                    let names = names.iter().map(|name| name.as_deref());
                    Arc::new(names.collect::<arrow::array::DictionaryArray<Int8Type>>()) as _
                })
                .into(),
        ];
        let rows: Vec<u32> = (0..200).map(|i| i * 29 % 38).collect();
        for parts in columns {
            let gathered = gather_parts(&budget, &parts, rows.clone().into()).unwrap();
            let whole = concat_arrays(&parts).unwrap();
            let expected = take(&whole, &UInt32Array::from(rows.clone()), None).unwrap();
            assert_eq!(gathered.on_host().unwrap(), &expected);
            let bytes = gathered_bytes(&whole, &rows).unwrap();
            assert_eq!(gathered.bytes(), bytes, "{}", whole.data_type());
        }
    }

    /// Repeated concatenation of views does not increase the number of buffers.
    #[test]
    fn buffers_of_views_do_not_multiply() {
        let value = |i: usize| format!("a value of more than twelve bytes {i}");
        let parts = (0..FEW_BUFFERS + 1).map(|i| {
            let array: StringViewArray = [Some(value(i)), None].into_iter().collect();
            Arc::new(array) as ArrayRef
        });
        let mut whole = concat_arrays(&parts.collect::<Vec<_>>()).unwrap();
        for _ in 0..3 {
            let twice = concat_arrays(&[Arc::clone(&whole), Arc::clone(&whole)]).unwrap();
            let rows = UInt32Array::from_iter_values(0..whole.len() as u32);
            let half = take(&twice, &rows, None).unwrap();
            assert_eq!(&half, &whole);
            assert!(twice.as_string_view().data_buffers().len() <= 2 * FEW_BUFFERS);
            whole = half;
        }
    }
}
