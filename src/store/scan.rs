//! [`Scan`]: one scan of a table by a store, and what it asks for.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::execution::memory_pool::MemoryPool;

use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::store::column_key::{ColumnHandle, ColumnKey};
use crate::store::pin::Pin;

/// One scan of a table. Columns that it used are not evicted for others of the same scan: a table that is larger than the store
/// keeps its first part there.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    pub(crate) number: u64,
    /// The most bytes that the store may hold on the device for this scan to add columns.
    pub(crate) limit: u64,
    /// `None`: what has no room on the device is not kept, and read by the caller.
    pub(crate) host: Option<HostShare>,
    /// What its columns stay for.
    pub(crate) pin: Option<Pin>,
}

/// Host memory for columns that have no room on the device.
#[derive(Debug, Clone)]
pub(crate) struct HostShare {
    /// The most bytes that the store may hold there for a scan to add columns.
    pub(crate) limit: u64,
    /// They are reserved in it, too.
    pub(crate) pool: Arc<dyn MemoryPool>,
}

/// Opens the handle that uploads columns for one scan alone.
pub(crate) type ForScan<'a> = &'a dyn Fn() -> Result<Arc<dyn Device>>;

impl Scan {
    /// The same scan, whose columns stay until they are unpinned, or `pin` is gone.
    pub(crate) fn pinning(self, pin: Pin) -> Self {
        let pin = Some(pin);
        Self { pin, ..self }
    }

    /// The same scan, which pins nothing.
    pub(crate) fn unpinned(&self) -> Self {
        Self {
            pin: None,
            ..self.clone()
        }
    }
}

/// A column that a scan asks for.
pub(crate) trait WantedColumn {
    fn name(&self) -> &str;

    /// Whether its values are read anew where they are not stored. The CPU backend shares the arrays of others as they are.
    fn is_in_files(&self) -> bool;

    /// Finds its key; `None` for a column without rows, which is not stored.
    fn handle(&self) -> Option<ColumnHandle>;

    fn key(&self) -> ColumnKey;

    /// Whether `key`, which its handle finds, is its own.
    fn has_key(&self, key: &ColumnKey) -> bool;

    /// Its values; `None` where they were not read.
    fn arrays(&self) -> Option<Vec<ArrayRef>>;
}
