//! Key bitmaps made by a device: sized by a range of keys, which a sample may guess.

use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange, Places, ROOM_SHARE};
use crate::device::primitives::device::Device;
use crate::error::Result;

impl KeyBitmap {
    /// Bits for the keys in `range`, none set; `None` where there would be too many, or is no room.
    pub(crate) fn new(
        device: &dyn Device,
        range: &KeyRange,
        null_equal: bool,
    ) -> Result<Option<Self>> {
        let room = device.budget().limit() / ROOM_SHARE;
        let places = Places::of(range, null_equal).filter(|places| places.count / 8 <= room);
        let Some(places) = places else {
            return Ok(None);
        };
        match device.flags(places.count as usize) {
            Ok(bits) => Ok(Some(Self { places, bits })),
            Err(error) if error.is_divisible() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Bits of the keys of some rows, set; `None` where the keys do not lie in a range that is narrow, or there is no room.
    ///
    /// A sample may say the range, so that no pass has to find it: keys outside are found while the bits of the others are set, and all are
    /// set anew where there are some.
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
