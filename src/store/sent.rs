//! [`Sent`]: a column on its way to the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::kept_column::KeptColumn;

/// A column whose upload has begun.
pub(super) struct Sent {
    pub(super) kept: KeptColumn,
    /// Set where there is room for it in the store, whose handle uploads it; otherwise the scan's own handle does.
    pub(super) staying: Option<Staying>,
}

/// Bytes of a column that is being uploaded to stay. They count as stored until this is dropped.
pub(super) struct Staying {
    underway: Arc<AtomicU64>,
    bytes: u64,
}

impl Staying {
    pub(super) fn new(underway: &Arc<AtomicU64>, bytes: u64) -> Self {
        underway.fetch_add(bytes, Ordering::Relaxed);
        Self {
            underway: Arc::clone(underway),
            bytes,
        }
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        self.underway.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
