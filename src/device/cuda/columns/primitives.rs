//! [`TransferPrimitives`] and [`RowPrimitives`] of an NVIDIA GPU: by kernels for columns in device memory, by the host
//! fallback for others.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

use crate::device::cuda::columns::bytes;
use crate::device::cuda::columns::concat;
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::gather;
use crate::device::cuda::columns::indirect::is_view;
use crate::device::cuda::columns::lazy::LazyColumn;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::to_host;
use crate::device::cuda::columns::transfer;
use crate::device::cuda::columns::{borrowed, cast_on_upload, storage};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::access::{flag_words, memory};
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::device::data::encoding::EncodedArrays;
use crate::device::data::opaque::of_another_device;
use crate::device::data::structures::Flags;
use crate::device::host::columns::values::kept;
use crate::device::lazy_column::Payload;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::Result;

impl TransferPrimitives for CudaDevice {
    fn copies_uploads(&self, data_type: &DataType) -> bool {
        storage::is_sent_in_parts(data_type)
    }

    fn upload(&self, parts: &[ArrayRef]) -> Result<Arc<Column>> {
        let column = transfer::upload(&self.stream, parts, parts[0].data_type())?;
        self.receive(&column)?;
        Ok(Arc::new(column))
    }

    fn widens(&self, from: &DataType, to: &DataType) -> bool {
        cast_on_upload::kernel(from, to).is_some()
    }

    fn upload_async(&self, parts: &[ArrayRef], wanted: &DataType) -> Result<Arc<Column>> {
        transfer::upload(&self.stream, parts, wanted).map(Arc::new)
    }

    fn upload_lazy(&self, parts: &[ArrayRef], payload: &Arc<Payload>) -> Result<Arc<Column>> {
        let lazy = LazyColumn::new(parts, payload)?;
        let rows = lazy.rows();
        Ok(Arc::new(Column::cuda(lazy, rows)))
    }

    fn keeps(&self, data_type: &DataType) -> bool {
        storage::is_sent_in_parts(data_type) || matches!(data_type, DataType::Dictionary(..))
    }

    fn encode(&self, parts: &[ArrayRef]) -> Result<Option<EncodedArrays>> {
        self.fallback.encode(parts)
    }

    fn upload_kept(&self, parts: &[ArrayRef]) -> Result<Column> {
        transfer::upload_kept(&self.stream, parts)
    }

    fn settle(&self) -> Result<()> {
        self.stream.wait()
    }

    fn borrow(&self, columns: Vec<Arc<Column>>) -> Result<Vec<Arc<Column>>> {
        Ok(borrowed::borrow(&self.stream, columns))
    }

    fn keeps_text_on_host(&self, column: &Column) -> bool {
        match column.stored() {
            Some(Storage::Indirect(indirect)) => indirect.is_view(),
            Some(_) => false,
            None => column
                .on_host()
                .is_ok_and(|array| is_view(array.data_type())),
        }
    }

    fn receive(&self, column: &Column) -> Result<()> {
        column.stored().map_or(Ok(()), Storage::receive)
    }

    fn download(&self, column: &Column) -> Result<ArrayRef> {
        transfer::download(column)
    }

    fn read(&self, words: &Buffer<u32>) -> Result<ScalarBuffer<u32>> {
        to_host::words_to_host(words)
    }
}

impl RowPrimitives for CudaDevice {
    fn validity(&self, column: &Column) -> Result<Option<Bits>> {
        let valid = match column.stored() {
            Some(Storage::Fixed(values)) => values.valid.as_ref(),
            Some(Storage::Text(text)) => text.valid.as_ref(),
            Some(Storage::Shingles(shingles)) => shingles.text.valid.as_ref(),
            Some(Storage::Indirect(indirect)) if !indirect.may_lead_to_null() => {
                indirect.words.valid.as_ref()
            }
            _ => {
                let array = transfer::download(column)?;
                return Ok(match array.logical_nulls() {
                    Some(nulls) if nulls.null_count() > 0 => {
                        let bits = bytes::upload_bits(&self.stream, nulls.inner(), "validity")?;
                        Some(Bits::cuda(bits))
                    }
                    _ => None,
                });
            }
        };
        rows::copy_validity(&self.stream, valid, column.rows())
    }

