//! [`PlannedDevice`]: the device that a plan names. It opens when the plan is executed.

use std::sync::{Arc, OnceLock};

use datafusion::error::{DataFusionError, Result};

use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::options::DeviceChoice;
use crate::runtime::process::DeviceId;
use crate::runtime::session_devices::SessionDevices;
use crate::store::column_store::ColumnStore;

/// The device of a plan's nodes: its name is known, its context and its kernels are not needed before the first execution.
#[derive(Debug)]
pub(crate) struct PlannedDevice {
    devices: Arc<SessionDevices>,
    choice: DeviceChoice,
    device: DeviceId,
    limit: Option<u64>,
    name: String,
    is_timed: bool,
    /// The name of the device that opened: the host's, where `auto` chose a GPU that does not open.
    opened: OnceLock<String>,
}

impl PlannedDevice {
    /// The device that `choice` stands for now, under `limit` bytes.
    ///
    /// # Errors
    /// When a GPU was named that cannot be used, as far as the driver knows without opening it.
    pub(crate) fn new(
        devices: &Arc<SessionDevices>,
        choice: DeviceChoice,
        limit: Option<u64>,
    ) -> Result<Self> {
        let device = devices
            .choose(choice)
            .map_err(|error| unavailable(choice, error))?;
        Ok(Self::chosen(devices, choice, device, limit))
    }

    /// The same, for which no other device stands in: it is as if the user had named it.
    ///
    /// # Errors
    /// As [`PlannedDevice::new`].
    pub(crate) fn strictly(
        devices: &Arc<SessionDevices>,
        choice: DeviceChoice,
        limit: Option<u64>,
    ) -> Result<Self> {
        let chosen = Self::new(devices, choice, limit)?;
        if let (DeviceChoice::Auto, Some((gpu, reason))) =
            (choice, devices.runtime().card_failures().first_unopened())
            && chosen.device == DeviceId::Host
        {
            let named = DeviceChoice::Cuda(gpu);
            return Err(unavailable(named, BowtieError::Device(reason)));
        }
        let choice = match chosen.device {
            DeviceId::Host => DeviceChoice::Host,
            DeviceId::Cuda(ordinal) => DeviceChoice::Cuda(ordinal),
        };
        Ok(Self { choice, ..chosen })
    }

    /// The memory of a GPU that is not there: what is usable of an H100's.
    pub(crate) const IMAGINED_MEMORY: u64 = 72 << 30;

    /// A GPU that need not be there, for a plan that is shown and not executed.
    pub(crate) fn imagined(
        devices: &Arc<SessionDevices>,
        ordinal: u32,
        limit: Option<u64>,
    ) -> Self {
        let choice = DeviceChoice::Cuda(ordinal);
        Self::chosen(devices, choice, DeviceId::Cuda(ordinal), limit)
    }

    fn chosen(
        devices: &Arc<SessionDevices>,
        choice: DeviceChoice,
        device: DeviceId,
        limit: Option<u64>,
    ) -> Self {
        Self {
            devices: Arc::clone(devices),
            choice,
            device,
            limit,
            name: device.to_string(),
            is_timed: false,
            opened: OnceLock::new(),
        }
    }

    /// The same, whose nodes ask the card for the times of their work, if `is_timed`.
    pub(crate) fn timed(self, is_timed: bool) -> Self {
        Self { is_timed, ..self }
    }

    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// As shown in EXPLAIN, such as `host`.
    pub(crate) fn name(&self) -> &str {
        self.opened.get().unwrap_or(&self.name)
    }

    /// Whether it is a GPU, as far as is known: the host may run the plan in place of one that does not open.
    pub(crate) fn is_gpu(&self) -> bool {
        self.name() != DeviceId::Host.to_string()
    }

