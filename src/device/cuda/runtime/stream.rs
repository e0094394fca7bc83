//! [`Stream`]: one stream of work on a GPU, and the memory that is used on it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cudarc::driver::{CudaEvent, CudaStream};

use crate::device::budget::Budget;
use crate::device::counters::Counted;
use crate::device::cuda::runtime::driver::failed;
use crate::device::cuda::runtime::gpu::Gpu;
use crate::device::trace::{self, Lane};
use crate::error::Result;

/// A stream and the budget of its memory. Work of one stream is done in the order of the launches.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) cuda_stream: Arc<CudaStream>,
    pub(crate) budget: Arc<Budget>,
    /// Whether keys were outside of a assumed range: then those of later chunks are likely to be, too.
    pub(crate) assumed_range_missed: AtomicBool,
}

impl Stream {
    pub(crate) fn new(gpu: Arc<Gpu>, budget: Arc<Budget>) -> Result<Arc<Self>> {
        let cuda_stream = gpu.stream()?;
        Ok(Arc::new(Self {
            gpu,
            cuda_stream,
            budget,
            assumed_range_missed: AtomicBool::new(false),
        }))
    }

    /// Orders all later launches after `event`.
    pub(crate) fn after(&self, event: &CudaEvent) -> Result<()> {
        self.cuda_stream
            .wait(event)
            .map_err(|e| failed("ordering two streams", e))
    }

    /// An event behind all work launched so far.
    pub(crate) fn mark(&self) -> Result<CudaEvent> {
        self.gpu.mark(&self.cuda_stream)
    }

    /// Waits until all work is done.
    pub(crate) fn wait(&self) -> Result<()> {
        trace::timed(Counted::WaitTime, Lane::Wait, "wait", || {
            self.cuda_stream.synchronize()
        })
        .map_err(|e| failed("a kernel", e))
    }

    pub(crate) fn bind(&self) -> Result<()> {
        self.gpu
            .context
            .bind_to_thread()
            .map_err(|e| failed("binding the context", e))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.gpu.work_ended();
    }
}
