//! [`devices`]: the devices that `bowtie.device` can name, with their memory, and which of them `auto` takes.

use crate::device::gpu_info::GpuInfo;
use crate::runtime::gpus::{KERNELS, gpus, memory};
use crate::runtime::host_memory::{default_host_budget, free_host_memory, host_memory};
use crate::runtime::process::{DeviceId, host_budget};
use crate::runtime::session_devices::check_usable;

/// A device of this machine, as `bowtie_devices()` shows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The device, as `bowtie.device` names it: `host`, `cuda:0`, …; `cuda` where there is no GPU.
    pub device: String,
    /// The card's name, or the number of threads of the CPU backend.
    pub name: String,
    /// Whether queries can run on it.
    pub usable: bool,
    /// Why not, and what to do about it.
    pub reason: Option<String>,
    /// Whether `bowtie.device = 'auto'` takes it.
    pub is_default: bool,
    /// All of its memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// What is free of it, for any process.
    pub free_bytes: Option<u64>,
    /// What the queries of this process may reserve, if `bowtie.device_memory` is `auto`.
    pub budget_bytes: Option<u64>,
    /// What the queries and the stored columns of this process have reserved.
    pub reserved_bytes: Option<u64>,
    /// Such as 9.0.
    pub compute_capability: Option<String>,
    /// The newest CUDA version that the driver supports, such as 13.0.
    pub driver: Option<String>,
    /// What its kernels are compiled for.
    pub kernels: String,
}

/// The CPU backend and every GPU, or the reason why there is none. GPUs that can be used are opened, which takes a tenth
/// of a second once in a process.
pub fn devices() -> Vec<DeviceInfo> {
    let mut devices = vec![host()];
    match gpus() {
        Ok(gpus) => devices.extend(gpus.into_iter().map(card)),
        Err(reason) => devices.push(DeviceInfo {
            device: "cuda".into(),
            name: "no GPU".into(),
            usable: false,
            reason: Some(reason.to_string()),
            is_default: false,
            memory_bytes: None,
            free_bytes: None,
            budget_bytes: None,
            reserved_bytes: None,
            compute_capability: None,
            driver: None,
            kernels: KERNELS.into(),
        }),
    }
    // The host comes first, and stands in where no GPU opens.
    let gpu = devices.iter().skip(1).position(|device| device.usable);
    let default = gpu.map_or(0, |gpu| gpu + 1);
    devices[default].is_default = true;
    devices
}

/// One of them, by its name.
pub(crate) fn device(name: &str) -> Option<DeviceInfo> {
    if name == DeviceId::Host.to_string() {
        return Some(host());
    }
    let gpus = gpus().ok()?;
    let gpu = gpus
        .into_iter()
        .find(|gpu| DeviceId::Cuda(gpu.ordinal).to_string() == name)?;
    Some(card(gpu))
}

fn host() -> DeviceInfo {
    DeviceInfo {
        device: DeviceId::Host.to_string(),
        name: format!(
            "{} threads",
            std::thread::available_parallelism().map_or(1, usize::from)
        ),
        usable: true,
        reason: None,
        is_default: false,
        memory_bytes: host_memory(),
        free_bytes: free_host_memory(),
        budget_bytes: Some(default_host_budget()),
        reserved_bytes: Some(host_budget().in_use_by_all()),
        compute_capability: None,
        driver: None,
        kernels: "Rust".into(),
    }
}

fn card(gpu: &GpuInfo) -> DeviceInfo {
    let memory = check_usable(gpu).and_then(|()| memory(gpu.ordinal));
    let now = memory.as_ref().ok();
    DeviceInfo {
        device: DeviceId::Cuda(gpu.ordinal).to_string(),
        name: gpu.name.clone(),
        usable: memory.is_ok(),
        reason: memory.as_ref().err().map(ToString::to_string),
        is_default: false,
        memory_bytes: Some(gpu.total_bytes),
        free_bytes: now.map(|now| now.free),
        budget_bytes: now.map(|now| now.budget),
        reserved_bytes: now.map(|now| now.reserved),
        compute_capability: Some(gpu.compute_capability.clone()),
        driver: Some(gpu.driver.clone()),
        kernels: KERNELS.into(),
    }
}
