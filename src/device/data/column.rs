//! [`Column`]: a device array of values of one Arrow type.

use std::any::Any;
use std::fmt::Debug;

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::datatypes::{DataType, UInt32Type};

use crate::device::budget::Lease;
use crate::device::data::buffer::Buffer;
use crate::device::data::opaque::{Opaque, of_another_device};
use crate::error::{BowtieError, Result};

/// A device array of values of one Arrow type.
#[derive(Debug)]
pub(crate) struct Column {
    rows: usize,
    values: Values,
    bytes: u64,
}

#[derive(Debug)]
enum Values {
    /// In host memory: all columns of the CPU backend, and those that a GPU does not upload.
    Host(ArrayRef, Lease),
    Device(Box<dyn DeviceColumn>),
}

/// A column in a device's own memory.
pub(crate) trait DeviceColumn: Any + Debug + Send + Sync {
    /// The bytes of device memory that it holds, or more where a reader makes more of it.
    fn bytes(&self) -> u64;

    /// The same words as another type of the same width.
    fn relabel(self: Box<Self>, data_type: &DataType) -> Box<dyn DeviceColumn>;

    /// Its words as row ids, if it is of type `UInt32`.
    fn into_row_ids(self: Box<Self>) -> Option<Opaque>;
}

impl Column {
    /// A column in host memory.
    pub(crate) fn host(array: ArrayRef, lease: Lease) -> Self {
        Self {
            rows: array.len(),
            bytes: lease.bytes(),
            values: Values::Host(array, lease),
        }
    }

    /// `rows` values in a device's own memory.
    pub(crate) fn of_device(column: impl DeviceColumn, rows: usize) -> Self {
        Self {
            rows,
            bytes: column.bytes(),
            values: Values::Device(Box::new(column)),
        }
    }

    /// The array, if it is in host memory.
    ///
    /// # Errors
    /// [`BowtieError::Internal`] if it is in a device's own memory.
    pub(crate) fn on_host(&self) -> Result<&ArrayRef> {
        match &self.values {
            Values::Host(array, _) => Ok(array),
            Values::Device(_) => Err(of_another_device::<ArrayRef>()),
        }
    }

    /// Whether its values are in a device's own memory.
    pub(crate) fn is_resident(&self) -> bool {
        matches!(self.values, Values::Device(_))
    }

    /// The column as the device stores it, of type `T`; `None` if it is in host memory.
    pub(crate) fn device_column<T: DeviceColumn>(&self) -> Option<&T> {
        let column: &dyn Any = match &self.values {
            Values::Host(..) => return None,
            Values::Device(column) => &**column,
        };
        column.downcast_ref()
    }

    /// Consumes the column, as [`Column::device_column`].
    pub(crate) fn into_device_column<T: DeviceColumn>(self) -> Option<T> {
        let column: Box<dyn Any> = match self.values {
            Values::Host(..) => return None,
            Values::Device(column) => column,
        };
        column.downcast().ok().map(|column| *column)
    }

    /// Its values as row ids. They are of type `UInt32`, without NULLs.
    pub(crate) fn into_row_ids(self) -> Result<Buffer<u32>> {
        let ids = match self.values {
            Values::Host(array, lease) => array
                .as_primitive_opt::<UInt32Type>()
                .map(|ids| Buffer::host_shared(ids.values().clone(), lease)),
            Values::Device(column) => column
                .into_row_ids()
                .map(|ids| Buffer::of_device(ids, self.rows)),
        };
        ids.ok_or_else(|| BowtieError::Internal("row ids of another type".into()))
    }

    /// The same words as another type of the same width.
    pub(crate) fn relabel(self, data_type: &DataType) -> Result<Self> {
        let values = match self.values {
            Values::Host(array, lease) if array.data_type() != data_type => {
                let data = array.to_data().into_builder().data_type(data_type.clone());
                Values::Host(make_array(data.build()?), lease)
            }
            Values::Host(array, lease) => Values::Host(array, lease),
            Values::Device(column) => Values::Device(column.relabel(data_type)),
        };
        Ok(Self { values, ..self })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The bytes of its rows.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
