//! [`Values`]: a column of fixed width on a GPU; and how each Arrow type is stored there.
//!
//! | Arrow type | on the GPU |
//! |---|---|
//! | fixed width: numbers, decimals, dates, times, intervals, fixed-size binary | its values unchanged, and a bitmap when some are NULL |
//! | Boolean | two bitmaps |
//! | text and binary with offsets | offsets, bytes and a bitmap (`var_width.rs`) |
//! | dictionaries, views | keys or views as values of fixed width; the values and bytes they refer to are on the host (`indirect.rs`) |
//! | anything else (nested, run-end encoded) | on the host: row ids are downloaded, and the host gathers |

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, downcast_primitive};
use arrow::buffer::Buffer as Bytes;
use arrow::datatypes::DataType;

use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::columns::{bytes, cast_on_upload};
use crate::device::cuda::runtime::event::Event;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::{BowtieError, Result};

/// The values of one column in device memory.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) data_type: DataType,
    /// Values, or a bitmap for a Boolean column.
    pub(crate) values: Memory,
    /// A bitmap of the rows that are not NULL; `None` when no row is NULL.
    pub(crate) valid: Option<Memory>,
    /// The host arrays that the column was uploaded from, for primitives that run on the host.
    pub(crate) original: Option<Vec<ArrayRef>>,
    /// Recorded when kernels had written the values. Without an event, wait for all work of the stream.
    pub(crate) made: Option<Event>,
}

impl Values {
    pub(crate) fn bytes(&self) -> u64 {
        (self.values.bytes() + self.valid.as_ref().map_or(0, Memory::bytes)) as u64
    }
}

impl Values {
    /// Makes kernels that are launched from now on wait for the upload.
    pub(crate) fn receive(&self) -> Result<()> {
        self.values.receive()?;
        self.valid.as_ref().map_or(Ok(()), Memory::receive)
    }
}

/// The most rows of a chunk, far below the 32 bits of the kernels' row counts; a longer chunk is halved.
pub(crate) const MOST_ROWS: usize = 1 << 30;

/// The bytes of an array's values, `width` each, without a copy. `to_data` is not used: it takes about as long as a
/// copy of a batch.
fn bytes_of_values(part: &ArrayRef, width: usize) -> Result<&[u8]> {
    macro_rules! bytes {
        ($type:ty, $part:ident) => {
            $part.as_primitive::<$type>().values().inner().as_slice()
        };
    }
    let bytes = downcast_primitive! {
        part.data_type() => (bytes, part),
        DataType::FixedSizeBinary(_) => part.as_fixed_size_binary().value_data(),
        other => return Err(BowtieError::Internal(format!("{other} has no width"))),
    };
    // A buffer may be longer than its values.
    Ok(&bytes[..part.len() * width])
}

/// Uploads values of fixed width asynchronously, cast to `wanted`.
pub(crate) fn upload_values(
    stream: &Arc<Stream>,
    parts: &[ArrayRef],
    rows: usize,
    wanted: &DataType,
) -> Result<Values> {
    let data_type = parts[0].data_type();
    let width = width(data_type)
        .ok_or_else(|| BowtieError::Internal(format!("{data_type} has no width")))?;
    let values = match width {
        0 => {
            let bits = parts.iter().map(|part| part.as_boolean().values().clone());
            bytes::send_bits(stream, bits, rows, "columns")?
        }
        width => {
            let bytes: Vec<&[u8]> = parts
                .iter()
                .map(|part| bytes_of_values(part, width))
                .collect::<Result<_>>()?;
            match data_type == wanted {
                true => cast_on_upload::send_values(stream, &bytes, rows, width)?,
                false => cast_on_upload::send_widened(stream, &bytes, rows, data_type, wanted)?,
            }
        }
    };
    Ok(Values {
        data_type: wanted.clone(),
        values,
        valid: bytes::send_validity(stream, parts, rows)?,
        original: (data_type == wanted).then(|| parts.to_vec()),
        made: None,
    })
}

/// The values of `rows` rows.
pub(crate) fn download_words(values: &Values, rows: usize) -> Result<Bytes> {
    let width = width(&values.data_type)
        .ok_or_else(|| BowtieError::Internal("a column without a width".into()))?;
    let bytes = match width {
        0 => bitmap_bytes(rows),
        width => rows * width,
    };
    bytes::download_bytes(&values.values, bytes, values.made.as_ref())
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Decimal128Array, FixedSizeBinaryArray, Int32Array, IntervalMonthDayNanoArray,
    };
    use arrow::buffer::ScalarBuffer;
    use arrow::datatypes::IntervalMonthDayNano;

    use super::*;

    #[test]
    fn values_are_as_to_data_has_them() {
        let longer = ScalarBuffer::<i32>::from(Bytes::from(vec![1u8; 11]));
        let months = IntervalMonthDayNano::new(1, 2, 3);
        let arrays: [ArrayRef; 5] = [
            Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4)])),
            Arc::new(Int32Array::new(longer, None)),
            Arc::new(Decimal128Array::from(vec![1i128 << 90, -1, 7])),
            Arc::new(IntervalMonthDayNanoArray::from(vec![months; 3])),
            Arc::new(FixedSizeBinaryArray::new(
                3,
                Bytes::from(vec![7u8; 10]),
                None,
            )),
        ];
        for array in arrays {
            for array in [
                Arc::clone(&array),
                array.slice(1, array.len() - 1),
                array.slice(1, 0),
            ] {
                let width = width(array.data_type()).unwrap();
                let data = array.to_data();
                let whole = &data.buffers()[0].as_slice()[data.offset() * width..];
                assert_eq!(
                    bytes_of_values(&array, width).unwrap(),
                    &whole[..data.len() * width]
                );
            }
        }
    }
}
