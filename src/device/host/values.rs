//! Moving values: across the border (which on the host is a lease and a shared reference), by gather, and by compaction.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, UInt32Array,
    downcast_primitive_array, new_null_array,
};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::order_key::is_valid;
use crate::device::MAX_CHUNK_ROWS;
use crate::device::budget::Budget;
use crate::device::buffer::{Buffer, Column, Keys};
use crate::error::{BowtieError, Result};
use crate::spec::Comparison;

pub(super) fn upload(budget: &Arc<Budget>, array: &ArrayRef) -> Result<Column> {
    if array.len() > MAX_CHUNK_ROWS {
        return Err(BowtieError::TooLarge(format!(
            "{} rows in one chunk",
            array.len()
        )));
    }
    let lease = budget.lease(array.to_data().get_slice_memory_size()? as u64, "columns")?;
    Ok(Column::host(Arc::clone(array), lease))
}

pub(super) fn gather(budget: &Arc<Budget>, column: &Column, rows: &Buffer<u32>) -> Result<Column> {
    let rows = UInt32Array::new(rows.on_host().clone(), None);
    let array = take(column.on_host(), &rows, None)?;
    // The size of gathered strings is known only afterwards; a piece is small beside a chunk.
    let lease = budget.lease(
        array.to_data().get_slice_memory_size()? as u64,
        "output columns",
    )?;
    Ok(Column::host(array, lease))
}

pub(super) fn repeat(
    budget: &Arc<Budget>,
    column: &Column,
    row: u32,
    times: usize,
) -> Result<Column> {
    let array = column.on_host();
    let repeated: ArrayRef = if array.is_null(row as usize) {
        new_null_array(array.data_type(), times)
    } else {
        downcast_primitive_array! {
            array => repeat_value(array, row as usize, times),
            _ => take(array, &UInt32Array::from_value(row, times), None)?,
        }
    };
    let lease = budget.lease(
        repeated.to_data().get_slice_memory_size()? as u64,
        "output columns",
    )?;
    Ok(Column::host(repeated, lease))
}

fn repeat_value<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    row: usize,
    times: usize,
) -> ArrayRef {
    let repeated = PrimitiveArray::<T>::from_value(array.value(row), times);
    Arc::new(repeated.with_data_type(array.data_type().clone()))
}

pub(super) fn nulls(budget: &Arc<Budget>, data_type: &DataType, rows: usize) -> Result<Column> {
    let array = new_null_array(data_type, rows);
    let lease = budget.lease(
        array.to_data().get_slice_memory_size()? as u64,
        "output columns",
    )?;
    Ok(Column::host(array, lease))
}

pub(super) fn compact(
    budget: &Arc<Budget>,
    rows: &Buffer<u32>,
    keep: &BooleanArray,
) -> Result<Buffer<u32>> {
    if rows.len() != keep.len() {
        return Err(BowtieError::Internal(format!(
            "{} decisions on {} rows",
            keep.len(),
            rows.len()
        )));
    }
    // NULL is not TRUE.
    let keep = match keep.nulls() {
        Some(nulls) => keep.values() & nulls.inner(),
        None => keep.values().clone(),
    };
    let lease = budget.lease(keep.count_set_bits() as u64 * 4, "compacted rows")?;
    let rows = rows.on_host();
    Ok(Buffer::host(
        keep.set_indices().map(|i| rows[i]).collect(),
        lease,
    ))
}

pub(super) fn sequence(budget: &Arc<Budget>, from: u32, len: usize) -> Result<Buffer<u32>> {
    let lease = budget.lease(len as u64 * 4, "row ids")?;
    Ok(Buffer::host((from..from + len as u32).collect(), lease))
}

/// Pairs of NULL keys count as unsatisfied.
pub(super) fn sample_selectivity(left: &Keys, op: Comparison, right: &Keys, sample: usize) -> f64 {
    let spread = |keys: &Keys| -> Vec<usize> {
        let rows = keys.rows();
        let count = rows.min(sample);
        (0..count)
            .map(|i| (i as u128 * rows as u128 / count as u128) as usize)
            .collect()
    };
    let (left_rows, right_rows) = (spread(left), spread(right));
    if left_rows.is_empty() || right_rows.is_empty() {
        return 0.0;
    }
    let satisfied: usize = left_rows
        .iter()
        .filter(|l| is_valid(left, **l))
        .map(|l| {
            let word = left.values.on_host()[*l];
            right_rows
                .iter()
                .filter(|r| is_valid(right, **r) && op.holds(word, right.values.on_host()[**r]))
                .count()
        })
        .sum();
    satisfied as f64 / (left_rows.len() * right_rows.len()) as f64
}
