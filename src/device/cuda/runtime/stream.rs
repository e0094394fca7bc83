//! [`Stream`]: one stream of work on a GPU, and the memory that is used on it.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cudarc::driver::{CudaFunction, CudaStream, DriverError};
use parking_lot::Mutex;

use crate::device::budget::Budget;
use crate::device::counters::Counted;
use crate::device::cuda::runtime::driver::refused;
use crate::device::cuda::runtime::event::{Event, wait_for};
use crate::device::cuda::runtime::gpu::Gpu;
use crate::device::cuda::runtime::kernels::Entry;
use crate::device::faults::Fault;
use crate::device::trace::{self, Lane};
use crate::error::{BowtieError, Result};

/// Where the driver has no memory for kernels, stored columns of this size are given up for them.
const KERNEL_BYTES: u64 = 64 << 20;

/// A stream and the budget of its memory. Work of one stream is done in the order of the launches.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) cuda_stream: Arc<CudaStream>,
    pub(crate) budget: Arc<Budget>,
    /// Whether keys were outside of a assumed range: then those of later chunks are likely to be, too.
    pub(crate) assumed_range_missed: AtomicBool,
    /// Kernels made at run time that were launched and not waited for: their modules stay loaded as long.
    running: Mutex<Vec<CudaFunction>>,
    /// Names of the kernels that were launched, so that a test can tell which way it went.
    #[cfg(test)]
    pub(crate) launched: Mutex<std::collections::BTreeSet<&'static str>>,
}

impl Stream {
    pub(crate) fn new(gpu: Arc<Gpu>, budget: Arc<Budget>) -> Result<Arc<Self>> {
        if budget.faults().strikes(Fault::Stream) {
            return Err(refused());
        }
        let cuda_stream = gpu.stream()?;
        Ok(Arc::new(Self {
            gpu,
            cuda_stream,
            budget,
            assumed_range_missed: AtomicBool::new(false),
            running: Mutex::default(),
            #[cfg(test)]
            launched: Mutex::default(),
        }))
    }

    /// Orders all later launches after `event`.
    pub(crate) fn after(&self, event: &Event) -> Result<()> {
        event
            .before(&self.cuda_stream)
            .map_err(|e| self.failed("ordering two streams", e))
    }

    /// An event behind all work launched so far.
    pub(crate) fn mark(&self) -> Result<Event> {
        self.mark_on(&self.cuda_stream)
    }

    /// The same of another stream of the card, for the work of this one.
    pub(crate) fn mark_on(&self, stream: &CudaStream) -> Result<Event> {
        match self.budget.faults().strikes(Fault::Event) {
            true => Err(refused()),
            false => self.gpu.mark(stream),
        }
    }

    /// Waits until all work is done.
    pub(crate) fn wait(&self) -> Result<()> {
        // What is launched meanwhile may not be waited for.
        let running = mem::take(&mut *self.running.lock());
        let waited = trace::timed(Counted::WaitTime, Lane::Wait, "wait", || {
            wait_for(&self.cuda_stream)
        });
        waited.map_err(|e| {
            self.running.lock().extend(running);
            self.failed("a kernel", e)
        })
    }

    pub(crate) fn bind(&self) -> Result<()> {
        self.gpu
            .context
            .bind_to_thread()
            .map_err(|e| self.failed("binding the context", e))
    }

    /// A kernel, whose family is loaded at its first use. Where the driver has no memory for it, stored columns and unused memory are given up once.
    pub(crate) fn loaded_kernel(&self, entry: Entry) -> Result<&CudaFunction> {
        // Loaded kernels stay, so the fault strikes where they are used.
        let load = || match self.budget.faults().strikes(Fault::Load) {
            true => Err(refused()),
            false => self.gpu.kernel(entry),
        };
        match load() {
            Err(error) if error.is_out_of_device_memory() => {
                self.budget.reclaim_of_card(KERNEL_BYTES);
                self.gpu.trim()?;
                load()
            }
            loaded => loaded,
        }
    }

    /// Keeps a kernel that was just launched until its work was waited for.
    pub(crate) fn keep_loaded(&self, kernel: &CudaFunction) {
        let mut running = self.running.lock();
        let is_known = |known: &CudaFunction| known.cu_function() == kernel.cu_function();
        if !running.iter().any(is_known) {
            running.push(kernel.clone());
        }
    }

    /// The error of a call on this card that should not fail.
    pub(crate) fn failed(&self, what: &str, error: DriverError) -> BowtieError {
        self.gpu.failed(what, error)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let running = mem::take(self.running.get_mut());
        if !running.is_empty() {
            match self.gpu.mark(&self.cuda_stream) {
                Ok(done) => self.gpu.compiled.retire(done, running),
                // Without an event the stream is waited for. After an error nothing runs on the card any more.
                Err(_) => {
                    let _ = wait_for(&self.cuda_stream);
                }
            }
        }
        self.gpu.work_ended();
    }
}
