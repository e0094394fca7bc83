//! [`SemiPrimitives`] of an NVIDIA GPU: each calls the method of `presorted.rs` or `key_bitmap.rs`.

use crate::device::cuda::device::CudaDevice;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange};
use crate::device::data::structures::Flags;
use crate::device::primitives::device::Device;
use crate::device::primitives::semi::SemiPrimitives;
use crate::error::Result;

impl SemiPrimitives for CudaDevice {
    fn key_range(&self, columns: &[&Column]) -> Result<KeyRange> {
        self.range_of_keys(columns)
    }

    fn set_key_bits(&self, bits: &KeyBitmap, columns: &[&Column]) -> Result<()> {
        self.check_cancelled()?;
        self.set_bits_of_keys(bits, columns, false).map(|_| ())
    }

    fn set_key_bits_inside(&self, bits: &KeyBitmap, columns: &[&Column]) -> Result<KeyRange> {
        self.check_cancelled()?;
        match self.set_bits_of_keys(bits, columns, true)? {
            Some(outside) => Ok(outside),
            None => Ok(bits.unless_held(self.key_range(columns)?)),
        }
    }

    fn flag_keys(
        &self,
        bits: &KeyBitmap,
        columns: &[&Column],
        flags: &Flags,
        first: usize,
    ) -> Result<()> {
        self.check_cancelled()?;
        self.flag_keys_found(bits, columns, flags, first)
    }

    fn select_keys(
        &self,
        bits: &KeyBitmap,
        columns: &[&Column],
        set: bool,
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        self.check_cancelled()?;
        match self.select_keys_generated(bits, columns, set, kept)? {
            Some(selected) => Ok(selected),
            None => self.select_keys_by_flags(bits, columns, set, kept),
        }
    }
}
