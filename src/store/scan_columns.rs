//! [`ScanColumns`]: the columns that a store brought to the device for a scan.

use crate::store::kept_column::KeptColumn;

/// Some columns of a scan, on the device.
#[derive(Debug, Default)]
pub(crate) struct ScanColumns {
    pub columns: Vec<KeptColumn>,
    /// Bytes of those that were stored before.
    pub hit_bytes: u64,
    /// Bytes of those that were uploaded for this scan.
    pub sent_bytes: u64,
    /// Bytes of those of them that were in host memory in the form in which the device stores them.
    pub host_bytes: u64,
}
