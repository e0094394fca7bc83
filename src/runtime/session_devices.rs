//! [`SessionDevices`]: the devices of one session, opened when a query first needs them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::device::gpu_info::GpuInfo;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::options::DeviceChoice;
use crate::runtime::gpus::{check_not_lost, gpus};
use crate::runtime::process::{BowtieRuntime, DeviceId};

/// The opened devices, by device and requested limit.
type Opened = HashMap<(DeviceId, Option<u64>), Arc<dyn Device>>;

/// The devices of a session, shared by the rule and its plans. There is one handle for each device and limit, so that
/// all queries of the session with the same limit share a budget, which is a child of the runtime's.
#[derive(Debug)]
pub(crate) struct SessionDevices {
    runtime: Arc<BowtieRuntime>,
    opened: Mutex<Opened>,
}

impl Default for SessionDevices {
    fn default() -> Self {
        Self::of(BowtieRuntime::shared())
    }
}

impl SessionDevices {
    pub(crate) fn of(runtime: Arc<BowtieRuntime>) -> Self {
        Self {
            runtime,
            opened: Mutex::default(),
        }
    }

    /// Opens the chosen device. `limit`: the most bytes that it may reserve (`None`: half of the host's memory, nine
    /// tenths of a GPU's free memory).
    ///
    /// # Errors
    /// If a GPU was asked for that cannot be used. `Auto` is the first usable GPU, or the host.
    pub(crate) fn open(&self, choice: DeviceChoice, limit: Option<u64>) -> Result<Arc<dyn Device>> {
        match choice {
            DeviceChoice::Host => self.opened(DeviceId::Host, limit),
            DeviceChoice::Cuda(ordinal) => {
                check_not_lost(ordinal)?;
                self.opened(DeviceId::Cuda(ordinal), limit)
            }
            DeviceChoice::Auto => {
                let gpu =
                    usable_gpu().and_then(|gpu| self.opened(DeviceId::Cuda(gpu.ordinal), limit));
                gpu.or_else(|reason| {
                    log::info!("bowtie.device = 'auto' takes the host: {reason}");
                    self.opened(DeviceId::Host, limit)
                })
            }
        }
    }

    /// The device memory that queries may use on the chosen GPU; `None` for the host, and for a GPU that does not
    /// exist, is too old, or was given up after an error. Opens nothing, so a GPU that cannot be opened for another
    /// reason still has a value.
    pub(crate) fn gpu_memory(&self, choice: DeviceChoice, limit: Option<u64>) -> Option<u64> {
        let gpu = match choice {
            DeviceChoice::Host => return None,
            DeviceChoice::Auto => usable_gpu().ok()?,
            DeviceChoice::Cuda(ordinal) => {
                check_not_lost(ordinal).ok()?;
                let is_asked_for = |gpu: &GpuInfo| gpu.ordinal == ordinal && gpu.takes_kernels;
                gpus().ok()?.into_iter().find(is_asked_for)?
            }
        };
        let all = gpu.total_bytes / 10 * 9;
        Some(limit.map_or(all, |limit| limit.min(all)))
    }

    fn opened(&self, device: DeviceId, limit: Option<u64>) -> Result<Arc<dyn Device>> {
        let mut opened = self.opened.lock();
        if let Some(device) = opened.get(&(device, limit)) {
            return Ok(Arc::clone(device));
        }
        let handle = self.runtime.open(device, limit)?;
        opened.insert((device, limit), Arc::clone(&handle));
        Ok(handle)
    }
}

/// The first GPU that the kernels run on and that was not given up, or the reason why there is none.
fn usable_gpu() -> Result<GpuInfo> {
    let mut reason = None;
    for gpu in gpus()? {
        let checked = match gpu.takes_kernels {
            true => check_not_lost(gpu.ordinal),
            false => Err(BowtieError::Device(format!(
                "the GPU cuda:{} has compute capability {}, which is too old for the kernels",
                gpu.ordinal, gpu.compute_capability
            ))),
        };
        match checked {
            Ok(()) => return Ok(gpu),
            Err(error) => reason = reason.or(Some(error)),
        }
    }
    Err(reason.unwrap_or_else(|| BowtieError::Device("the NVIDIA driver finds no GPU".into())))
}
