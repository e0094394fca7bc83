//! [`PinnedWord`]: a word that a kernel writes and the host reads without a copy.

use std::sync::Arc;

use crate::device::counters::Counted;
use crate::device::cuda::runtime::arguments::U64;
use crate::device::cuda::runtime::driver::refused;
use crate::device::cuda::runtime::gpu::Gpu;
use crate::device::cuda::runtime::staging::word::Word;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::faults::Fault;
use crate::device::trace::{self, Lane};
use crate::error::Result;

/// A word of pinned host memory, which a kernel writes across the bus.
///
/// A word on the GPU needs an allocation, a memset and a copy, which together take longer than a kernel of few rows.
#[derive(Debug)]
pub(crate) struct PinnedWord {
    gpu: Arc<Gpu>,
    /// `None` after it was read.
    word: Option<Word>,
}

impl Stream {
    /// A word for the kernel that `launch` launches on this stream; 0 if the kernel writes nothing.
    pub(crate) fn pinned_word(&self, launch: impl FnOnce(U64) -> Result<()>) -> Result<PinnedWord> {
        if self.budget.faults().strikes(Fault::Pin) {
            return Err(refused());
        }
        let unused = self.gpu.pinned_words.lock().pop();
        let word = match unused {
            Some(word) => word,
            None => Word::new(&self.gpu.context)?,
        };
        // SAFETY: the word is allocated, and nothing else refers to it.
        unsafe { word.pinned.write_volatile(0) };
        let launched = launch(U64::from(word.pinned as u64)).and_then(|()| {
            let marked = word.written.record(&self.cuda_stream);
            marked.map_err(|e| self.failed("recording an event", e))
        });
        if let Err(error) = launched {
            // The kernel may have been launched nevertheless.
            match self.wait() {
                Ok(()) => self.gpu.pinned_words.lock().push(word),
                Err(_) => std::mem::forget(word),
            }
            return Err(error);
        }
        Ok(PinnedWord {
            gpu: Arc::clone(&self.gpu),
            word: Some(word),
        })
    }
}

impl PinnedWord {
    /// The written word. Waits for the kernel, but not for later launches.
    pub(crate) fn read(mut self) -> Result<u32> {
        self.take()
    }

    fn take(&mut self) -> Result<u32> {
        let Some(word) = self.word.take() else {
            return Ok(0);
        };
        let written = trace::timed(Counted::WaitTime, Lane::Wait, "wait for a number", || {
            word.written.wait()
        });
        if let Err(error) = written {
            // A kernel may still write it.
            std::mem::forget(word);
            return Err(self.gpu.failed("a kernel", error));
        }
        // SAFETY: the word is allocated and initialised, and no kernel writes it any more.
        let written = unsafe { word.pinned.read_volatile() };
        self.gpu.pinned_words.lock().push(word);
        Ok(written)
    }
}

impl Drop for PinnedWord {
    fn drop(&mut self) {
        // The value is not needed, but the word is reused.
        let _ = self.take();
    }
}
