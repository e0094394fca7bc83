//! [`Word`]: a word of pinned host memory.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, result, sys};
use parking_lot::Mutex;

use crate::device::cuda::runtime::driver::{failed, is_out_of_memory};
use crate::error::{BowtieError, LimitOf, Result};

/// The word's memory, and the event after the kernel that writes it.
#[derive(Debug)]
pub(crate) struct Word {
    pub(crate) pinned: *mut u32,
    pub(crate) written: CudaEvent,
}

// SAFETY: the memory is owned and not tied to the thread that allocated it.
unsafe impl Send for Word {}

/// Unused words.
pub(crate) type Words = Mutex<Vec<Word>>;

impl Word {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self> {
        let written = context
            .new_event(None)
            .map_err(|e| failed("making an event", e))?;
        // SAFETY: plain allocation in the bound context; owned by the word.
        let pinned =
            unsafe { result::malloc_host(size_of::<u32>(), sys::CU_MEMHOSTALLOC_PORTABLE) }
                .map_err(|e| match is_out_of_memory(e) {
                    // The caller has an alternative without a pinned word.
                    true => Self::refused(),
                    false => failed("pinning memory", e),
                })?
                .cast();
        Ok(Self { pinned, written })
    }

    /// The error of memory that cannot be pinned.
    pub(crate) fn refused() -> BowtieError {
        BowtieError::OutOfDeviceMemory {
            what: "a pinned word",
            operator: None,
            requested: size_of::<u32>() as u64,
            in_use: 0,
            limit: 0,
            limit_of: LimitOf::Device,
        }
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        // SAFETY: allocated by malloc_host, freed once; no kernel writes it, as its event was waited for.
        let _ = unsafe { result::free_host(self.pinned.cast()) };
    }
}
