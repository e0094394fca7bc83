//! [`SemiPrimitives`] of an NVIDIA GPU: each calls the function of `presorted.rs` or `key_bitmap.rs`.

use crate::device::cuda::codegen::filter;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::semi;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange};
use crate::device::data::structures::Flags;
use crate::device::primitives::device::Device;
use crate::device::primitives::semi::SemiPrimitives;
use crate::error::Result;

impl SemiPrimitives for CudaDevice {
    fn key_range(&self, columns: &[&Column]) -> Result<KeyRange> {
        semi::key_bitmap::range_of_keys(self, columns)
    }

    fn set_key_bits(&self, bits: &KeyBitmap, columns: &[&Column]) -> Result<()> {
        self.check_cancelled()?;
        semi::key_bitmap::set_bits_of_keys(self, bits, columns, false).map(|_| ())
    }

    fn set_key_bits_inside(&self, bits: &KeyBitmap, columns: &[&Column]) -> Result<KeyRange> {
        self.check_cancelled()?;
        match semi::key_bitmap::set_bits_of_keys(self, bits, columns, true)? {
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
        semi::key_bitmap::flag_keys_found(self, bits, columns, flags, first)
    }

    fn select_keys(
        &self,
        bits: &KeyBitmap,
        columns: &[&Column],
        set: bool,
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        self.check_cancelled()?;
        match filter::key_bitmap::select_keys_generated(self, bits, columns, set, kept)? {
            Some(selected) => Ok(selected),
            None => self.select_keys_by_flags(bits, columns, set, kept),
        }
    }
}
