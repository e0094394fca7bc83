//! [`Dictionaries`]: the dictionaries of stored columns. Pieces of a column with the same values share one, so that their codes compare.

use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef};
use parking_lot::Mutex;

use crate::device::data::column::Column;
use crate::device::data::encoding::Dictionary;
use crate::device::primitives::device::Device;
use crate::error::Result;

/// Dictionaries that stored columns, or queries that read them, hold.
///
/// None is held under the lock: its last holder frees device memory, which wakes those who wait for some, and they ask for the bytes of stores.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries(Mutex<Vec<SharedDictionary>>);

#[derive(Debug)]
struct SharedDictionary {
    on_host: Weak<dyn Array>,
    on_device: Weak<Column>,
    bytes: u64,
}

impl SharedDictionary {
    fn is_held(&self) -> bool {
        self.on_device.strong_count() > 0
    }

    fn held(&self) -> Option<Dictionary> {
        Some(Dictionary {
            on_host: self.on_host.upgrade()?,
            on_device: self.on_device.upgrade()?,
        })
    }
}

impl Dictionaries {
    /// The dictionary of these values, which is uploaded if it is new.
    ///
    /// # Errors
    /// If the upload fails.
    pub(crate) fn of(&self, device: &dyn Device, values: ArrayRef) -> Result<Dictionary> {
        let held: Vec<Dictionary> = {
            let mut known = self.0.lock();
            known.retain(SharedDictionary::is_held);
            known.iter().filter_map(SharedDictionary::held).collect()
        };
        let is_same = |held: &Dictionary| {
            let known = &held.on_host;
            Arc::ptr_eq(known, &values)
                || known.len() == values.len()
                    && known.data_type() == values.data_type()
                    && **known == *values
        };
        if let Some(same) = held.into_iter().find(is_same) {
            return Ok(same);
        }
        let on_device = Arc::new(device.upload_kept(std::slice::from_ref(&values))?);
        // Other queries use the dictionary as soon as it is listed, so its upload must be complete.
        device.settle()?;
        let made = Dictionary {
            on_host: values,
            on_device,
        };
        self.0.lock().push(SharedDictionary {
            on_host: Arc::downgrade(&made.on_host),
            on_device: Arc::downgrade(&made.on_device),
            bytes: made.on_device.bytes(),
        });
        Ok(made)
    }

    /// Bytes of all of them on the device.
    pub(crate) fn bytes(&self) -> u64 {
        let known = self.0.lock();
        let held = known.iter().filter(|known| known.is_held());
        held.map(|known| known.bytes).sum()
    }
}
