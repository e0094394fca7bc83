//! The available devices, without opening one.

use crate::runtime::gpus::{KERNELS, gpus};
use crate::runtime::host_memory::host_memory;

/// A device as `bowtie_devices()` shows it.
#[derive(Debug, Clone)]
pub(crate) struct DeviceInfo {
    /// The device, as `bowtie.device` names it.
    pub device: String,
    /// The card's name, or why the device is not available.
    pub name: String,
    pub memory_bytes: Option<u64>,
    pub compute_capability: Option<String>,
    pub driver: Option<String>,
    /// What its kernels are compiled for.
    pub kernels: String,
}

/// The host and every GPU, or the reason why there is none.
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
        Ok(gpus) => devices.extend(gpus.into_iter().cloned().map(|gpu| DeviceInfo {
            device: format!("cuda:{}", gpu.ordinal),
            name: gpu.name,
            memory_bytes: Some(gpu.total_bytes),
            compute_capability: Some(gpu.compute_capability),
            driver: Some(gpu.driver),
            kernels: KERNELS.into(),
        })),
        Err(reason) => devices.push(DeviceInfo {
            device: "cuda".into(),
            name: format!("not available: {reason}"),
            memory_bytes: None,
            compute_capability: None,
            driver: None,
            kernels: KERNELS.into(),
        }),
    }
    devices
}
