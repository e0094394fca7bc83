//! [`Stored`]: the ways in which a column lies on a GPU.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::indirect::Referring;
use crate::device::cuda::columns::lazy::Late;
use crate::device::cuda::columns::var_width::Text;
use crate::device::cuda::columns::{fixed_width, indirect, var_width};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::stream::Memory;
use crate::device::data::buffer::{Buffer, Column};
use crate::error::Result;

/// A column on a GPU.
#[derive(Debug)]
pub(crate) enum Stored {
    /// Values of fixed width.
    Fixed(Values),
    /// Offsets and bytes.
    Text(Text),
    /// Dictionary keys, or views, which refer to what stays on the host.
    Referring(Referring),
    /// A payload column that may never be uploaded.
    Late(Late),
}

impl From<Values> for Stored {
    fn from(values: Values) -> Self {
        Self::Fixed(values)
    }
}

impl From<Text> for Stored {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}

impl From<Referring> for Stored {
    fn from(referring: Referring) -> Self {
        Self::Referring(referring)
    }
}

impl Stored {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Fixed(values) => values.bytes(),
            Self::Text(text) => text.bytes(),
            Self::Referring(referring) => referring.words.bytes(),
            Self::Late(_) => 0,
        }
    }

    /// Words of 32 bits without a sign.
    pub(crate) fn into_row_numbers(self) -> Option<Memory> {
        match self {
            Self::Fixed(values) if values.data_type == DataType::UInt32 => Some(values.values),
            _ => None,
        }
    }

    /// What it was uploaded from, in parts.
    pub(crate) fn original(&self) -> Option<&[ArrayRef]> {
        match self {
            Self::Fixed(values) => values.original.as_deref(),
            Self::Text(text) => text.original.as_deref(),
            Self::Referring(referring) => referring.words.original.as_deref(),
            Self::Late(late) => Some(late.parts()),
        }
    }

    /// The same words under another type of their width; text and what refers to something has but one.
    pub(crate) fn relabel(self, data_type: &DataType) -> Self {
        match self {
            Self::Fixed(values) if values.data_type != *data_type => Self::Fixed(Values {
                data_type: data_type.clone(),
                original: None,
                ..values
            }),
            same => same,
        }
    }

    /// Kernels launched from now on see what was sent.
    pub(crate) fn receive(&self) -> Result<()> {
        match self {
            Self::Fixed(values) => values.receive(),
            Self::Text(text) => text.receive(),
            Self::Referring(referring) => referring.receive(),
            Self::Late(_) => Ok(()),
        }
    }
}

/// Whether a column of several parts is sent part by part.
pub(crate) fn is_sent_in_parts(data_type: &DataType) -> bool {
    fixed_width::width(data_type).is_some()
        || var_width::is_text(data_type)
        || indirect::is_view(data_type)
}

impl CudaDevice {
    pub(crate) fn gather_stored(&self, column: &Stored, rows: &Buffer<u32>) -> Result<Column> {
        match column {
            Stored::Fixed(values) => self.queue.gather(values, rows),
            Stored::Text(text) => {
                let gathered = self.queue.gather_text(text, rows)?;
                Ok(Column::cuda(gathered, rows.len()))
            }
            Stored::Referring(referring) => {
                let gathered = self.queue.gather_referring(referring, rows)?;
                Ok(Column::cuda(gathered, rows.len()))
            }
            Stored::Late(late) => self.gather_late(late, rows),
        }
    }
}
