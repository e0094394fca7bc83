//! [`Dictionaries`]: the dictionaries of stored columns. Pieces of a column with the same values share one, so that their codes compare.

use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef};
use parking_lot::Mutex;

use crate::device::data::column::Column;
use crate::device::data::encoding::Dictionary;
use crate::device::primitives::device::Device;
use crate::error::Result;

/// Dictionaries that stored columns, or queries that read them, hold.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries(Mutex<Vec<Known>>);

#[derive(Debug)]
struct Known {
    on_host: Weak<dyn Array>,
    on_device: Weak<Column>,
}

impl Known {
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
        let held = || {
            let mut known = self.0.lock();
            known.retain(|known| known.on_device.strong_count() > 0);
            let mut held = known.iter().filter_map(Known::held);
            held.find(|held| *held.on_host == *values)
        };
        if let Some(held) = held() {
            return Ok(held);
        }
        let on_device = Arc::new(device.upload_kept(std::slice::from_ref(&values))?);
        let made = Dictionary {
            on_host: values,
            on_device,
        };
        self.0.lock().push(Known {
            on_host: Arc::downgrade(&made.on_host),
            on_device: Arc::downgrade(&made.on_device),
        });
        Ok(made)
    }

    /// Bytes of all of them on the device.
    pub(crate) fn bytes(&self) -> u64 {
        let known = self.0.lock();
        let held = known.iter().filter_map(|known| known.on_device.upgrade());
        held.map(|column| column.bytes()).sum()
    }
}
