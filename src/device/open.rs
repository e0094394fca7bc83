//! Which devices there are, and opening them: once for a session context, at first use.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Device;
use super::budget::Budget;
use super::host::HostDevice;
use crate::error::Result;

/// The opened devices of a session; shared by the rule and everything it plans.
///
/// There is one handle for each limit that was asked for, so all queries under one limit share its budget.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    host: Mutex<HashMap<u64, Arc<dyn Device>>>,
}

impl Devices {
    /// The host's cores; `limit` bounds their leased memory (`None`: half of the machine's memory).
    pub(crate) fn host(&self, limit: Option<u64>) -> Result<Arc<dyn Device>> {
        let limit = limit.unwrap_or_else(default_host_budget);
        let mut opened = self.host.lock();
        if let Some(device) = opened.get(&limit) {
            return Ok(Arc::clone(device));
        }
        let budget = Budget::new(limit);
        let device = match opened.values().next() {
            // Any handle knows the one thread pool.
            Some(other) => other.attach(budget, Arc::default()),
            None => Arc::new(HostDevice::new(0, budget)?),
        };
        opened.insert(limit, Arc::clone(&device));
        Ok(device)
    }
}

/// Half of the machine's memory, or 4 GiB where it cannot be read.
fn default_host_budget() -> u64 {
    const FALLBACK: u64 = 8 << 30;
    let total = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(FALLBACK, |kib| kib * 1024);
    total / 2
}
