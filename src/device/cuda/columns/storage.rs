//! [`Storage`]: the representations of a column on a GPU.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::indirect::Indirect;
use crate::device::cuda::columns::lazy::LazyColumn;
use crate::device::cuda::columns::var_width::Text;
use crate::device::cuda::columns::{indirect, var_width};
use crate::device::data::column::{Column, DeviceColumn};
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

impl DeviceColumn for Storage {
    fn bytes(&self) -> u64 {
        match self {
            Self::Fixed(values) => values.bytes(),
            Self::Text(text) => text.bytes(),
            Self::Indirect(indirect) => indirect.words.bytes(),
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

/// Columns in device memory.
impl Column {
    /// A column of `rows` rows in device memory.
    pub(crate) fn cuda(stored: impl Into<Storage>, rows: usize) -> Self {
        Self::of_device(stored.into(), rows)
    }

    /// The column's storage; `None` where the column is in host memory.
    pub(crate) fn stored(&self) -> Option<&Storage> {
        self.device_column()
    }

    pub(crate) fn into_stored(self) -> Option<Storage> {
        self.into_device_column()
    }

    /// The column's values, where they are on a GPU and of fixed width.
    pub(crate) fn on_cuda(&self) -> Option<&Values> {
        match self.stored() {
            Some(Storage::Fixed(values)) => Some(values),
            _ => None,
        }
    }

    pub(crate) fn into_cuda(self) -> Option<Values> {
        match self.into_stored() {
            Some(Storage::Fixed(values)) => Some(values),
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
        }
    }

    /// Makes kernels that are launched from now on wait for the upload.
    pub(crate) fn receive(&self) -> Result<()> {
        match self {
            Self::Fixed(values) => values.receive(),
            Self::Text(text) => text.receive(),
            Self::Indirect(indirect) => indirect.receive(),
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
