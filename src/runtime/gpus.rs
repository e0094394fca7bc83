//! The GPUs of the process: the border to the CUDA backend. A build without the feature `cuda` has `no_gpus.rs` in its place.

use std::sync::Arc;

use crate::device::budget::Budget;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::rates::card_rates;
use crate::device::cuda::runtime::gpu::Gpu;
use crate::device::cuda::runtime::kernels::KERNEL_BUILD;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::runtime::{driver, sticky_error};
use crate::device::gpu_info::GpuInfo;
use crate::device::machine_rates::{CardRates, MemoryRates};
use crate::device::primitives::device::Device;
use crate::error::Result;

/// What the kernels were built as.
pub(crate) const KERNELS: &str = KERNEL_BUILD;

/// All GPUs, or why there is none. The driver is asked once in the process.
pub(crate) fn gpus() -> Result<Vec<&'static GpuInfo>> {
    driver::gpus()
}

/// The GPU `ordinal`.
///
/// # Errors
/// When there is none.
pub(crate) fn gpu(ordinal: u32) -> Result<&'static GpuInfo> {
    driver::gpu(ordinal)
}

/// # Errors
/// Once GPU `ordinal` met an error after which it refuses all work.
pub(crate) fn check_not_lost(ordinal: u32) -> Result<()> {
    sticky_error::check_not_lost(ordinal)
}

/// GPU `ordinal`, under the budget that `budget` makes of the card's.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn open(
    ordinal: u32,
    budget: impl FnOnce(&Arc<Budget>) -> Arc<Budget>,
) -> Result<Arc<dyn Device>> {
    let gpu = Gpu::open(ordinal)?;
    let budget = budget(&gpu.budget);
    Ok(Arc::new(CudaDevice::under(gpu, ordinal, budget)?))
}

/// The memory of a GPU at this moment, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CardMemory {
    /// Free, for any process.
    pub(crate) free: u64,
    /// That the queries of this process may reserve.
    pub(crate) budget: u64,
    /// That they have reserved.
    pub(crate) reserved: u64,
}

/// The memory of GPU `ordinal`, which is opened for it.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn memory(ordinal: u32) -> Result<CardMemory> {
    let gpu = Gpu::open(ordinal)?;
    Ok(CardMemory {
        free: gpu.free_bytes()?,
        budget: gpu.budget.limit(),
        reserved: gpu.budget.in_use_by_all(),
    })
}

/// Measures GPU `ordinal`, which is open; `None` where its memory is in use, or where it takes implausibly long.
///
/// # Errors
/// When a call of the driver fails.
pub(crate) fn measure(ordinal: u32) -> Result<Option<CardRates>> {
    let gpu = Gpu::open(ordinal)?;
    let budget = gpu.budget.of_measurement();
    card_rates::card_rates(&Stream::new(gpu, budget)?)
}

/// Has GPU `ordinal`, which is open, use rates of its memory that are known.
pub(crate) fn use_memory_rates(ordinal: u32, rates: MemoryRates) {
    if let Ok(gpu) = Gpu::open(ordinal) {
        gpu.memory_rates.get_or_init(|| rates);
    }
}
