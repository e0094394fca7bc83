//! Widths of values: the bytes of a gathered column, computed before it is gathered.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;

use crate::error::Result;

/// The bytes of `array[rows]`: exact for fixed widths and text, by mean widths for nested values. Data that rows share,
/// such as the values of a dictionary, does not count.
pub(crate) fn gathered_bytes(array: &ArrayRef, rows: &[u32]) -> Result<u64> {
    let count = rows.len() as u64;
    Ok(match array.data_type() {
        DataType::Utf8 => 4 * count + lengths(array.as_string::<i32>().offsets(), rows),
        DataType::LargeUtf8 => 8 * count + lengths(array.as_string::<i64>().offsets(), rows),
        DataType::Binary => 4 * count + lengths(array.as_binary::<i32>().offsets(), rows),
        DataType::LargeBinary => 8 * count + lengths(array.as_binary::<i64>().offsets(), rows),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            4 * count + lengths(list.offsets(), rows) * mean_bytes(list.values())?
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            8 * count + lengths(list.offsets(), rows) * mean_bytes(list.values())?
        }
        DataType::Struct(_) => {
            let mut bytes = 0;
            for child in array.as_struct().columns() {
                bytes += gathered_bytes(child, rows)?;
            }
            bytes
        }
        _ => count * mean_bytes(array)?,
    })
}

/// The mean bytes of a value, at least 1.
pub(crate) fn mean_bytes(array: &ArrayRef) -> Result<u64> {
    let rows = array.len().max(1) as u64;
    let mean = |elements: usize, values: &ArrayRef| -> Result<u64> {
        Ok((elements as u64 * mean_bytes(values)?).div_ceil(rows) + 4)
    };
    Ok(match array.data_type() {
        DataType::Dictionary(key, _) => key.primitive_width().unwrap_or(8) as u64,
        DataType::Utf8View | DataType::BinaryView => 16,
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            mean(span(list.offsets()), list.values())?
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            mean(span(list.offsets()), list.values())?
        }
        DataType::FixedSizeList(_, size) => {
            *size as u64 * mean_bytes(array.as_fixed_size_list().values())?
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let mut entry = 0;
            for child in map.entries().columns() {
                entry += mean_bytes(child)?;
            }
            (span(map.offsets()) as u64 * entry).div_ceil(rows) + 4
        }
        DataType::Struct(_) => {
            let mut bytes = 0;
            for child in array.as_struct().columns() {
                bytes += mean_bytes(child)?;
            }
            bytes
        }
        other => match other.primitive_width() {
            Some(width) => width as u64,
            None => (array.to_data().get_slice_memory_size()? as u64).div_ceil(rows),
        },
    }
    .max(1))
}

/// The number of elements between the first and the last offset.
fn span<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> usize {
    match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => last.as_usize() - first.as_usize(),
        _ => 0,
    }
}

fn lengths<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, rows: &[u32]) -> u64 {
    rows.iter()
        .map(|row| (offsets[*row as usize + 1] - offsets[*row as usize]).as_usize() as u64)
        .sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, ListArray, StringArray};
    use arrow::datatypes::{Int32Type, Int64Type};

    use super::*;

    #[test]
    fn shared_values_are_not_counted() {
        let long = "x".repeat(1 << 20);
        let dictionary: DictionaryArray<Int32Type> = [long.as_str(), "y"].into_iter().collect();
        let array: ArrayRef = Arc::new(dictionary);
        assert_eq!(gathered_bytes(&array, &[0, 0, 1]).unwrap(), 12);
        assert_eq!(mean_bytes(&array).unwrap(), 4);
    }

    #[test]
    fn a_list_takes_its_own_length() {
        let lists = (0..1000).map(|i| Some(vec![Some(i); 4]));
        let array: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        assert_eq!(gathered_bytes(&array.slice(7, 1), &[0]).unwrap(), 4 + 32);
        assert_eq!(mean_bytes(&array.slice(7, 10)).unwrap(), 36);
    }

    #[test]
    fn text_is_exact() {
        let array: ArrayRef = Arc::new(StringArray::from(vec!["", "four", "x"]));
        assert_eq!(gathered_bytes(&array, &[1, 1, 2]).unwrap(), 12 + 9);
    }
}
