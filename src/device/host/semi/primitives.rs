//! [`SemiPrimitives`] of the CPU backend.

use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange};
use crate::device::data::structures::Flags;
use crate::device::host::columns::flags;
use crate::device::host::device::HostDevice;
use crate::device::host::semi::key_bitmap;
use crate::device::primitives::device::Device;
use crate::device::primitives::semi::SemiPrimitives;
use crate::error::Result;

impl SemiPrimitives for HostDevice {
    fn key_range(&self, columns: &[&Column]) -> Result<KeyRange> {
        self.pool
            .install(|| key_bitmap::range(&self.budget, columns, &|| self.check_cancelled()))
    }

    fn set_key_bits(&self, bits: &KeyBitmap, columns: &[&Column]) -> Result<()> {
        self.pool
            .install(|| key_bitmap::set(&self.budget, bits, columns, &|| self.check_cancelled()))
    }

    fn flag_keys(
        &self,
        bits: &KeyBitmap,
        columns: &[&Column],
        flags: &Flags,
        first: usize,
    ) -> Result<()> {
        let flags = (flags.0.get::<flags::Flags>()?, first);
        self.pool.install(|| {
            key_bitmap::flag(&self.budget, bits, columns, flags, &|| {
                self.check_cancelled()
            })
        })
    }
}
