//! [`Scan`]: one scan of a table by a store; what it asks for, and what it finds.

use arrow::array::ArrayRef;

use crate::store::column_key::{ColumnHandle, ColumnKey};
use crate::store::kept_column::KeptColumn;
use crate::store::pin::Pin;

/// One scan of a table. Columns that it used are not evicted for others of the same scan: a table that is larger than the store
/// keeps its first part there.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    pub(crate) number: u64,
    /// The most bytes that the store may hold for this scan to add columns.
    pub(crate) limit: u64,
    /// What its columns stay for.
    pub(crate) pin: Option<Pin>,
}

impl Scan {
    /// The same scan, whose columns stay until they are unpinned, or `pin` is gone.
    pub(crate) fn pinning(self, pin: Pin) -> Self {
        let pin = Some(pin);
        Self { pin, ..self }
    }
}

/// Some columns of a scan, on the device.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub columns: Vec<KeptColumn>,
    /// Bytes of those that were stored before.
    pub hit_bytes: u64,
    /// Bytes of those that were uploaded for this scan.
    pub sent_bytes: u64,
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
