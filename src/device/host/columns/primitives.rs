//! [`TransferPrimitives`] and [`RowPrimitives`] of the CPU backend.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

use crate::device::data::buffer::{Bits, Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::device::data::encoding::EncodedArrays;
use crate::device::data::opaque::Opaque;
use crate::device::data::structures::Flags;
use crate::device::faults::Fault;
use crate::device::host::columns::encode::encode;
use crate::device::host::columns::values::bytes_of;
use crate::device::host::columns::{flags, values};
use crate::device::host::device::HostDevice;
use crate::device::lazy_column::Payload;
use crate::device::primitives::device::Device;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::{BowtieError, Result};

impl TransferPrimitives for HostDevice {
    fn copies_uploads(&self, _data_type: &DataType) -> bool {
        false
    }

    fn upload(&self, parts: &[ArrayRef]) -> Result<Arc<Column>> {
        self.budget.faults().check(Fault::Upload)?;
        values::upload(&self.budget, parts).map(Arc::new)
    }

    fn widens(&self, _from: &DataType, _to: &DataType) -> bool {
        // The readers of the input use the same cores: a cast here gains nothing.
        false
    }

    fn upload_async(&self, parts: &[ArrayRef], _wanted: &DataType) -> Result<Arc<Column>> {
        self.upload(parts)
    }

    fn upload_lazy(&self, parts: &[ArrayRef], _payload: &Arc<Payload>) -> Result<Arc<Column>> {
        self.upload(parts)
    }

    fn keeps(&self, _data_type: &DataType) -> bool {
        true
    }

    fn encode(&self, parts: &[ArrayRef]) -> Result<Option<EncodedArrays>> {
        self.check_cancelled()?;
        self.pool.install(|| encode(parts))
    }

    fn upload_kept(&self, parts: &[ArrayRef]) -> Result<Column> {
        self.budget.faults().check(Fault::Upload)?;
        match parts {
            // The same buffers, but not the array of the table.
            [part] => values::upload(&self.budget, &[part.slice(0, part.len())]),
            parts => values::upload(&self.budget, parts),
        }
    }

    fn borrow(&self, columns: Vec<Arc<Column>>) -> Result<Vec<Arc<Column>>> {
        Ok(columns)
    }

    fn keeps_text_on_host(&self, _column: &Column) -> bool {
        // All of its columns do, and nobody minds.
        false
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn receive(&self, _column: &Column) -> Result<()> {
        Ok(())
    }

    fn download(&self, column: &Column) -> Result<ArrayRef> {
        self.budget.faults().check(Fault::Download)?;
        Ok(Arc::clone(column.on_host()?))
    }

    fn read(&self, words: &Buffer<u32>) -> Result<ScalarBuffer<u32>> {
        self.budget.faults().check(Fault::Download)?;
        Ok(words.on_host()?.clone())
    }
}

impl RowPrimitives for HostDevice {
    fn gather(&self, column: &Column, rows: &Buffer<u32>) -> Result<Column> {
        match rows.len() < values::MANY_ROWS {
            true => values::gather(&self.budget, column, rows),
            false => self
                .pool
                .install(|| values::gather(&self.budget, column, rows)),
        }
    }

    fn concat(&self, parts: &[&Column]) -> Result<Column> {
        let parts: Vec<ArrayRef> = parts
            .iter()
            .map(|part| part.on_host().cloned())
            .collect::<Result<_>>()?;
        let bytes = bytes_of(&parts)?;
        // 32-bit offsets hold no more bytes.
        if bytes > i32::MAX as u64 && has_short_offsets(parts[0].data_type()) {
            return Err(BowtieError::MustSplit {
                what: "column",
                size: bytes,
                most: i32::MAX as u64,
                unit: "bytes",
            });
        }
        values::upload(&self.budget, &parts)
    }

    fn validity(&self, column: &Column) -> Result<Option<Bits>> {
        let nulls = column.on_host()?.logical_nulls();
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Ok(nulls.map(|nulls| Bits::Host(nulls.into_inner())))
    }

    fn nulls(&self, data_type: &DataType, rows: usize) -> Result<Column> {
        values::nulls(&self.budget, data_type, rows)
    }

    fn compact(&self, rows: &Buffer<u32>, keep: &BooleanArray) -> Result<Buffer<u32>> {
        values::compact(&self.budget, rows, keep)
    }

    fn sequence(&self, from: u32, len: usize) -> Result<Buffer<u32>> {
        values::sequence(&self.budget, from, len)
    }

    fn no_rows(&self) -> Result<Buffer<u32>> {
        values::sequence(&self.budget, 0, 0)
    }

    fn row_numbers(&self, rows: usize) -> Result<Column> {
        check_chunk_rows(rows)?;
        let lease = self.budget.lease(rows as u64 * 4, "row numbers")?;
        let numbers = UInt32Array::from_iter_values(0..rows as u32);
        Ok(Column::host(Arc::new(numbers), lease))
    }

    fn row_slice(&self, rows: &Buffer<u32>, some: Range<usize>) -> Result<Buffer<u32>> {
        let lease = self.budget.lease(some.len() as u64 * 4, "row ids")?;
        let some = rows.on_host()?.slice(some.start, some.len());
        Ok(Buffer::host_shared(some, lease))
    }

    fn flags(&self, rows: usize) -> Result<Flags> {
        flags::Flags::new(&self.budget, rows).map(|flags| Flags(Opaque::new(flags)))
    }

    fn set_flags(&self, flags: &Flags, first: usize, rows: &Buffer<u32>) -> Result<()> {
        for row in rows.on_host()?.iter() {
            flags.0.get::<flags::Flags>()?.set(first + *row as usize);
        }
        Ok(())
    }

    fn set_flags_counted(&self, flags: &Flags, first: usize, counts: &Buffer<u32>) -> Result<()> {
        for (row, count) in counts.on_host()?.iter().enumerate() {
            if *count > 0 {
                flags.0.get::<flags::Flags>()?.set(first + row);
            }
        }
        Ok(())
    }

    fn flagged_rows(
        &self,
        flags: &Flags,
        from: usize,
        len: usize,
        set: bool,
    ) -> Result<Buffer<u32>> {
        flags
            .0
            .get::<flags::Flags>()?
            .rows_where(&self.budget, from, len, set)
    }

    fn flag_column(&self, flags: &Flags, from: usize, len: usize, set: bool) -> Result<Column> {
        flags
            .0
            .get::<flags::Flags>()?
            .column(&self.budget, from, len, set)
    }
}

/// Whether concatenated values may exceed the type's 32-bit offsets.
fn has_short_offsets(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(..)
    )
}