    /// Whether rows that one leaves on its device can be read by a node of the other one.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.devices, &other.devices)
            && (self.choice, self.device, self.limit) == (other.choice, other.device, other.limit)
    }

    /// The columns that stay on an opened device between queries.
    ///
    /// # Errors
    /// When the device opens no stream for them.
    pub(crate) fn store(&self, opened: &dyn Device) -> Result<Arc<ColumnStore>> {
        Ok(self.devices.runtime().store(opened)?)
    }

    /// Has `auto` leave the card alone for some seconds, as a query failed on it.
    pub(crate) fn leave_alone(&self, why: &DataFusionError) {
        if let DeviceId::Cuda(ordinal) = self.device {
            let failures = self.devices.runtime().card_failures();
            failures.query_failed(ordinal, why.strip_backtrace());
        }
    }

    /// # Errors
    /// While the card is [left alone](Self::leave_alone).
    pub(crate) fn is_left_alone(&self) -> Result<()> {
        match self.device {
            DeviceId::Cuda(ordinal) => Ok(self.devices.runtime().card_failures().check(ordinal)?),
            DeviceId::Host => Ok(()),
        }
    }

    /// Opens the device, which the first query of a process waits for: a GPU's context takes a tenth of a second, and its kernels
    /// may be translated.
    ///
    /// # Errors
    /// When a GPU was named that does not open. Under `auto` the host runs the plan instead.
    pub(crate) fn open(&self) -> Result<Arc<dyn Device>> {
        let (choice, device) = (self.choice, self.device);
        let opened = self.devices.open(choice, device, self.limit);
        let opened = opened.map_err(|error| unavailable(choice, error))?;
        self.opened.get_or_init(|| opened.name().to_string());
        Ok(opened)
    }
}

/// The error of a device that the option names.
fn unavailable(choice: DeviceChoice, error: BowtieError) -> DataFusionError {
    match choice {
        DeviceChoice::Cuda(_) => DataFusionError::Configuration(format!(
            "bowtie.device = '{choice}' is not available: {error}; SET bowtie.device = 'auto' or 'host'"
        )),
        DeviceChoice::Auto | DeviceChoice::Host => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is no machine with so many.
    const MISSING: u32 = 4_000_000;

    fn missing(choice: DeviceChoice) -> PlannedDevice {
        let devices = Arc::default();
        PlannedDevice::chosen(&devices, choice, DeviceId::Cuda(MISSING), Some(1 << 20))
    }

    #[test]
    fn the_host_stands_in_for_a_gpu_that_auto_chose_and_that_does_not_open() {
        let device = missing(DeviceChoice::Auto);
        assert_eq!(device.name(), format!("cuda:{MISSING}"));
        let opened = device.open().unwrap();
        assert_eq!((opened.name(), device.name()), ("host", "host"));
        assert_eq!(opened.budget().limit(), 1 << 20);
    }

    #[test]
    fn a_named_gpu_that_does_not_open_is_an_error() {
        let error = missing(DeviceChoice::Cuda(MISSING)).open().unwrap_err();
        let told = error.to_string();
        assert!(
            told.contains(&format!("bowtie.device = 'cuda:{MISSING}'")),
            "{told}"
        );
        assert!(
            told.contains("SET bowtie.device = 'auto' or 'host'"),
            "{told}"
        );
        let planned = PlannedDevice::new(&Arc::default(), DeviceChoice::Cuda(MISSING), None);
        assert_eq!(planned.unwrap_err().to_string(), told);
    }

    #[test]
    fn rows_stay_between_nodes_of_one_device() {
        let devices = Arc::default();
        let of = |choice, limit| PlannedDevice::new(&devices, choice, limit).unwrap();
        let host = of(DeviceChoice::Host, None);
        assert!(host.is_same_as(&of(DeviceChoice::Host, None)));
        assert!(!host.is_same_as(&of(DeviceChoice::Host, Some(1))));
        let other = PlannedDevice::new(&Arc::default(), DeviceChoice::Host, None).unwrap();
        assert!(!host.is_same_as(&other));
    }
}
