//! [`Word`]: a word of pinned host memory.

use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};
use parking_lot::Mutex;

use crate::device::cuda::runtime::driver::failed;
use crate::device::cuda::runtime::event::Event;
use crate::error::Result;

/// The word's memory, and the event after the kernel that writes it.
#[derive(Debug)]
pub(crate) struct Word {
    pub(crate) pinned: *mut u32,
    pub(crate) written: Event,
}

// SAFETY: the memory is owned and not tied to the thread that allocated it.
unsafe impl Send for Word {}

/// Unused words.
pub(crate) type Words = Mutex<Vec<Word>>;

impl Word {
    /// # Errors
    /// Where no memory can be pinned, a refusal: the caller has an alternative without a pinned word.
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self> {
        let written = Event::new(context).map_err(|e| failed(context, "making an event", e))?;
        // SAFETY: plain allocation in the bound context; owned by the word.
        let pinned =
            unsafe { result::malloc_host(size_of::<u32>(), sys::CU_MEMHOSTALLOC_PORTABLE) }
                .map_err(|e| failed(context, "pinning memory", e))?
                .cast();
        Ok(Self { pinned, written })
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        // SAFETY: allocated by malloc_host, freed once; no kernel writes it, as its event was waited for.
        let _ = unsafe { result::free_host(self.pinned.cast()) };
    }
}