    fn gather(&self, column: &Column, rows: &Buffer<u32>) -> Result<Column> {
        match column.stored() {
            Some(stored) => gather::gather_stored(self, stored, rows),
            None => {
                let gathered = self
                    .fallback
                    .gather(column, &to_host::host_words(self, rows)?)?;
                // The result is read by the output or by an expression, and both are on the host.
                let lease = self
                    .stream
                    .budget
                    .lease(gathered.bytes(), "output columns")?;
                Ok(Column::host(Arc::clone(gathered.on_host()?), lease))
            }
        }
    }

    fn concat(&self, parts: &[&Column]) -> Result<Column> {
        concat::concat_columns(self, parts)
    }

    fn nulls(&self, data_type: &DataType, rows: usize) -> Result<Column> {
        transfer::nulls(&self.stream, data_type, rows)
    }

    fn compact(&self, rows: &Buffer<u32>, keep: &BooleanArray) -> Result<Buffer<u32>> {
        let keep = kept(rows.len(), keep)?;
        let bits = bytes::upload_bits(&self.stream, &keep, "compacted rows")?;
        rows::select(&self.stream, &bits, keep.len(), Some(memory(rows)?))
    }

    fn sequence(&self, from: u32, len: usize) -> Result<Buffer<u32>> {
        rows::sequence(&self.stream, from, len)
    }

    fn no_rows(&self) -> Result<Buffer<u32>> {
        rows::no_rows(&self.stream)
    }

    fn row_numbers(&self, rows: usize) -> Result<Column> {
        let numbers = rows::sequence(&self.stream, 0, rows)?.into_cuda();
        let values = Values {
            data_type: DataType::UInt32,
            values: numbers.ok_or_else(of_another_device::<Column>)?,
            valid: None,
            original: None,
            made: Some(self.stream.mark()?),
        };
        Ok(Column::cuda(values, rows))
    }

    fn row_slice(&self, rows: &Buffer<u32>, some: Range<usize>) -> Result<Buffer<u32>> {
        let positions = rows::sequence(&self.stream, some.start as u32, some.len())?;
        let len = some.len();
        let some = rows::gather_values(&self.stream, memory(rows)?, memory(&positions)?, len, 4)?;
        Ok(Buffer::cuda(some, len))
    }

    fn flags(&self, rows: usize) -> Result<Flags> {
        let bytes = crate::device::cuda::columns::layout::bitmap_bytes(rows);
        self.stream.zeroed(bytes, "match flags").map(Flags::cuda)
    }

    fn set_flags(&self, flags: &Flags, first: usize, rows: &Buffer<u32>) -> Result<()> {
        rows::set_flags(&self.stream, flag_words(flags)?, first, rows)
    }

    fn set_flags_counted(&self, flags: &Flags, first: usize, counts: &Buffer<u32>) -> Result<()> {
        rows::set_flags_counted(&self.stream, flag_words(flags)?, first, counts)
    }

    fn flagged_rows(
        &self,
        flags: &Flags,
        from: usize,
        len: usize,
        set: bool,
    ) -> Result<Buffer<u32>> {
        let bits = rows::bits_slice(&self.stream, flag_words(flags)?, from, len, !set)?;
        rows::select(&self.stream, &bits, len, None)
    }

    fn flag_column(&self, flags: &Flags, from: usize, len: usize, set: bool) -> Result<Column> {
        let values = Values {
            data_type: DataType::Boolean,
            values: rows::bits_slice(&self.stream, flag_words(flags)?, from, len, !set)?,
            valid: None,
            original: None,
            made: Some(self.stream.mark()?),
        };
        Ok(Column::cuda(values, len))
    }
}
