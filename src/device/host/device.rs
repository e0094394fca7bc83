//! [`HostDevice`]: all cores of the machine as a device, under a budget of host memory. `primitives.rs` of each family
//! implements its traits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::ThreadPool;
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::faults::Fault;
use crate::device::primitives::device::Device;
use crate::device::profile::DeviceProfile;
use crate::device::threads;
use crate::error::{BowtieError, Result};

/// The host's cores and memory.
#[derive(Debug, Clone)]
pub(crate) struct HostDevice {
    pub(crate) budget: Arc<Budget>,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) pool: Arc<ThreadPool>,
    profile: Arc<DeviceProfile>,
}

impl HostDevice {
    /// A device of all cores, whose allocations `budget` bounds.
    pub(crate) fn new(budget: Arc<Budget>) -> Result<Self> {
        let pool = threads::pool()?;
        Ok(Self {
            budget,
            cancelled: Arc::default(),
            profile: Arc::new(DeviceProfile::of_host(pool.current_num_threads())),
            pool,
        })
    }
}

impl HostDevice {
    /// The same device; its long primitives fail soon after `cancelled` is set.
    pub(crate) fn cancelled_by(&self, cancelled: Arc<AtomicBool>) -> Self {
        Self {
            cancelled,
            ..self.clone()
        }
    }
}

impl Device for HostDevice {
    fn name(&self) -> &str {
        "host"
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn attach(&self, budget: Arc<Budget>, cancelled: Arc<AtomicBool>) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(Self {
            budget,
            cancelled,
            ..self.clone()
        }))
    }

    fn check_cancelled(&self) -> Result<()> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(BowtieError::Cancelled),
            false => self.budget.faults().check(Fault::Launch),
        }
    }

    fn for_each_piece(
        &self,
        pieces: usize,
        each: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()> {
        let piece = |piece| {
            self.budget.faults().check(Fault::Launch)?;
            each(piece)
        };
        self.pool
            .install(|| (0..pieces).into_par_iter().try_for_each(piece))?;
        self.check_cancelled()
    }

    fn for_each_on_host(
        &self,
        tasks: usize,
        each: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()> {
        self.for_each_piece(tasks, each)
    }

    fn profile(&self) -> &DeviceProfile {
        &self.profile
    }
}
