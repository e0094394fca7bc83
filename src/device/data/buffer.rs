//! [`Buffer`]s of words and [`Bits`]: arrays in a device's memory, each with the [`Lease`] of its bytes.

use std::sync::OnceLock;

use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::datatypes::ArrowNativeType;

use crate::device::budget::Lease;
use crate::device::data::opaque::{Opaque, of_another_device};
use crate::error::{BowtieError, Result};
use crate::ir::limits::MAX_CHUNK_ROWS;

/// A device array of words.
#[derive(Debug)]
pub(crate) struct Buffer<T: ArrowNativeType> {
    len: usize,
    words: Words<T>,
}

#[derive(Debug)]
enum Words<T: ArrowNativeType> {
    Host(ScalarBuffer<T>, #[expect(dead_code, reason = "held")] Lease),
    /// A device's own memory, and its copy on the host once it was read.
    Device(Opaque, OnceLock<ScalarBuffer<T>>),
}

impl<T: ArrowNativeType> Buffer<T> {
    /// Words in host memory.
    pub(crate) fn host(values: Vec<T>, lease: Lease) -> Self {
        Self::host_shared(values.into(), lease)
    }

    /// Words in host memory that others share.
    pub(crate) fn host_shared(values: ScalarBuffer<T>, lease: Lease) -> Self {
        Self {
            len: values.len(),
            words: Words::Host(values, lease),
        }
    }

    /// `len` words in a device's own memory.
    pub(crate) fn of_device(memory: Opaque, len: usize) -> Self {
        Self {
            len,
            words: Words::Device(memory, OnceLock::new()),
        }
    }

    /// The words, if they are in host memory.
    ///
    /// # Errors
    /// [`BowtieError::Internal`] if they are in a device's own memory.
    pub(crate) fn on_host(&self) -> Result<&ScalarBuffer<T>> {
        match &self.words {
            Words::Host(values, _) => Ok(values),
            Words::Device(..) => Err(of_another_device::<ScalarBuffer<T>>()),
        }
    }

    /// The device's own memory; `None` if the words are in host memory.
    pub(crate) fn device_memory(&self) -> Option<&Opaque> {
        match &self.words {
            Words::Host(..) => None,
            Words::Device(memory, _) => Some(memory),
        }
    }

    /// Consumes the buffer, as [`Buffer::device_memory`].
    pub(crate) fn into_device_memory(self) -> Option<Opaque> {
        match self.words {
            Words::Host(..) => None,
            Words::Device(memory, _) => Some(memory),
        }
    }

    /// The words in host memory. The first call downloads a device's words with `read`.
    pub(crate) fn read_once(
        &self,
        read: impl FnOnce() -> Result<ScalarBuffer<T>>,
    ) -> Result<ScalarBuffer<T>> {
        let known = match &self.words {
            Words::Host(values, _) => return Ok(values.clone()),
            Words::Device(_, known) => known,
        };
        match known.get() {
            Some(words) => Ok(words.clone()),
            None => {
                let words = read()?;
                Ok(known.get_or_init(|| words).clone())
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// A device array of bits, 32 in a word, the first in the lowest bit.
#[derive(Debug)]
pub(crate) enum Bits {
    Host(BooleanBuffer),
    Device(Opaque),
}

impl Bits {
    /// The bits, if they are in host memory.
    ///
    /// # Errors
    /// [`BowtieError::Internal`] if they are in a device's own memory.
    pub(crate) fn on_host(&self) -> Result<&BooleanBuffer> {
        match self {
            Self::Host(bits) => Ok(bits),
            Self::Device(_) => Err(of_another_device::<BooleanBuffer>()),
        }
    }
}

/// Row ids of a chunk are `u32`.
///
/// # Errors
/// [`BowtieError::MustSplit`] for a chunk of more than [`MAX_CHUNK_ROWS`] rows.
pub(crate) fn check_chunk_rows(rows: usize) -> Result<()> {
    match rows > MAX_CHUNK_ROWS {
        true => Err(BowtieError::MustSplit {
            what: "chunk",
            size: rows as u64,
            most: MAX_CHUNK_ROWS as u64,
            unit: "rows",
        }),
        false => Ok(()),
    }
}
