//! Transfers columns to a GPU and back: values, validity bitmaps, bytes of text, dictionary keys and views.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanBufferBuilder, downcast_primitive, make_array,
    new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer as Bytes, MutableBuffer, NullBuffer};
use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::{MOST_ROWS, Values};
use crate::device::cuda::columns::indirect::is_view;
use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::var_width;
use crate::device::cuda::runtime::event::Event;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::check_chunk_rows;
use crate::device::data::column::Column;
use crate::device::host::columns::values::{concat_arrays, upload as host_column};
use crate::error::{BowtieError, Result};

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

impl Stream {
    /// Uploads `parts` asynchronously as one column, cast to `wanted`. It must be received before it is used.
    pub(crate) fn upload(
        self: &Arc<Self>,
        parts: &[ArrayRef],
        wanted: &DataType,
    ) -> Result<Column> {
        let rows = parts.iter().map(|part| part.len()).sum();
        check_chunk_rows(rows)?;
        if rows > MOST_ROWS {
            return Err(BowtieError::MustSplit {
                what: "chunk on a GPU",
                size: rows as u64,
                most: MOST_ROWS as u64,
                unit: "rows",
            });
        }
        let data_type = parts[0].data_type();
        if width(data_type).is_some() {
            return Ok(Column::cuda(self.upload_values(parts, rows, wanted)?, rows));
        }
        let stored: Option<Storage> = match var_width::is_text(data_type) {
            true => self.upload_text(parts, rows)?.map(Into::into),
            false => self.upload_indirect(parts, rows)?.map(Into::into),
        };
        match stored {
            Some(stored) => Ok(Column::cuda(stored, rows)),
            // The reservation counts it in any case: a column on the host is bounded as one on the device.
            None => host_column(&self.budget, parts),
        }
    }

    /// Uploads `parts` asynchronously as a column that outlives its arrays. Views become text, whose bytes are on the GPU too.
    pub(crate) fn upload_kept(self: &Arc<Self>, parts: &[ArrayRef]) -> Result<Column> {
        let data_type = parts[0].data_type();
        let column = match is_view(data_type) {
            true => {
                let rows = parts.iter().map(|part| part.len()).sum();
                check_chunk_rows(rows)?;
                Column::cuda(self.send_views(parts, usize::MAX)?, rows)
            }
            false => self.upload(parts, data_type)?,
        };
        let rows = column.rows();
        let kept = column.into_stored().and_then(Storage::without_original);
        // Text of a few rows that exceeds the offsets stays on the host.
        let kept = kept.ok_or(BowtieError::MustSplit {
            what: "column of text on a GPU",
            size: rows as u64,
            most: 1,
            unit: "rows",
        })?;
        kept.receive()?;
        Ok(Column::cuda(kept, rows))
    }

