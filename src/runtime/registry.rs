//! Which devices there are, and opening them: once for a session context, at first use.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::device::budget::Budget;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::driver::gpus;
use crate::device::cuda::runtime::gpu::KERNEL_BUILD;
use crate::device::cuda::runtime::sticky_error::check_not_lost;
use crate::device::host::device::HostDevice;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::options::DeviceChoice;

/// A device for each choice and limit that was asked for.
type Opened = HashMap<(DeviceChoice, Option<u64>), Arc<dyn Device>>;

/// The opened devices of a session; shared by the rule and everything it plans.
///
/// There is one handle for each device and limit that was asked for, so all queries under one limit share its budget.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    opened: Mutex<Opened>,
}

impl Devices {
    /// The device of the choice; `limit` bounds its leased memory (`None`: half of the host's memory, nine tenths of what a
    /// GPU has free).
    ///
    /// # Errors
    /// When a GPU was asked for that cannot be used. `Auto` takes the host then.
    pub(crate) fn open(&self, choice: DeviceChoice, limit: Option<u64>) -> Result<Arc<dyn Device>> {
        match choice {
            DeviceChoice::Auto => match self.opened(DeviceChoice::Cuda(0), limit) {
                Err(reason) => {
                    log::info!("bowtie.device = 'auto' takes the host: {reason}");
                    self.opened(DeviceChoice::Host, limit)
                }
                device => device,
            },
            named => self.opened(named, limit),
        }
    }

    /// The memory that work may take of the GPU which the choice stands for; `None` where that is the host, or no GPU that there is.
    /// Opens nothing: a GPU that cannot be opened for another reason than that it is too old, or lost, has some.
    pub(crate) fn gpu_memory(&self, choice: DeviceChoice, limit: Option<u64>) -> Option<u64> {
        let ordinal = match choice {
            DeviceChoice::Host => return None,
            DeviceChoice::Auto => 0,
            DeviceChoice::Cuda(ordinal) => ordinal,
        };
        check_not_lost().ok()?;
        let gpu = gpus()
            .ok()?
            .into_iter()
            .find(|gpu| gpu.ordinal == ordinal && gpu.takes_kernels)?;
        Some(limit.unwrap_or(gpu.total_bytes / 10 * 9))
    }

    fn opened(&self, named: DeviceChoice, limit: Option<u64>) -> Result<Arc<dyn Device>> {
        if let DeviceChoice::Cuda(_) = named {
            check_not_lost()?;
        }
        let mut opened = self.opened.lock();
        if let Some(device) = opened.get(&(named, limit)) {
            return Ok(Arc::clone(device));
        }
        let device: Arc<dyn Device> = match named {
            DeviceChoice::Cuda(ordinal) => Arc::new(CudaDevice::open(ordinal, limit)?),
            DeviceChoice::Host | DeviceChoice::Auto => Self::host(limit)?,
        };
        opened.insert((named, limit), Arc::clone(&device));
        Ok(device)
    }

    fn host(limit: Option<u64>) -> Result<Arc<dyn Device>> {
        let budget = Budget::new(limit.unwrap_or_else(default_host_budget));
        Ok(Arc::new(HostDevice::new(budget)?))
    }
}

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
        Ok(gpus) => devices.extend(gpus.into_iter().map(|gpu| DeviceInfo {
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

/// Half of the machine's memory, or 4 GiB where that cannot be read.
pub(crate) fn default_host_budget() -> u64 {
    const FALLBACK: u64 = 8 << 30;
    host_memory().unwrap_or(FALLBACK) / 2
}

/// The machine's memory, or what a container may take of it, where it can be read.
fn host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib = line.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    // Without a limit it says so in words.
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|limit| limit.trim().parse::<u64>().ok());
    Some((kib * 1024).min(limit.unwrap_or(u64::MAX)))
}
