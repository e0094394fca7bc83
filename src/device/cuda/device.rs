//! [`CudaDevice`]: a handle to an NVIDIA GPU for one execution of an operator. `device/cuda/mod.rs` has the map of its
//! files; `primitives.rs` of each family implements the device's traits.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::budget::Budget;
use crate::device::cuda::runtime::gpu::Gpu;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::host::device::HostDevice;
use crate::device::primitives::device::Device;
use crate::device::profile::DeviceProfile;
use crate::error::{BowtieError, Result};

/// A GPU with the stream, the budget and the cancel flag of one operator.
#[derive(Debug)]
pub(crate) struct CudaDevice {
    pub(crate) name: String,
    pub(crate) stream: Arc<Stream>,
    /// The host's primitives, as the fallback for work without a kernel. Host memory is not counted.
    pub(crate) fallback: HostDevice,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) profile: Arc<DeviceProfile>,
    /// The number of rows from which a row program is compiled.
    pub(crate) rows_before_compiling: u64,
    /// The number of rows of both sides of a join from which it is worthwhile to check whether they are presorted.
    pub(crate) least_merged_rows: usize,
}

impl CudaDevice {
    /// GPU `ordinal` with a budget of its own of `limit` bytes (`None`: the card's limit), so that concurrent tests do
    /// not share one.
    #[cfg(test)]
    pub(crate) fn open(ordinal: u32, limit: Option<u64>) -> Result<Self> {
        let gpu = Gpu::open(ordinal)?;
        let budget = Budget::new(limit.unwrap_or(gpu.budget.limit()));
        Self::under(gpu, ordinal, budget)
    }

    /// A handle to an opened GPU under `budget`, which is the card's or a descendant of it.
    ///
    /// # Errors
    /// If the driver creates no stream.
    pub(crate) fn under(gpu: Arc<Gpu>, ordinal: u32, budget: Arc<Budget>) -> Result<Self> {
        Ok(Self {
            name: format!("cuda:{ordinal}"),
            stream: Stream::new(gpu, budget)?,
            fallback: HostDevice::new(Budget::new(u64::MAX))?,
            cancelled: Arc::default(),
            profile: Arc::new(DeviceProfile::of_gpu()),
            rows_before_compiling: ROWS_BEFORE_COMPILING,
            least_merged_rows: LEAST_MERGED_ROWS,
        })
    }
}

impl Device for CudaDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.stream.budget
    }

    fn attach(&self, budget: Arc<Budget>, cancelled: Arc<AtomicBool>) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(Self {
            name: self.name.clone(),
            stream: Stream::new(Arc::clone(&self.stream.gpu), budget)?,
            fallback: self.fallback.cancelled_by(Arc::clone(&cancelled)),
            cancelled,
            profile: Arc::clone(&self.profile),
            rows_before_compiling: self.rows_before_compiling,
            least_merged_rows: self.least_merged_rows,
        }))
    }

    fn check_cancelled(&self) -> Result<()> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(BowtieError::Cancelled),
            false => Ok(()),
        }
    }

    fn for_each_piece(
        &self,
        pieces: usize,
        each: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()> {
        for piece in 0..pieces {
            each(piece)?;
            self.check_cancelled()?;
        }
        Ok(())
    }

    fn for_each_on_host(
        &self,
        tasks: usize,
        each: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()> {
        self.fallback.for_each_piece(tasks, each)?;
        self.check_cancelled()
    }

    fn profile(&self) -> &DeviceProfile {
        &self.profile
    }
}

/// The rows that a program must have been asked for, in all, before it is compiled. The driver takes some 5 to 30 ms,
/// once for a program in a process, and less from its cache on disk. For 10^9 rows the interpreter takes some 5 to 50
/// ms longer than a compiled kernel, increasing with the length of the program. A program that was asked for this
/// number of rows is likely to be used again.
pub(crate) const ROWS_BEFORE_COMPILING: u64 = 1 << 22;

/// The rows of both sides from which it is worthwhile to check whether they are presorted. Below, other strategies are
/// as fast.
pub(crate) const LEAST_MERGED_ROWS: usize = 1 << 17;
