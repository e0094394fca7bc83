//! A [`Column`] as it is stored on a GPU.

use crate::device::cuda::columns::borrowed::Borrowed;
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::storage::Storage;
use crate::device::data::column::Column;

/// Columns in device memory.
impl Column {
    /// A column of `rows` rows in device memory.
    pub(crate) fn cuda(stored: impl Into<Storage>, rows: usize) -> Self {
        Self::of_device(stored.into(), rows)
    }

    /// The column's storage; `None` where the column is in host memory.
    pub(crate) fn stored(&self) -> Option<&Storage> {
        match self.device_column::<Borrowed>() {
            Some(borrowed) => borrowed.stored(),
            None => self.device_column(),
        }
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
