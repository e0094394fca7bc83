//! [`KeyColumn`]: a key column's values row by row, where kernels read them.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::CudaDevice;
use super::queue::{Arg, Memory, Queue, Shape};
use super::referring::{Referred, Referring};
use super::stored::Stored;
use super::values::{Values, width};
use crate::device::buffer::{Buffer, Column};
use crate::error::{BowtieError, Result};

/// A key column's values where kernels read them.
#[derive(Debug)]
pub(super) enum KeyColumn<'a> {
    Resident(&'a Values),
    /// A dictionary's values row by row.
    Made(Values),
}

impl KeyColumn<'_> {
    pub(super) fn values(&self) -> &Values {
        match self {
            Self::Resident(values) => values,
            Self::Made(values) => values,
        }
    }
}

impl CudaDevice {
    /// The values of a key column, if they are of fixed width.
    pub(super) fn key_column<'a>(&self, column: &'a Column) -> Result<Option<KeyColumn<'a>>> {
        let number = |data_type: &DataType| {
            width(data_type).is_some() && !matches!(data_type, DataType::FixedSizeBinary(_))
        };
        Ok(match column.stored() {
            Some(Stored::Fixed(values)) if number(&values.data_type) => {
                Some(KeyColumn::Resident(values))
            }
            Some(Stored::Referring(Referring {
                words,
                to: Referred::Values(values),
                ..
            })) if number(values.data_type()) => {
                let rows = self.queue.dictionary_rows(words, column.rows())?;
                self.of_dictionary(words, values, &rows)?
                    .into_cuda()
                    .map(KeyColumn::Made)
            }
            _ => None,
        })
    }

    /// A dictionary's values row by row.
    fn of_dictionary(
        &self,
        keys: &Values,
        values: &ArrayRef,
        rows: &Buffer<u32>,
    ) -> Result<Column> {
        let values = self.queue.upload(std::slice::from_ref(values))?;
        let Some(stored) = values.stored() else {
            return Ok(values);
        };
        stored.receive()?;
        let mut plain = self
            .gather_stored(stored, rows)?
            .into_stored()
            .ok_or_else(|| BowtieError::Internal("gathered values on the host".into()))?;
        // Where a value may be NULL its bit was gathered, and is not set for a NULL key.
        if let (Stored::Fixed(plain), Some(valid)) = (&mut plain, &keys.valid)
            && plain.valid.is_none()
        {
            plain.valid = Some(self.queue.bits_and(valid, valid, rows.len())?);
        }
        Ok(Column::cuda(plain, rows.len()))
    }
}

impl Queue {
    /// Which of a dictionary's values each row is; no row for a NULL.
    fn dictionary_rows(self: &Arc<Self>, keys: &Values, rows: usize) -> Result<Buffer<u32>> {
        let kernel = match width(&keys.data_type) {
            Some(1) => "text_dictionary_rows8",
            Some(2) => "text_dictionary_rows16",
            Some(4) => "text_dictionary_rows32",
            Some(8) => "text_dictionary_rows64",
            _ => return Err(BowtieError::Internal(format!("keys of {}", keys.data_type))),
        };
        let out: Memory = self.alloc(rows * 4, "key words")?;
        let args: [Arg; 4] = [
            (&keys.values).into(),
            keys.valid.as_ref().into(),
            (&out).into(),
            (rows as u32).into(),
        ];
        // SAFETY: keys of the kernel's width, and their bits, are by row; `out` holds as many words.
        unsafe { self.launch(kernel, Shape::rows(rows), &args)? };
        Ok(Buffer::cuda(out, rows))
    }
}
