//! [`SessionDevices`]: the devices of one session, opened when the first query runs on them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::device::gpu_info::GpuInfo;
use crate::device::machine_rates::MachineRates;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::options::DeviceChoice;
use crate::runtime::gpus::{check_not_lost, gpu, gpus};
use crate::runtime::process::{BowtieRuntime, DeviceId};
use crate::runtime::rates;

/// A device under each limit that was asked for.
type Opened = HashMap<(DeviceId, Option<u64>), Arc<dyn Device>>;

/// The devices of a session, shared by the rule and everything it plans. There is one handle for each device and limit that was asked
/// for, so all queries of the session under one limit share its budget, which is a part of the runtime's.
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

    pub(crate) fn runtime(&self) -> &Arc<BowtieRuntime> {
        &self.runtime
    }

    /// The device that the choice stands for. The driver is asked, which starts once in the process; no device is opened.
    ///
    /// # Errors
    /// When a GPU was named that cannot be used. `Auto` is the first GPU that can be used, or the host.
    pub(crate) fn choose(&self, choice: DeviceChoice) -> Result<DeviceId> {
        match choice {
            DeviceChoice::Host => Ok(DeviceId::Host),
            DeviceChoice::Cuda(ordinal) => {
                check_usable(gpu(ordinal)?)?;
                Ok(DeviceId::Cuda(ordinal))
            }
            DeviceChoice::Auto => Ok(match self.first_usable_gpu() {
                Ok(gpu) => DeviceId::Cuda(gpu.ordinal),
                Err(reason) => {
                    log::info!("bowtie.device = 'auto' is the host: {reason}");
                    DeviceId::Host
                }
            }),
        }
    }

    /// The device that was [chosen](Self::choose) for `choice`. Under `Auto` the host stands in for a GPU that does not open. `limit` bounds
    /// the memory that it reserves (`None`: half of the host's memory, nine tenths of what a GPU had free).
    ///
    /// # Errors
    /// When a GPU was named that cannot be used.
    pub(crate) fn open(
        &self,
        choice: DeviceChoice,
        device: DeviceId,
        limit: Option<u64>,
    ) -> Result<Arc<dyn Device>> {
        let DeviceId::Cuda(ordinal) = device else {
            return self.opened(device, limit);
        };
        let failures = self.runtime.card_failures();
        if matches!(choice, DeviceChoice::Auto) && failures.check_opening(ordinal).is_err() {
            return self.opened(DeviceId::Host, limit);
        }
        let opened = check_not_lost(ordinal).and_then(|()| self.opened(device, limit));
        match (opened, choice) {
            (Ok(opened), _) => {
                failures.opened(ordinal);
                Ok(opened)
            }
            (Err(reason), DeviceChoice::Auto) => {
                log::warn!(
                    "bowtie.device = 'auto' runs on the host, as the GPU {device} does not open: {reason}; \
                     SET bowtie.device = '{device}' tries it again"
                );
                failures.did_not_open(ordinal, reason.to_string());
                self.opened(DeviceId::Host, limit)
            }
            (Err(reason), _) => Err(reason),
        }
    }

    /// The GPU which the choice stands for; `None` where that is the host, or no GPU that can be used.
    fn planned_gpu(&self, choice: DeviceChoice) -> Option<&'static GpuInfo> {
        let gpu = match choice {
            DeviceChoice::Host => return None,
            DeviceChoice::Auto => self.first_usable_gpu().ok()?,
            DeviceChoice::Cuda(ordinal) => gpu(ordinal).ok()?,
        };
        check_usable(gpu).ok()?;
        Some(gpu)
    }

    /// The memory that work may take of the GPU which the choice stands for; `None` where that is the host, or no GPU that can be used.
    /// No device is opened.
    pub(crate) fn gpu_memory(&self, choice: DeviceChoice, limit: Option<u64>) -> Option<u64> {
        let all = self.planned_gpu(choice)?.total_bytes / 10 * 9;
        Some(limit.map_or(all, |limit| limit.min(all)))
    }

    /// The rates of that GPU and of the host, to plan with. The first call in a process may measure the host. No device is opened.
    pub(crate) fn rates(&self, choice: DeviceChoice) -> Option<MachineRates> {
        self.planned_gpu(choice).map(rates::planned)
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

    /// The first GPU that can be used, or why there is none.
    fn first_usable_gpu(&self) -> Result<&'static GpuInfo> {
        let mut reason = None;
        for gpu in gpus()? {
            let failures = self.runtime.card_failures();
            match check_usable(gpu).and_then(|()| failures.check_opening(gpu.ordinal)) {
                Ok(()) => return Ok(gpu),
                Err(error) => reason = reason.or(Some(error)),
            }
        }
        Err(reason.unwrap_or_else(|| BowtieError::Device("the NVIDIA driver finds no GPU".into())))
    }
}

/// # Errors
/// When the GPU is too old for the kernels, or was given up.
pub(crate) fn check_usable(gpu: &GpuInfo) -> Result<()> {
    if !gpu.takes_kernels {
        return Err(BowtieError::Device(format!(
            "the GPU cuda:{} has compute capability {}, which is too old: the kernels need 7.5 (Turing) or newer",
            gpu.ordinal, gpu.compute_capability
        )));
    }
    check_not_lost(gpu.ordinal)
}
