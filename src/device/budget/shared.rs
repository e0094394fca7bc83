//! [`Shared`]: what threads wait on in a root budget and all below it. [`Need`]: what a waiting step tells who holds memory.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

/// What a root and all budgets below it have in common.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Threads in [`Budget::wait_for_release`](super::Budget::wait_for_release).
    pub(super) waiting: AtomicUsize,
    /// How often a lease was given back while somebody waited.
    pub(super) releases: Mutex<u64>,
    /// Notified of these.
    pub(super) released: Condvar,
    /// The addresses of budgets that refused a waiting step, once for each step.
    pub(super) needs: Mutex<Vec<usize>>,
    /// Notified of a new need.
    pub(super) needed: Notify,
}

/// A step's need of memory that others hold ([`Budget::need`](super::Budget::need)).
#[derive(Debug)]
pub(crate) struct Need {
    budget: usize,
    shared: Arc<Shared>,
}

impl Need {
    /// Tells those who wait for needs that the budget at an address refused a step.
    pub(super) fn new(budget: usize, shared: &Arc<Shared>) -> Self {
        shared.needs.lock().push(budget);
        shared.needed.notify_waiters();
        Self {
            budget,
            shared: Arc::clone(shared),
        }
    }
}

impl Drop for Need {
    fn drop(&mut self) {
        let mut needs = self.shared.needs.lock();
        if let Some(i) = needs.iter().position(|budget| *budget == self.budget) {
            needs.swap_remove(i);
        }
    }
}