    /// Uploads values of fixed width asynchronously, cast to `wanted`.
    pub(crate) fn upload_values(
        self: &Arc<Self>,
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
                self.send_bits(bits, rows, "columns")?
            }
            width => {
                let bytes: Vec<&[u8]> = parts
                    .iter()
                    .map(|part| bytes_of_values(part, width))
                    .collect::<Result<_>>()?;
                match data_type == wanted {
                    true => self.send_values(&bytes, rows, width)?,
                    false => self.send_widened(&bytes, rows, data_type, wanted)?,
                }
            }
        };
        Ok(Values {
            data_type: wanted.clone(),
            values,
            valid: self.send_validity(parts, rows)?,
            original: (data_type == wanted).then(|| parts.to_vec()),
            made: None,
        })
    }

    /// A bitmap of the rows that are not NULL; `None` when no row is NULL.
    pub(crate) fn send_validity(
        self: &Arc<Self>,
        parts: &[ArrayRef],
        rows: usize,
    ) -> Result<Option<Memory>> {
        if parts.iter().all(|part| part.null_count() == 0) {
            return Ok(None);
        }
        let bits = parts.iter().map(|part| match part.nulls() {
            Some(nulls) => nulls.inner().clone(),
            None => BooleanBuffer::new_set(part.len()),
        });
        self.send_bits(bits, rows, "validity").map(Some)
    }

    /// Uploads concatenated bitmaps of `len` bits together, in whole words. Bits past the end are 0.
    fn send_bits(
        self: &Arc<Self>,
        parts: impl Iterator<Item = BooleanBuffer>,
        len: usize,
        what: &'static str,
    ) -> Result<Memory> {
        // The capacity is in whole words from the start; bits past the end stay 0.
        let mut bits = BooleanBufferBuilder::new(bitmap_bytes(len) * 8);
        for part in parts {
            bits.append_buffer(&part);
        }
        bits.append_n(bitmap_bytes(len) * 8 - len, false);
        self.send_async(&[bits.as_slice()], what)
    }

    /// Uploads a bitmap in whole words. Bits past the end are 0.
    pub(crate) fn upload_bits(
        self: &Arc<Self>,
        bits: &BooleanBuffer,
        what: &'static str,
    ) -> Result<Memory> {
        let memory = self.send_bits(std::iter::once(bits.clone()), bits.len(), what)?;
        memory.receive()?;
        Ok(memory)
    }

    /// Downloads the first `bytes` of `memory`. `made`: recorded when the bytes were written.
    pub(crate) fn download_bytes(
        &self,
        memory: &Memory,
        bytes: usize,
        made: Option<&Event>,
    ) -> Result<Bytes> {
        // Not cleared first: one thread would do it.
        let mut buffer = MutableBuffer::with_capacity(bytes);
        // SAFETY: the buffer has capacity for `bytes`, which may be anything before they are written.
        let target = unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast(), bytes) };
        memory.stream.read(target, memory, made)?;
        // SAFETY: all of them were written.
        unsafe { buffer.set_len(bytes) };
        Ok(buffer.into())
    }

    /// Downloads a bitmap of `bits` bits.
    pub(crate) fn download_bits(
        &self,
        memory: &Memory,
        bits: usize,
        made: Option<&Event>,
    ) -> Result<BooleanBuffer> {
        let bytes = self.download_bytes(memory, bitmap_bytes(bits), made)?;
        Ok(BooleanBuffer::new(bytes, 0, bits))
    }

    /// Downloads a column, or returns the single array that it was uploaded from.
    pub(crate) fn download(&self, column: &Column) -> Result<ArrayRef> {
        let Some(stored) = column.stored() else {
            return Ok(Arc::clone(column.on_host()?));
        };
        // With several parts, a download is faster than their concatenation by one thread.
        if let Some([original]) = stored.original() {
            return Ok(Arc::clone(original));
        }
        let rows = column.rows();
        match stored {
            Storage::Fixed(values) => {
                let data = ArrayData::builder(values.data_type.clone())
                    .len(rows)
                    .add_buffer(self.download_words(values, rows)?)
                    .nulls(self.download_nulls(
                        values.valid.as_ref(),
                        rows,
                        values.made.as_ref(),
                    )?)
                    .build()?;
                Ok(make_array(data))
            }
            Storage::Text(text) => self.download_text(text, rows),
            Storage::Indirect(indirect) => self.download_indirect(indirect, rows),
            Storage::Shingles(shingles) => shingles.download(self, rows),
            Storage::LazyColumn(lazy) => concat_arrays(lazy.parts()),
        }
    }

    /// The values of `rows` rows.
    pub(crate) fn download_words(&self, values: &Values, rows: usize) -> Result<Bytes> {
        let width = width(&values.data_type)
            .ok_or_else(|| BowtieError::Internal("a column without a width".into()))?;
        let bytes = match width {
            0 => bitmap_bytes(rows),
            width => rows * width,
        };
        self.download_bytes(&values.values, bytes, values.made.as_ref())
    }

    /// Downloads a validity bitmap; `None` when no row is NULL.
    pub(crate) fn download_nulls(
        &self,
        valid: Option<&Memory>,
        rows: usize,
        made: Option<&Event>,
    ) -> Result<Option<NullBuffer>> {
        let Some(valid) = valid else {
            return Ok(None);
        };
        let nulls = NullBuffer::new(self.download_bits(valid, rows, made)?);
        Ok((nulls.null_count() > 0).then_some(nulls))
    }

    /// A column of `rows` NULLs.
    pub(crate) fn nulls(self: &Arc<Self>, data_type: &DataType, rows: usize) -> Result<Column> {
        let array = new_null_array(data_type, rows);
        let bytes = array.to_data().get_slice_memory_size()? as u64;
        let lease = self.budget.lease(bytes, "output columns")?;
        // The column is for the output: an upload would gain nothing.
        Ok(Column::host(array, lease))
    }
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
