//! [`Values`]: columns of fixed width on a GPU, and their way across the border.
//!
//! | Arrow type | on the GPU |
//! |---|---|
//! | of fixed width: numbers, decimals, dates, times, intervals | its values as they are, and a bitmap when some are NULL |
//! | Boolean | two bitmaps |
//! | anything else (text, binary, nested, dictionaries) | stays on the host: row ids go there, not characters here |

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, make_array, new_null_array};
use arrow::buffer::{BooleanBuffer, Buffer as Bytes, MutableBuffer, NullBuffer};
use arrow::datatypes::DataType;

use super::queue::{Memory, Queue};
use crate::device::buffer::Column;
use crate::device::check_chunk_rows;
use crate::device::host::plain_values;
use crate::error::{BowtieError, Result};

/// Values of one column.
#[derive(Debug)]
pub(crate) struct Values {
    pub(super) data_type: DataType,
    /// Values, or bits of a Boolean column.
    pub(super) values: Memory,
    /// Bits of rows that are not NULL; `None` when all are not.
    pub(super) valid: Option<Memory>,
    /// What it was uploaded from, for primitives that run on the host.
    pub(super) original: Option<ArrayRef>,
}

impl Values {
    pub(in crate::device) fn bytes(&self) -> u64 {
        (self.values.bytes() + self.valid.as_ref().map_or(0, Memory::bytes)) as u64
    }
}

/// A key column's values where kernels read them.
#[derive(Debug)]
pub(super) enum KeyColumn<'a> {
    Resident(&'a Values),
    /// A dictionary's values row by row, sent up for its keys.
    Sent(Values),
}

impl KeyColumn<'_> {
    pub(super) fn values(&self) -> &Values {
        match self {
            Self::Resident(values) => values,
            Self::Sent(values) => values,
        }
    }
}

/// Rows that kernels count in 32 bits with room to spare; a longer chunk is halved.
const MOST_ROWS: usize = 1 << 30;

/// Bytes of a value of a type that lies on the GPU; 0 for Boolean.
pub(super) fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(0),
        other => other.primitive_width(),
    }
}

/// Bytes of a bitmap, in whole words of 32 bits.
pub(super) fn bitmap_bytes(rows: usize) -> usize {
    rows.div_ceil(32) * 4
}

impl Queue {
    pub(super) fn upload(self: &Arc<Self>, array: &ArrayRef) -> Result<Column> {
        check_chunk_rows(array.len())?;
        if array.len() > MOST_ROWS {
            return Err(BowtieError::OutOfDeviceMemory {
                what: "one chunk's rows on a GPU",
                requested: array.len() as u64,
                in_use: 0,
                limit: MOST_ROWS as u64,
            });
        }
        let Some(width) = width(array.data_type()) else {
            // Counted all the same: a column on the host is bounded as one on the device.
            let bytes = array.to_data().get_slice_memory_size()? as u64;
            let lease = self.budget.lease(bytes, "columns")?;
            return Ok(Column::host(Arc::clone(array), lease));
        };
        let data = array.to_data();
        let values = match width {
            0 => {
                let bits = BooleanBuffer::new(data.buffers()[0].clone(), data.offset(), data.len());
                self.upload_bits(&bits, "columns")?
            }
            width => {
                let bytes =
                    &data.buffers()[0].as_slice()[data.offset() * width..][..data.len() * width];
                let memory = self.alloc(bytes.len(), "columns")?;
                self.write(&memory, bytes)?;
                memory
            }
        };
        let valid = match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => Some(self.upload_bits(nulls.inner(), "validity")?),
            None => None,
        };
        let values = Values {
            data_type: array.data_type().clone(),
            values,
            valid,
            original: Some(Arc::clone(array)),
        };
        Ok(Column::cuda(values, array.len()))
    }

    /// The values of a key column, if they are of fixed width.
    pub(super) fn key_column<'a>(
        self: &Arc<Self>,
        column: &'a Column,
    ) -> Result<Option<KeyColumn<'a>>> {
        if let Some(values) = column.on_cuda() {
            return Ok(Some(KeyColumn::Resident(values)));
        }
        let array = column.on_host();
        let plain = match array.data_type() {
            DataType::Dictionary(_, values) => values,
            other => other,
        };
        match width(plain) {
            Some(_) => {
                let sent = self.upload(&plain_values(array)?)?;
                Ok(sent.into_cuda().map(KeyColumn::Sent))
            }
            None => Ok(None),
        }
    }

    /// A bitmap in whole words; bits past the end are 0.
    pub(super) fn upload_bits(
        self: &Arc<Self>,
        bits: &BooleanBuffer,
        what: &'static str,
    ) -> Result<Memory> {
        let aligned = bits.sliced();
        let mut bytes = aligned.as_slice()[..bits.len().div_ceil(8)].to_vec();
        // Of a slice the last byte may hold bits of what follows.
        if let Some(last) = bytes.last_mut()
            && !bits.len().is_multiple_of(8)
        {
            *last &= (1 << (bits.len() % 8)) - 1;
        }
        let memory = self.zeroed(bitmap_bytes(bits.len()), what)?;
        self.write(&memory, &bytes)?;
        Ok(memory)
    }

    /// The first `bytes` of `memory`.
    pub(super) fn download_bytes(&self, memory: &Memory, bytes: usize) -> Result<Bytes> {
        let mut buffer = MutableBuffer::from_len_zeroed(bytes);
        memory.queue.read(buffer.as_slice_mut(), memory, 0)?;
        Ok(buffer.into())
    }

    pub(super) fn download_bits(&self, memory: &Memory, bits: usize) -> Result<BooleanBuffer> {
        let bytes = self.download_bytes(memory, bitmap_bytes(bits))?;
        Ok(BooleanBuffer::new(bytes, 0, bits))
    }

    pub(super) fn download(&self, column: &Column) -> Result<ArrayRef> {
        let Some(values) = column.on_cuda() else {
            return Ok(Arc::clone(column.on_host()));
        };
        if let Some(original) = &values.original {
            return Ok(Arc::clone(original));
        }
        let rows = column.rows();
        let width = width(&values.data_type)
            .ok_or_else(|| BowtieError::Internal("a column without a width".into()))?;
        let bytes = match width {
            0 => bitmap_bytes(rows),
            width => rows * width,
        };
        let buffer = self.download_bytes(&values.values, bytes)?;
        let nulls = match &values.valid {
            Some(valid) => {
                let nulls = NullBuffer::new(self.download_bits(valid, rows)?);
                (nulls.null_count() > 0).then_some(nulls)
            }
            None => None,
        };
        let data = ArrayData::builder(values.data_type.clone())
            .len(rows)
            .add_buffer(buffer)
            .nulls(nulls)
            .build()?;
        Ok(make_array(data))
    }

    /// `rows` NULLs.
    pub(super) fn nulls(self: &Arc<Self>, data_type: &DataType, rows: usize) -> Result<Column> {
        let array = new_null_array(data_type, rows);
        let bytes = array.to_data().get_slice_memory_size()? as u64;
        let lease = self.budget.lease(bytes, "output columns")?;
        // They are for the output: nothing would be gained by sending them up first.
        Ok(Column::host(array, lease))
    }
}
