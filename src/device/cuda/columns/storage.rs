//! [`Storage`]: the representations of a column on a GPU.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::indirect::Indirect;
use crate::device::cuda::columns::lazy::LazyColumn;
use crate::device::cuda::columns::shingles::Shingles;
use crate::device::cuda::columns::var_width::Text;
use crate::device::cuda::columns::{indirect, var_width};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::DeviceColumn;
use crate::device::data::opaque::Opaque;
use crate::error::Result;

/// A column on a GPU.
#[derive(Debug)]
pub(crate) enum Storage {
    /// Values of fixed width.
    Fixed(Values),
    /// Offsets and bytes.
    Text(Text),
    /// Dictionary keys, or views, which refer to values or bytes on the host.
    Indirect(Indirect),
    /// Lists of the windows of texts.
    Shingles(Shingles),
    /// A payload column that may never be uploaded.
    LazyColumn(LazyColumn),
}

impl From<Values> for Storage {
    fn from(values: Values) -> Self {
        Self::Fixed(values)
    }
}

impl From<Text> for Storage {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}

impl From<Indirect> for Storage {
    fn from(indirect: Indirect) -> Self {
        Self::Indirect(indirect)
    }
}

impl From<Shingles> for Storage {
    fn from(shingles: Shingles) -> Self {
        Self::Shingles(shingles)
    }
}

impl DeviceColumn for Storage {
    fn bytes(&self) -> u64 {
        match self {
            Self::Fixed(values) => values.bytes(),
            Self::Text(text) => text.bytes(),
            Self::Indirect(indirect) => indirect.words.bytes(),
            Self::Shingles(shingles) => shingles.bytes(),
            Self::LazyColumn(_) => 0,
        }
    }

    /// Text, dictionaries and views keep their type.
    fn relabel(self: Box<Self>, data_type: &DataType) -> Box<dyn DeviceColumn> {
        match *self {
            Self::Fixed(values) if values.data_type != *data_type => {
                Box::new(Self::Fixed(Values {
                    data_type: data_type.clone(),
                    original: None,
                    ..values
                }))
            }
            same => Box::new(same),
        }
    }

    fn into_row_ids(self: Box<Self>) -> Option<Opaque> {
        match *self {
            Self::Fixed(values) if values.data_type == DataType::UInt32 => {
                Some(Opaque::new(values.values))
            }
            _ => None,
        }
    }
}

impl Storage {
    /// The host arrays that the column was uploaded from.
    pub(crate) fn original(&self) -> Option<&[ArrayRef]> {
        match self {
            Self::Fixed(values) => values.original.as_deref(),
            Self::Text(text) => text.original.as_deref(),
            Self::Indirect(indirect) => indirect.words.original.as_deref(),
            Self::LazyColumn(lazy) => Some(lazy.parts()),
            Self::Shingles(_) => None,
        }
    }

    /// The stream that the column is freed on; `None` where nothing of it is in device memory.
    pub(crate) fn owner(&self) -> Option<&Arc<Stream>> {
        match self {
            Self::Fixed(values) => Some(&values.values.stream),
            Self::Text(text) => Some(&text.bytes.stream),
            Self::Indirect(indirect) => Some(&indirect.words.values.stream),
            Self::Shingles(shingles) => Some(&shingles.text.bytes.stream),
            Self::LazyColumn(_) => None,
        }
    }

    /// The column without the host arrays that it was uploaded from; `None` where it needs them.
    pub(crate) fn without_original(self) -> Option<Self> {
        match self {
            Self::Fixed(values) => Some(Self::Fixed(Values {
                original: None,
                ..values
            })),
            Self::Text(text) => Some(Self::Text(Text {
                original: None,
                ..text
            })),
            Self::Indirect(mut indirect) => {
                indirect.words.original = None;
                Some(Self::Indirect(indirect))
            }
            Self::Shingles(shingles) => Some(Self::Shingles(Shingles {
                text: Text {
                    original: None,
                    ..shingles.text
                },
                ..shingles
            })),
            Self::LazyColumn(_) => None,
        }
    }

    /// Makes kernels that are launched from now on wait for the upload.
    pub(crate) fn receive(&self) -> Result<()> {
        match self {
            Self::Fixed(values) => values.receive(),
            Self::Text(text) => text.receive(),
            Self::Indirect(indirect) => indirect.receive(),
            Self::Shingles(shingles) => shingles.text.receive(),
            Self::LazyColumn(_) => Ok(()),
        }
    }
}

/// Whether a column of several arrays is uploaded array by array.
pub(crate) fn is_sent_in_parts(data_type: &DataType) -> bool {
    crate::device::cuda::columns::layout::width(data_type).is_some()
        || var_width::is_text(data_type)
        || indirect::is_view(data_type)
}

impl From<LazyColumn> for Storage {
    fn from(lazy: LazyColumn) -> Self {
        Self::LazyColumn(lazy)
    }
}
