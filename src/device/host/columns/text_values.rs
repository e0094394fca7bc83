//! [`TextValues`]: text and binary columns of every layout, value by value.

use arrow::array::{Array, AsArray, OffsetSizeTrait};
use arrow::buffer::Buffer as Bytes;
use arrow::datatypes::DataType;

use crate::error::{BowtieError, Result};

/// Text or binary values in the layout of their column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TextValues<'a> {
    Of32(&'a [i32], &'a [u8]),
    Of64(&'a [i64], &'a [u8]),
    /// Views, the bytes of the views, and the data buffers of long values.
    Views(&'a [u128], &'a [u8], &'a [Bytes]),
}

/// The most bytes of a value that is stored inside its view.
pub(crate) const INLINE: usize = 12;

impl<'a> TextValues<'a> {
    pub(crate) fn of(array: &'a dyn Array) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Utf8 => {
                let text = array.as_string::<i32>();
                Self::Of32(text.value_offsets(), text.value_data())
            }
            DataType::LargeUtf8 => {
                let text = array.as_string::<i64>();
                Self::Of64(text.value_offsets(), text.value_data())
            }
            DataType::Binary => {
                let binary = array.as_binary::<i32>();
                Self::Of32(binary.value_offsets(), binary.value_data())
            }
            DataType::LargeBinary => {
                let binary = array.as_binary::<i64>();
                Self::Of64(binary.value_offsets(), binary.value_data())
            }
            DataType::Utf8View => {
                let text = array.as_string_view();
                Self::Views(text.views(), text.views().inner(), text.data_buffers())
            }
            DataType::BinaryView => {
                let binary = array.as_binary_view();
                Self::Views(
                    binary.views(),
                    binary.views().inner(),
                    binary.data_buffers(),
                )
            }
            other => return Err(BowtieError::Internal(format!("{other} is no text"))),
        })
    }

    /// The value of a row; of a NULL, any.
    pub(crate) fn value(self, row: usize) -> &'a [u8] {
        match self {
            Self::Of32(offsets, bytes) => between(offsets, bytes, row),
            Self::Of64(offsets, bytes) => between(offsets, bytes, row),
            Self::Views(views, bytes, buffers) => {
                let view = views[row];
                let length = view as u32 as usize;
                if length <= INLINE {
                    return &bytes[row * 16 + 4..][..length];
                }
                let from = (view >> 96) as usize;
                &buffers[(view >> 64) as u32 as usize][from..from + length]
            }
        }
    }
}

fn between<'a, O: OffsetSizeTrait>(offsets: &[O], bytes: &'a [u8], row: usize) -> &'a [u8] {
    &bytes[offsets[row].as_usize()..offsets[row + 1].as_usize()]
}
