//! The devices that there are, without opening one.

use crate::device::cuda::runtime::driver::gpus;
use crate::device::cuda::runtime::gpu::KERNEL_BUILD;
use crate::runtime::host_memory::host_memory;

/// A device as `bowtie_devices()` shows it.
#[derive(Debug, Clone)]
pub(crate) struct DeviceInfo {
    /// As `bowtie.device` takes it.
    pub device: String,
    /// The card's name; for a device that is not there, why.
    pub name: String,
    pub memory_bytes: Option<u64>,
    pub compute_capability: Option<String>,
    pub driver: Option<String>,
    /// What its primitives were built as.
    pub kernels: String,
}

/// The host, and every GPU, or why there is none.
pub(crate) fn list() -> Vec<DeviceInfo> {
    let mut devices = vec![DeviceInfo {
        device: "host".into(),
        name: format!(
            "{} threads",
            std::thread::available_parallelism().map_or(1, usize::from)
        ),
        memory_bytes: host_memory(),
        compute_capability: None,
        driver: None,
        kernels: "Rust".into(),
    }];
    match gpus() {
        Ok(gpus) => devices.extend(gpus.iter().cloned().map(|gpu| DeviceInfo {
            device: format!("cuda:{}", gpu.ordinal),
            name: gpu.name,
            memory_bytes: Some(gpu.total_bytes),
            compute_capability: Some(gpu.compute_capability),
            driver: Some(gpu.driver),
            kernels: KERNEL_BUILD.into(),
        })),
        Err(reason) => devices.push(DeviceInfo {
            device: "cuda".into(),
            name: format!("not available: {reason}"),
            memory_bytes: None,
            compute_capability: None,
            driver: None,
            kernels: KERNEL_BUILD.into(),
        }),
    }
    devices
}
