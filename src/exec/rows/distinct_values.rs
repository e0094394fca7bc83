//! [`distinct_values`]: the distinct values of a column, and which of them each row has.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};

/// With more rows a sample comes first.
const SAMPLED: usize = 1 << 14;
/// Rows of a sample.
const SAMPLE: usize = 1 << 12;

/// This number of distinct values is never too many.
const FEW: usize = 1 << 10;
/// Otherwise a value must occur in so many rows on average,
const ROWS_OF_A_VALUE: usize = 4;
/// and there are at most so many.
const MOST: usize = 1 << 20;

/// The distinct values of a column, on the host, and on the device the number of the value of each row. NULL is a value.
#[derive(Debug)]
pub(crate) struct DistinctValues {
    pub(crate) numbers: Buffer<u32>,
    pub(crate) values: ArrayRef,
}

/// The distinct values of a column of type `data_type`. `None` where there are too many to gain from them, or where values that group as
/// equal may differ.
pub(crate) fn distinct_values(
    device: &dyn Device,
    column: &Column,
    data_type: &DataType,
) -> Result<Option<DistinctValues>> {
    let rows = column.rows();
    if rows == 0 || !are_equal_alike(data_type) || has_many(device, column)? {
        return Ok(None);
    }
    let grouped = device.aggregate(rows, &[column], &[], None)?;
    let [values] = grouped.keys.as_slice() else {
        return Err(BowtieError::Internal("groups without their key".into()));
    };
    if grouped.groups > FEW && grouped.groups > (rows / ROWS_OF_A_VALUE).min(MOST) {
        return Ok(None);
    }
    let (ids, domain) = device.group_keys(&[values], true)?;
    let numbers = device.group_keys_in(&domain, &[column])?;
    // The value of each number.
    let mut places = vec![None; grouped.groups];
    for (place, id) in device.read(&ids)?.iter().enumerate() {
        if let Some(of_id) = places.get_mut(*id as usize) {
            *of_id = u32::try_from(place).ok();
        }
    }
    let places = places.into_iter().collect::<Option<Vec<u32>>>();
    let places = places.ok_or_else(|| BowtieError::Internal("a value without a number".into()))?;
    let values = take(&device.download(values)?, &UInt32Array::from(places), None)?;
    Ok(Some(DistinctValues { numbers, values }))
}

/// Whether no function distinguishes values of the type that group as equal. Floats have two zeros, and intervals of equal length differ.
fn are_equal_alike(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => are_equal_alike(values),
        DataType::Interval(_) => false,
        other => !other.is_floating() && !other.is_nested(),
    }
}

/// Whether a sample has so few values twice that the column has too many of them. Of `n` rows, each of one of `d` equally frequent
/// values, some `n² / 2d` repeat an earlier one; where frequencies differ, more do.
fn has_many(device: &dyn Device, column: &Column) -> Result<bool> {
    let rows = column.rows();
    if rows <= SAMPLED {
        return Ok(false);
    }
    let at = |i: usize| (i as u64 * rows as u64 / SAMPLE as u64) as u32;
    let sample: ArrayRef = Arc::new(UInt32Array::from_iter_values((0..SAMPLE).map(at)));
    let sample = Arc::into_inner(device.upload(&[sample])?)
        .ok_or_else(|| BowtieError::Internal("a sample that is shared".into()))?;
    let sample = device.gather(column, &sample.into_row_ids()?)?;
    let distinct = device.aggregate(SAMPLE, &[&sample], &[], None)?.groups;
    let repeated = (SAMPLE - distinct.min(SAMPLE)) as u64;
    let most = (rows / ROWS_OF_A_VALUE).min(MOST) as u64;
    Ok(repeated * 2 * most < (SAMPLE * SAMPLE) as u64)
}
