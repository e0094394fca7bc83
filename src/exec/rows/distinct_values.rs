//! [`distinct_values`]: the distinct values of a column, and which of them each row has.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::strategies::Grouping;

/// With more rows a sample comes first.
const SAMPLED: usize = 1 << 14;
/// Rows of a sample.
const SAMPLE: usize = 1 << 12;

/// Up to this number of distinct values is always few.
const FEW: usize = 1 << 10;
/// More are few if the mean number of rows of a value is at least this,
const ROWS_OF_A_VALUE: usize = 4;
/// and their number is at most this.
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
    let grouped = device.aggregate(rows, &[column], &[], Grouping::AUTO)?;
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
    let distinct = device
        .aggregate(SAMPLE, &[&sample], &[], Grouping::AUTO)?
        .groups;
    let repeated = (SAMPLE - distinct.min(SAMPLE)) as u64;
    let most = (rows / ROWS_OF_A_VALUE).min(MOST) as u64;
    Ok(repeated * 2 * most < (SAMPLE * SAMPLE) as u64)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, DictionaryArray, Float64Array, Int32Array, StringArray};
    use arrow::datatypes::Int32Type;

    use super::*;
    use crate::device::budget::Budget;
    use crate::device::host::device::HostDevice;
    use crate::device::primitives::transfer::TransferPrimitives;

    fn of(device: &dyn Device, array: &ArrayRef) -> Option<DistinctValues> {
        let column = device.upload(&[Arc::clone(array)]).unwrap();
        distinct_values(device, &column, array.data_type()).unwrap()
    }

    #[test]
    fn each_row_has_the_number_of_its_value() {
        let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
        let text = |i: usize| (i % 7 != 2).then(|| format!("a text of some length {}", i % 5));
        for rows in [1, 40, SAMPLED, SAMPLED + 1, 3 * SAMPLED] {
            let texts: ArrayRef = Arc::new((0..rows).map(text).collect::<StringArray>());
            let texts_of_dictionary = (0..rows).map(|i| text(i).map(|_| ["x", "y", "z"][i % 3]));
            let dictionary: DictionaryArray<Int32Type> = texts_of_dictionary.collect();
            let numbers = (0..rows).map(|i| (i % 3 != 1).then_some(i as i32 % 9));
            let numbers: ArrayRef = Arc::new(numbers.collect::<Int32Array>());
            for array in [texts, Arc::new(dictionary), numbers] {
                let distinct = of(&device, &array).unwrap();
                assert!(distinct.values.len() <= 9 + 1, "{}", array.data_type());
                let row_values =
                    UInt32Array::new(distinct.numbers.on_host().unwrap().clone(), None);
                let values = take(&distinct.values, &row_values, None).unwrap();
                assert_eq!(&values, &array);
            }
        }
    }

    #[test]
    fn many_values_and_values_that_only_group_alike() {
        let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
        let rows = 3 * SAMPLED;
        let many: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows as i32));
        assert!(of(&device, &many).is_none());
        // A sample does not tell, the groups do.
        let twice = (0..rows as i32).map(|i| if i % 8 < 6 { 0 } else { i });
        let often: ArrayRef = Arc::new(Int32Array::from_iter_values(twice));
        let column = device.upload(&[Arc::clone(&often)]).unwrap();
        assert!(!has_many(&device, &column).unwrap());
        assert!(of(&device, &often).is_none());
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        assert!(of(&device, &zeros).is_none());
        let none: ArrayRef = Arc::new(Int32Array::from_iter_values([]));
        assert!(of(&device, &none).is_none());
    }
}
