//! Builds key bitmaps on a device. In: key columns. Out: a [`KeyBitmap`] of the range of the keys, which may be
//! sampled.

use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{BitNumbering, KeyBitmap, KeyRange, MEMORY_SHARE};
use crate::device::primitives::device::Device;
use crate::error::{IfItFits as _, Result};

impl KeyBitmap {
    /// An empty bitmap for the keys in `range`; `None` if it would be too large for the bit numbers or for the memory.
    pub(crate) fn new(
        device: &dyn Device,
        range: &KeyRange,
        null_equal: bool,
    ) -> Result<Option<Self>> {
        let most_bytes = device.budget().limit() / MEMORY_SHARE;
        let places =
            BitNumbering::of(range, null_equal).filter(|places| places.count / 8 <= most_bytes);
        let Some(places) = places else {
            return Ok(None);
        };
        let bits = device.flags(places.count as usize).if_it_fits()?;
        Ok(bits.map(|bits| Self { places, bits }))
    }

    /// The bitmap of the keys of some rows; `None` if their range is not narrow, or memory does not suffice.
    ///
    /// The range may come from a sample, which saves a pass over the keys. The pass that sets the bits then also finds
    /// keys outside the range; if there are any, the bitmap is built again with the wider range.
    pub(crate) fn of(
        device: &dyn Device,
        keys: &[&Column],
        null_equal: bool,
        is_narrow: &dyn Fn(&KeyRange) -> bool,
    ) -> Result<Option<Self>> {
        let new = |range: &KeyRange| match is_narrow(range) {
            true => Self::new(device, range, null_equal),
            false => Ok(None),
        };
        let mut known = None;
        if let Some(likely) = device.likely_key_range(keys)?
            && let Some(bits) = new(&likely)?
        {
            let outside = device.set_key_bits_inside(&bits, keys)?;
            if outside.is_empty() {
                return Ok(Some(bits));
            }
            known = Some(likely.with(&outside));
        }
        let range = match known {
            Some(range) => range,
            None => device.key_range(keys)?,
        };
        let bits = new(&range)?;
        if let Some(bits) = &bits {
            device.set_key_bits(bits, keys)?;
        }
        Ok(bits)
    }
}
