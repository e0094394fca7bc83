//! [`Referring`]: columns whose rows are words of fixed width that refer to something else: dictionary keys to values, views
//! to the bytes of long values. The words lie on the GPU, where they are gathered like any others; what they refer to stays on
//! the host and is shared, however often it is referred to.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryViewArray, GenericByteViewArray, StringViewArray,
    make_array,
};
use arrow::buffer::{Buffer as Bytes, ScalarBuffer};
use arrow::datatypes::{ByteViewType, DataType};
use parking_lot::Mutex;

use super::queue::{Memory, Queue, Shape};
use super::values::Values;
use crate::device::buffer::{Buffer, Column};
use crate::device::host::together;
use crate::error::{BowtieError, Result};

/// Words that refer to something on the host.
#[derive(Debug)]
pub(crate) struct Referring {
    data_type: DataType,
    /// Keys, or views of 16 bytes.
    pub(super) words: Values,
    pub(super) to: Referred,
    /// What is still to be done to the views once they are there.
    numbering: Mutex<Option<Numbering>>,
}

/// What words refer to.
#[derive(Debug, Clone)]
pub(super) enum Referred {
    /// A dictionary's values.
    Values(ArrayRef),
    /// The bytes of views.
    Buffers(Arc<[Bytes]>),
}

/// Views of several arrays name the buffers of their own: those of all together have other numbers.
#[derive(Debug)]
struct Numbering {
    /// By array its first row; then by array the buffers before its own.
    table: Memory,
    parts: usize,
    rows: usize,
}

impl Referring {
    pub(super) fn receive(&self) -> Result<()> {
        self.words.receive()?;
        let Some(Numbering { table, parts, rows }) = self.numbering.lock().take() else {
            return Ok(());
        };
        table.receive()?;
        let views = &self.words.values;
        let args = [
            views.into(),
            table.part(0).into(),
            table.part(parts * 4).into(),
            (parts as u32).into(),
            (rows as u32).into(),
        ];
        // SAFETY: there are `rows` views, and two words in the table for each part, of which the first begins at row 0.
        unsafe {
            views
                .queue
                .launch("text_number_buffers", Shape::each(rows), &args)
        }
    }
}

/// Whether rows are views.
pub(super) fn is_view(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// Views lie on the GPU as values of so many bytes.
const VIEW: DataType = DataType::FixedSizeBinary(16);

/// The views of an array, and the bytes that they refer to.
fn views(array: &ArrayRef) -> (&ScalarBuffer<u128>, &[Bytes]) {
    fn of<T: ByteViewType>(array: &GenericByteViewArray<T>) -> (&ScalarBuffer<u128>, &[Bytes]) {
        (array.views(), array.data_buffers())
    }
    match array.data_type() {
        DataType::Utf8View => of(array.as_string_view()),
        _ => of(array.as_binary_view()),
    }
}

impl Queue {
    /// A column of `parts` together, on its way; `None` for a type whose rows do not refer to anything.
    pub(super) fn upload_referring(
        self: &Arc<Self>,
        parts: &[ArrayRef],
        rows: usize,
    ) -> Result<Option<Referring>> {
        match parts[0].data_type() {
            DataType::Dictionary(..) => self.upload_dictionary(parts, rows).map(Some),
            other if is_view(other) => self.upload_views(parts, rows).map(Some),
            _ => Ok(None),
        }
    }

    fn upload_dictionary(self: &Arc<Self>, parts: &[ArrayRef], rows: usize) -> Result<Referring> {
        // One dictionary of all parts.
        let array = together(parts)?;
        let dictionary = array.as_any_dictionary();
        let keys = make_array(dictionary.keys().to_data());
        let mut words = self.upload_values(&[keys], rows)?;
        let to = Referred::Values(Arc::clone(dictionary.values()));
        words.original = Some(vec![Arc::clone(&array)]);
        Ok(Referring {
            data_type: array.data_type().clone(),
            words,
            to,
            numbering: Mutex::default(),
        })
    }

    fn upload_views(self: &Arc<Self>, parts: &[ArrayRef], rows: usize) -> Result<Referring> {
        let all: Vec<_> = parts.iter().map(views).collect();
        let bytes: Vec<&[u8]> = all
            .iter()
            .map(|(views, _)| views.inner().as_slice())
            .collect();
        let mut buffers: Vec<Bytes> = vec![];
        let (mut firsts, mut before) = (vec![], vec![]);
        let mut first = 0;
        for (views, of_part) in &all {
            firsts.push(first);
            before.push(buffers.len() as u32);
            first += views.len() as u32;
            buffers.extend(of_part.iter().cloned());
        }
        let moved = all
            .iter()
            .zip(&before)
            .any(|((_, of_part), before)| *before > 0 && !of_part.is_empty());
        let numbering = match moved {
            true => {
                firsts.extend(before);
                let table = Bytes::from_vec(firsts);
                Some(Numbering {
                    table: self.send_ahead(&[table.as_slice()], "columns")?,
                    parts: parts.len(),
                    rows,
                })
            }
            false => None,
        };
        let words = Values {
            data_type: VIEW,
            values: self.send_ahead(&bytes, "columns")?,
            valid: self.send_validity(parts, rows)?,
            original: Some(parts.to_vec()),
            made: None,
        };
        Ok(Referring {
            data_type: parts[0].data_type().clone(),
            words,
            to: Referred::Buffers(buffers.into()),
            numbering: Mutex::new(numbering),
        })
    }

    pub(super) fn gather_referring(
        self: &Arc<Self>,
        column: &Referring,
        rows: &Buffer<u32>,
    ) -> Result<Referring> {
        let words = self
            .gather(&column.words, rows)
            .map(Column::into_cuda)?
            .ok_or_else(|| BowtieError::Internal("gathered words on the host".into()))?;
        Ok(Referring {
            data_type: column.data_type.clone(),
            words,
            to: column.to.clone(),
            numbering: Mutex::default(),
        })
    }

    pub(super) fn download_referring(&self, column: &Referring, rows: usize) -> Result<ArrayRef> {
        let Values { valid, made, .. } = &column.words;
        let words = self.download_words(&column.words, rows)?;
        let nulls = self.download_nulls(valid.as_ref(), rows, made.as_ref())?;
        Ok(match &column.to {
            Referred::Values(values) => {
                let data = ArrayData::builder(column.data_type.clone())
                    .len(rows)
                    .add_buffer(words)
                    .nulls(nulls)
                    .add_child_data(values.to_data());
                // SAFETY: each key is one of an array with the same values.
                make_array(unsafe { data.build_unchecked() })
            }
            Referred::Buffers(buffers) => {
                let views = ScalarBuffer::new(words, 0, rows);
                let buffers = Arc::clone(buffers);
                // SAFETY: each view is one of an array of this type, whose buffers have the numbers that it names.
                unsafe {
                    match column.data_type {
                        DataType::Utf8View => {
                            Arc::new(StringViewArray::new_unchecked(views, buffers, nulls))
                        }
                        _ => Arc::new(BinaryViewArray::new_unchecked(views, buffers, nulls)),
                    }
                }
            }
        })
    }
}
