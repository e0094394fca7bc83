//! [`BowtieRuntime`]: the devices' memory and state that the sessions of a process share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::device::budget::Budget;
use crate::device::faults::Faults;
use crate::device::host::device::HostDevice;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::runtime::card_failures::CardFailures;
use crate::runtime::host_memory::{default_host_budget, host_memory};
use crate::runtime::{gpus, rates};
use crate::store::column_store::ColumnStore;
use crate::store::snapshots::Snapshots;

/// A device of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum DeviceId {
    Host,
    /// A GPU, by its ordinal.
    Cuda(u32),
}

impl fmt::Display for DeviceId {
    /// As `bowtie.device` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// The memory of each device that a group of sessions shares.
///
/// A device has one root budget in the process: nine tenths of the memory that a GPU has free when it is opened, and
/// the host's memory. The reservations of all sessions together do not exceed it. `bowtie.device_memory` bounds one
/// session within it. Kernels, staging memory, measured rates and the error state belong to the card, so all sessions
/// share these, too.
///
/// [`with_bowtie`](crate::BowtieSessionExt::with_bowtie) uses [`BowtieRuntime::shared`], which suits nearly every
/// application. A server that limits some of its sessions to a part of the memory creates a runtime for them:
///
/// ```
/// use datafusion::{execution::SessionStateBuilder, prelude::*};
/// use datafusion_bowtie::{BowtieRuntime, BowtieSessionExt};
/// # fn main() -> datafusion::error::Result<()> {
/// let batch = BowtieRuntime::with_device_memory(512 << 20);
/// let session = || -> datafusion::error::Result<SessionContext> {
///     let state = SessionStateBuilder::new().with_default_features();
///     let state = state.with_bowtie_runtime(batch.clone())?.build();
///     Ok(SessionContext::new_with_state(state))
/// };
/// // Together they use at most 512 MiB of each device.
/// let (first, second) = (session()?, session()?);
/// # let _ = (first, second);
/// assert!(batch.device_memory().iter().all(|device| device.peak <= 512 << 20));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BowtieRuntime {
    /// The most bytes of each device; `None`: the root budget's limit.
    limit: Option<u64>,
    budgets: Mutex<HashMap<DeviceId, Arc<Budget>>>,
    /// By the name of the device.
    stores: Mutex<HashMap<String, Arc<ColumnStore>>>,
    snapshots: Arc<Snapshots>,
    card_failures: CardFailures,
    /// Of the budgets of a runtime with a limit.
    faults: Faults,
}

/// The memory of a device that the sessions of a [`BowtieRuntime`] share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The device, as `bowtie.device` names it.
    pub device: String,
    /// Bytes that all sessions together may reserve.
    pub limit: u64,
    /// Bytes reserved now.
    pub in_use: u64,
    /// The most bytes that were ever reserved at the same time.
    pub peak: u64,
}

