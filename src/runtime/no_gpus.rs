//! `gpus.rs` of a build without the feature `cuda`: there are none.

use std::sync::Arc;

use crate::device::budget::Budget;
use crate::device::gpu_info::GpuInfo;
use crate::device::machine_rates::{CardRates, MemoryRates};
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};

/// What the kernels were built as.
pub(crate) const KERNELS: &str = "none";

/// Why there is no GPU.
pub(crate) fn gpus() -> Result<Vec<&'static GpuInfo>> {
    Err(not_built())
}

/// # Errors
/// Always.
pub(crate) fn gpu(_ordinal: u32) -> Result<&'static GpuInfo> {
    Err(not_built())
}

/// # Errors
/// Always.
pub(crate) fn check_not_lost(_ordinal: u32) -> Result<()> {
    Err(not_built())
}

/// # Errors
/// Always.
pub(crate) fn open(
    _ordinal: u32,
    _budget: impl FnOnce(&Arc<Budget>) -> Arc<Budget>,
) -> Result<Arc<dyn Device>> {
    Err(not_built())
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

/// # Errors
/// Always.
pub(crate) fn memory(_ordinal: u32) -> Result<CardMemory> {
    Err(not_built())
}

/// # Errors
/// Always.
pub(crate) fn measure(_ordinal: u32) -> Result<Option<CardRates>> {
    Err(not_built())
}

/// There is none.
pub(crate) fn use_memory_rates(_ordinal: u32, _rates: MemoryRates) {}

fn not_built() -> BowtieError {
    BowtieError::Device(
        "datafusion-bowtie was built without its feature 'cuda', so it has no CUDA backend".into(),
    )
}

#[cfg(test)]
mod tests {
    use crate::options::DeviceChoice;
    use crate::runtime::session_devices::SessionDevices;

    #[test]
    fn a_gpu_that_is_asked_for_is_an_error_and_auto_is_the_host() {
        let devices = SessionDevices::default();
        let error = devices.choose(DeviceChoice::Cuda(0)).unwrap_err();
        assert!(error.to_string().contains("feature 'cuda'"), "{error}");
        let chosen = devices.choose(DeviceChoice::Auto).unwrap();
        let device = devices.open(DeviceChoice::Auto, chosen, None).unwrap();
        assert_eq!(device.name(), "host");
        assert_eq!(devices.gpu_memory(DeviceChoice::Auto, None), None);
    }
}
