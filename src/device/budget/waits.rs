//! Waits for memory that others give back, and the needs that waiting steps tell.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use crate::device::budget::Budget;
use crate::device::budget::shared::Need;

impl Budget {
    /// Whether a step waits for memory that counts in this budget.
    pub(crate) fn is_waited_for(&self) -> bool {
        let mut budgets = self.and_above();
        budgets.any(|budget| budget.waiting.load(Ordering::Relaxed) > 0)
    }

    /// Tells those who hold memory between their steps that a step needs some, until the need is dropped: those that count in this
    /// budget, which refused the step.
    pub(crate) fn need(&self) -> Need {
        Need::new(self.address(), &self.shared)
    }

    /// Waits until a step needs memory that this budget counts in.
    pub(crate) async fn needed(&self) {
        loop {
            let next = self.shared.needed.notified();
            if self.is_needed() {
                return;
            }
            next.await;
        }
    }

    fn is_needed(&self) -> bool {
        let needs = self.shared.needs.lock();
        let mut above = self.and_above();
        !needs.is_empty() && above.any(|budget| needs.contains(&budget.address()))
    }

    /// What tells a budget from others as long as it lives.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits until less than `in_use` bytes of the limit are [in use by all](Self::in_use_by_all), for `wait` at most. Whether they are.
    pub(crate) fn wait_for_release(&self, in_use: u64, wait: Duration) -> bool {
        let shared = &self.shared;
        let deadline = Instant::now() + wait;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        let released = loop {
            let seen = *shared.releases.lock();
            // Either this thread sees the smaller count, or who gave back sees that it waits.
            fence(Ordering::SeqCst);
            // Not under the lock: whoever looks at a store may be its last holder, and give back its leases.
            if self.in_use_by_all() < in_use {
                break true;
            }
            if Instant::now() >= deadline {
                break false;
            }
            let mut releases = shared.releases.lock();
            let none = |releases: &mut u64| *releases == seen;
            let condition = &shared.released;
            condition.wait_while_until(&mut releases, none, deadline);
        };
        shared.waiting.fetch_sub(1, Ordering::SeqCst);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        released
    }

    /// Wakes those who wait for a release.
    pub(super) fn notify(&self) {
        let shared = &self.shared;
        if shared.waiting.load(Ordering::SeqCst) > 0 {
            *shared.releases.lock() += 1;
            shared.released.notify_all();
        }
    }
}