impl BowtieRuntime {
    /// The runtime that all sessions of the process share.
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<BowtieRuntime>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(Self::new(None, Faults::default()))))
    }

    /// A runtime whose sessions together use at most `bytes` of each device. These bytes are part of the process's
    /// budget of the device, not in addition to it.
    pub fn with_device_memory(bytes: u64) -> Arc<Self> {
        Arc::new(Self::new(Some(bytes), Faults::default()))
    }

    /// The same, for tests: its queries fail where `faults` say so.
    #[cfg(feature = "faults")]
    #[doc(hidden)]
    pub fn with_faults(bytes: u64, faults: &Faults) -> Arc<Self> {
        Arc::new(Self::new(Some(bytes), faults.clone()))
    }

    /// Forgets that queries failed on GPUs, for tests.
    #[cfg(feature = "faults")]
    #[doc(hidden)]
    pub fn forget_failures(&self) {
        self.card_failures.forget();
    }

    /// GPUs that `auto` passes over.
    pub(super) fn card_failures(&self) -> &CardFailures {
        &self.card_failures
    }

    /// The memory of each device that a session of this runtime has used so far.
    pub fn device_memory(&self) -> Vec<DeviceMemory> {
        let budgets = self.budgets.lock();
        let mut devices: Vec<_> = budgets.iter().collect();
        devices.sort_by_key(|(device, _)| **device);
        let memory = devices.into_iter().map(|(device, budget)| DeviceMemory {
            device: device.to_string(),
            limit: budget.limit(),
            in_use: budget.in_use(),
            peak: budget.peak(),
        });
        memory.collect()
    }

    fn new(limit: Option<u64>, faults: Faults) -> Self {
        Self {
            limit,
            budgets: Mutex::default(),
            stores: Mutex::default(),
            snapshots: Arc::default(),
            card_failures: CardFailures::default(),
            faults,
        }
    }

    /// Opens a device under a budget of its own of at most `limit` bytes (`None`: half of the host's memory, all of a
    /// GPU's budget).
    ///
    /// # Errors
    /// If it is a GPU that cannot be used.
    pub(crate) fn open(&self, device: DeviceId, limit: Option<u64>) -> Result<Arc<dyn Device>> {
        match device {
            DeviceId::Host => {
                let limit = limit.unwrap_or_else(default_host_budget);
                let budget = self.budget(device, host_budget).child_of(limit);
                Ok(Arc::new(HostDevice::new(budget)?))
            }
            DeviceId::Cuda(ordinal) => {
                let limit = limit.unwrap_or(u64::MAX);
                let opened = gpus::open(ordinal, |card| {
                    self.budget(device, || Arc::clone(card)).child_of(limit)
                })?;
                rates::opened(ordinal);
                Ok(opened)
            }
        }
    }

    /// The store of an opened device.
    ///
    /// # Errors
    /// If the device opens no stream.
    pub(crate) fn store(&self, device: &dyn Device) -> Result<Arc<ColumnStore>> {
        let mut stores = self.stores.lock();
        if let Some(store) = stores.get(device.name()) {
            return Ok(Arc::clone(store));
        }
        let budgets = self.budgets.lock();
        let mut of_device = budgets
            .iter()
            .filter(|(id, _)| id.to_string() == device.name());
        let (_, budget) = of_device.next().ok_or_else(|| {
            BowtieError::Internal(format!("{} was not opened here", device.name()))
        })?;
        let store = ColumnStore::new(device, budget)?;
        stores.insert(device.name().to_string(), Arc::clone(&store));
        Ok(store)
    }

    /// The stores so far, by the name of their devices.
    pub(crate) fn stores(&self) -> Vec<(String, Arc<ColumnStore>)> {
        let stores = self.stores.lock();
        let stores = stores
            .iter()
            .map(|(name, store)| (name.clone(), Arc::clone(store)));
        let mut stores: Vec<_> = stores.collect();
        stores.sort_by(|a, b| a.0.cmp(&b.0));
        stores
    }

    /// What tables in memory held when they were read last.
    pub(crate) fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }

    /// The budget that the sessions of this runtime share. `root`: the device's root budget.
    fn budget(&self, device: DeviceId, root: impl FnOnce() -> Arc<Budget>) -> Arc<Budget> {
        let mut budgets = self.budgets.lock();
        let budget = budgets.entry(device).or_insert_with(|| match self.limit {
            None => root(),
            Some(limit) => root().child_with(limit, self.faults.clone()),
        });
        Arc::clone(budget)
    }
}

/// The root budget of the host's memory.
pub(crate) fn host_budget() -> Arc<Budget> {
    static HOST: OnceLock<Arc<Budget>> = OnceLock::new();
    let all = || host_memory().unwrap_or(2 * default_host_budget());
    Arc::clone(HOST.get_or_init(|| Budget::new(all())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_share_the_memory_of_a_device() {
        let (one, two) = (
            BowtieRuntime::with_device_memory(1 << 20),
            BowtieRuntime::with_device_memory(1 << 20),
        );
        let open = |runtime: &BowtieRuntime, limit| runtime.open(DeviceId::Host, limit).unwrap();
        let (a, b) = (open(&one, None), open(&one, Some(3 << 18)));
        let other = open(&two, None);
        assert_eq!(a.budget().limit(), 1 << 20);
        assert_eq!(b.budget().limit(), 3 << 18);
        let held = a.budget().lease(1 << 19, "a").unwrap();
        assert_eq!(b.budget().available(), 1 << 19);
        assert_eq!(other.budget().available(), 1 << 20);
        assert!(b.budget().lease((1 << 19) + 1, "b").is_err());
        let [memory] = &one.device_memory()[..] else {
            panic!("one device")
        };
        assert_eq!((memory.device.as_str(), memory.in_use), ("host", 1 << 19));
        assert!(host_budget().in_use() >= held.bytes());
        // Exclusive use of one runtime's memory does not wait for steps of the other, but that of the whole device does.
        let wait = std::time::Duration::from_secs(60);
        let step = a.budget().share_within(wait).unwrap();
        let excludes = other.budget().turn().exclude_within(wait);
        assert!(excludes.is_some());
        drop(excludes);
        let wait = std::time::Duration::from_millis(1);
        assert!(host_budget().turn().exclude_within(wait).is_none());
        drop(step);
    }
}
