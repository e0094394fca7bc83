//! [`Values`]: columns of fixed width on a GPU; and the way of all columns across the border.
//!
//! | Arrow type | on the GPU |
//! |---|---|
//! | of fixed width: numbers, decimals, dates, times, intervals, fixed-size binary | its values as they are, and a bitmap when some are NULL |
//! | Boolean | two bitmaps |
//! | text and binary with offsets | offsets, bytes and a bitmap (`var_width.rs`) |
//! | dictionaries, views | keys or views as values of fixed width; what they refer to stays on the host (`indirect.rs`) |
//! | anything else (nested, run-ends) | stays on the host: row ids go there, not values here |

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use cudarc::driver::CudaEvent;

use crate::device::cuda::runtime::stream::Memory;
use crate::error::Result;

/// Values of one column.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) data_type: DataType,
    /// Values, or bits of a Boolean column.
    pub(crate) values: Memory,
    /// Bits of rows that are not NULL; `None` when all are not.
    pub(crate) valid: Option<Memory>,
    /// What it was uploaded from, in parts, for primitives that run on the host.
    pub(crate) original: Option<Vec<ArrayRef>>,
    /// Marked when the values were there; without it they are when all work of the queue is done.
    pub(crate) made: Option<CudaEvent>,
}

impl Values {
    pub(crate) fn bytes(&self) -> u64 {
        (self.values.bytes() + self.valid.as_ref().map_or(0, Memory::bytes)) as u64
    }
}

impl Values {
    /// Kernels launched from now on see what was sent.
    pub(crate) fn receive(&self) -> Result<()> {
        self.values.receive()?;
        self.valid.as_ref().map_or(Ok(()), Memory::receive)
    }
}

/// Rows that kernels count in 32 bits with room to spare; a longer chunk is halved.
pub(crate) const MOST_ROWS: usize = 1 << 30;

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
