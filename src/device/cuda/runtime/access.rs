//! The device memory behind buffers, bits and flags.

use arrow::datatypes::ArrowNativeType;

use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::opaque::{Opaque, of_another_device};
use crate::device::data::structures::Flags;
use crate::error::Result;

impl<T: ArrowNativeType> Buffer<T> {
    /// A buffer of `len` words of device memory.
    pub(crate) fn cuda(memory: Memory, len: usize) -> Self {
        Self::of_device(Opaque::new(memory), len)
    }

    /// Its device memory; `None` for another device's buffer.
    pub(crate) fn on_cuda(&self) -> Option<&Memory> {
        self.device_memory().and_then(Opaque::find)
    }

    /// As [`Buffer::on_cuda`].
    pub(crate) fn into_cuda(self) -> Option<Memory> {
        self.into_device_memory()?.into_inner().ok()
    }
}

/// The device memory of words.
///
/// # Errors
/// [`BowtieError::Internal`](crate::error::BowtieError::Internal) where another device made them.
pub(crate) fn memory<T: ArrowNativeType>(words: &Buffer<T>) -> Result<&Memory> {
    words.on_cuda().ok_or_else(of_another_device::<Memory>)
}

impl Bits {
    pub(crate) fn cuda(memory: Memory) -> Self {
        Self::Device(Opaque::new(memory))
    }
}

/// The device memory of the validity of keys; `None` where no key is NULL.
///
/// # Errors
/// As of [`memory`].
pub(crate) fn valid_memory(valid: Option<&Bits>) -> Result<Option<&Memory>> {
    match valid {
        None => Ok(None),
        Some(Bits::Device(memory)) => memory.get().map(Some),
        Some(Bits::Host(_)) => Err(of_another_device::<Memory>()),
    }
}

impl Flags {
    pub(crate) fn cuda(words: Memory) -> Self {
        Self(Opaque::new(words))
    }
}

/// The device memory of flags: words of 32 bits.
///
/// # Errors
/// As of [`memory`].
pub(crate) fn flag_words(flags: &Flags) -> Result<&Memory> {
    flags.0.get()
}
