//! Moving values: across the border (which on the host is a lease and a shared reference), by gather, and by compaction.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::order_key::is_valid;
use crate::device::budget::Budget;
use crate::device::buffer::{Buffer, Column, Keys};
use crate::device::check_chunk_rows;
use crate::device::width::gathered_bytes;
use crate::error::{BowtieError, Result};
use crate::spec::Comparison;

pub(super) fn upload(budget: &Arc<Budget>, parts: &[ArrayRef]) -> Result<Column> {
    check_chunk_rows(parts.iter().map(|part| part.len()).sum())?;
    let lease = budget.lease(bytes_of(parts)?, "columns")?;
    Ok(Column::host(together(parts)?, lease))
}

/// One array of all parts, copied only where there are several.
pub(in crate::device) fn together(parts: &[ArrayRef]) -> Result<ArrayRef> {
    match parts {
        [part] => Ok(Arc::clone(part)),
        parts => {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            Ok(concat(&parts)?)
        }
    }
}

/// Bytes of the rows of all parts.
pub(in crate::device) fn bytes_of(parts: &[ArrayRef]) -> Result<u64> {
    let mut bytes = 0;
    for part in parts {
        bytes += part.to_data().get_slice_memory_size()? as u64;
    }
    Ok(bytes)
}

pub(super) fn gather(budget: &Arc<Budget>, column: &Column, rows: &Buffer<u32>) -> Result<Column> {
    let array = column.on_host();
    let rows = UInt32Array::new(rows.on_host().clone(), None);
    let bytes = gathered_bytes(array, rows.values())?;
    // Arrow's 32-bit offsets end here; the caller makes a shorter piece, as for any refused lease.
    let too_long = || BowtieError::OutOfDeviceMemory {
        what: "one column of an output piece",
        requested: bytes,
        in_use: 0,
        limit: i32::MAX as u64,
    };
    if bytes > i32::MAX as u64 && rows.len() > 1 {
        return Err(too_long());
    }
    let lease = budget.lease(bytes, "output columns")?;
    match take(array, &rows, None) {
        Ok(gathered) => Ok(Column::host(gathered, lease)),
        // Text inside of lists, of which only the mean length was known.
        Err(ArrowError::OffsetOverflowError(_)) if rows.len() > 1 => Err(too_long()),
        Err(error) => Err(error.into()),
    }
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
    let keep = kept(rows.len(), keep)?;
    let lease = budget.lease(keep.count_set_bits() as u64 * 4, "compacted rows")?;
    let rows = rows.on_host();
    Ok(Buffer::host(
        keep.set_indices().map(|i| rows[i]).collect(),
        lease,
    ))
}

/// Which of `rows` rows are kept: NULL is not TRUE.
pub(in crate::device) fn kept(rows: usize, keep: &BooleanArray) -> Result<BooleanBuffer> {
    if rows != keep.len() {
        return Err(BowtieError::Internal(format!(
            "{} decisions on {rows} rows",
            keep.len()
        )));
    }
    Ok(match keep.nulls() {
        Some(nulls) => keep.values() & nulls.inner(),
        None => keep.values().clone(),
    })
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
