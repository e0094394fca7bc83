//! Device memory is reserved before it is allocated. A [`Budget`] counts the bytes reserved on one device; its children
//! count those of a session, or of one operator. A [`Lease`] is a reservation: dropping it returns its bytes, so a
//! dropped stream leaks nothing.
//!
//! ```text
//! root       a card, or the host's memory: one in the process
//!  └─ runtime    the limit of a `BowtieRuntime` other than the process's own, if there is one
//!      ├─ session    `bowtie.device_memory`
//!      │   └─ operator   one execution, for its peak
//!      └─ store      columns of tables that stay between queries
//! ```
//!
//! What a store keeps counts as available: where a reservation would exceed the limit, the store's columns that no query
//! uses are evicted first ([`Reclaim`]).
//!
//! Locks: a step is in the [gates] of its budgets from its begin to its end. Meanwhile it may lock its own data, and a card's
//! staging rings and kernels. A holder of one of these never enters a gate. No store is asked under a budget's own locks: who asks may
//! be its last holder, and then gives back the leases of its columns.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;

use crate::device::budget::gates::{Gates, Running, Turn};
use crate::device::budget::shared::Shared;
use crate::device::faults::{Fault, Faults};
use crate::error::{BowtieError, LimitOf, Result};

/// A limit of reserved bytes. A reservation in a child counts in its parents, too.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    limit_of: LimitOf,
    in_use: AtomicU64,
    peak: AtomicU64,
    /// Steps that made progress: those that shared the device and ended, and those that succeeded with exclusive use.
    steps: AtomicU64,
    /// Threads in [`Self::wait_for_release`] of this budget.
    waiting: AtomicUsize,
    parent: Option<Arc<Budget>>,
    purpose: Purpose,
    /// The stores below it.
    stores: RwLock<Vec<Weak<dyn Reclaim>>>,
    gates: Gates,
    shared: Arc<Shared>,
    faults: Faults,
}

/// What the reservations of a budget are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Queries. A reservation that does not fit takes from the stores.
    Work,
    /// Stored columns, which take nothing from the stores.
    Store,
    /// A measurement, which takes nothing from the stores either, and does not raise the peaks that users see.
    Measurement,
}

/// Below this share of a limit, what remains is scarce for whatever needs memory.
const LEAST_LEFT_SHARE: u64 = 16;

/// Reservations that are given up for others.
pub(crate) trait Reclaim: Debug + Send + Sync {
    /// Bytes of all that it holds.
    fn stored(&self) -> u64;

    /// Bytes that could be given up now.
    fn reclaimable(&self) -> u64;

    /// Gives up at least `bytes`, if there are as many. Returns the bytes given up.
    fn reclaim(&self, bytes: u64) -> u64;
}

impl Budget {
    /// A root budget.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            limit_of: LimitOf::Device,
            in_use: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            parent: None,
            purpose: Purpose::Work,
            stores: RwLock::default(),
            gates: Gates::of_root(),
            shared: Arc::default(),
            faults: Faults::default(),
        })
    }

    /// A budget with the parent's limit and a count of its own, for the peak of one operator.
    pub(crate) fn child(self: &Arc<Self>) -> Arc<Self> {
        self.child_of(self.limit)
    }

    /// A child budget of at most `limit` bytes, which a session asks for.
    pub(crate) fn child_of(self: &Arc<Self>, limit: u64) -> Arc<Self> {
        let limit = (limit, LimitOf::Session);
        self.child_that(limit, Purpose::Work, self.faults.clone())
    }

    /// The budget of a runtime of at most `limit` bytes, whose calls fail where `faults` say so.
    pub(crate) fn child_with(self: &Arc<Self>, limit: u64, faults: Faults) -> Arc<Self> {
        self.child_that((limit, LimitOf::Runtime), Purpose::Work, faults)
    }

    /// The budget of a store: it takes nothing from the store's own columns.
    pub(crate) fn of_store(self: &Arc<Self>) -> Arc<Self> {
        self.child_for(Purpose::Store)
    }

    /// The budget of a measurement: it takes nothing from stores, and what it reserves counts in no peak.
    pub(crate) fn of_measurement(self: &Arc<Self>) -> Arc<Self> {
        self.child_for(Purpose::Measurement)
    }

    fn child_for(self: &Arc<Self>, purpose: Purpose) -> Arc<Self> {
        self.child_that((self.limit, self.limit_of), purpose, self.faults.clone())
    }

    fn child_that(
        self: &Arc<Self>,
        (limit, limit_of): (u64, LimitOf),
        purpose: Purpose,
        faults: Faults,
    ) -> Arc<Self> {
        let is_lower = limit < self.limit;
        Arc::new(Self {
            limit: limit.min(self.limit),
            limit_of: if is_lower { limit_of } else { self.limit_of },
            in_use: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            parent: Some(Arc::clone(self)),
            purpose,
            stores: RwLock::default(),
            gates: self.gates.below(is_lower),
            shared: Arc::clone(&self.shared),
            faults,
        })
    }

    /// From now on reservations that this budget or one of its parents would refuse take from `store`, whose columns are reserved in a
    /// [budget of a store](Self::of_store).
    pub(crate) fn take_from(&self, store: &Weak<dyn Reclaim>) {
        let mut stores = self.stores.write();
        stores.retain(|known| known.strong_count() > 0);
        stores.push(Weak::clone(store));
        drop(stores);
        if let Some(parent) = &self.parent {
            parent.take_from(store);
        }
    }

    fn stores(&self) -> Vec<Arc<dyn Reclaim>> {
        self.stores
            .read()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Has the stores of the whole device give up `bytes` bytes, if they have as many.
    pub(crate) fn reclaim_of_card(&self, bytes: u64) {
        match &self.parent {
            Some(parent) if self.purpose == Purpose::Work => parent.reclaim_of_card(bytes),
            _ => {
                self.reclaim(bytes);
            }
        }
    }

    /// Has the stores give up `bytes` bytes, if they have as many. Whether they gave up any.
    pub(crate) fn reclaim(&self, bytes: u64) -> bool {
        let stores = self.stores();
        let all: u64 = stores.iter().map(|store| store.reclaimable()).sum();
        if self.purpose != Purpose::Work || all < bytes {
            return false;
        }
        let mut missing = bytes;
        for store in stores {
            missing = missing.saturating_sub(match missing {
                0 => break,
                missing => store.reclaim(missing),
            });
        }
        missing < bytes
    }

    /// The most bytes that may be reserved at the same time.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes reserved now.
    pub(crate) fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Bytes of the limit that are in use by work now: reserved in this budget, or by others in a parent, but not those of stores.
    pub(crate) fn in_use_by_all(&self) -> u64 {
        self.limit - self.free(|store| store.stored())
    }

    /// Bytes that can still be reserved, including those that stores would give up.
    pub(crate) fn available(&self) -> u64 {
        self.free(|store| store.reclaimable())
    }

    /// Whether memory is scarce for the execution that reserves here: once it has `more` bytes, less remains for it than it holds. So it
    /// keeps half of what others leave to it for its work. What others hold is no reason as long as much remains.
    pub(crate) fn is_scarce(&self, more: u64) -> bool {
        let held = self.in_use().saturating_add(more);
        let left = self.available().saturating_sub(more);
        left < held.max(self.limit / LEAST_LEFT_SHARE)
    }

    /// Bytes that are not reserved, in this budget or a parent, and those `of` stores.
    fn free(&self, of: fn(&dyn Reclaim) -> u64) -> u64 {
        let free = self.and_above().map(|budget| budget.free_here(of));
        free.min().unwrap_or_default()
    }

    /// The same of this budget alone.
    fn free_here(&self, of: fn(&dyn Reclaim) -> u64) -> u64 {
        let stores: u64 = self.stores().iter().map(|store| of(store.as_ref())).sum();
        let own = self.limit.saturating_sub(self.in_use());
        own.saturating_add(stores).min(self.limit)
    }

    /// The peak of reserved bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` for `what`, which an error names.
    ///
    /// # Errors
    /// [`BowtieError::OutOfDeviceMemory`] with the figures of the budget that refused: this one, or a parent.
    pub(crate) fn lease(self: &Arc<Self>, bytes: u64, what: &'static str) -> Result<Lease> {
        if self.faults.strikes(Fault::Reservation) {
            return Err(self.refused(bytes, what));
        }
        self.grow(bytes, what, self.purpose)?;
        Ok(Lease {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// The error of a refusal that no budget is a reason of, with the figures of the one that has the least left.
    pub(crate) fn refused(&self, bytes: u64, what: &'static str) -> BowtieError {
        let left = |budget: &&Self| budget.free_here(|store| store.reclaimable());
        let scarcest = self.and_above().min_by_key(left).unwrap_or(self);
        scarcest.refusal(bytes, what, scarcest.in_use(), scarcest.limit_of)
    }

    /// The same where the driver has less than the budget allows.
    pub(crate) fn refused_by_driver(&self, bytes: u64, what: &'static str) -> BowtieError {
        self.refusal(bytes, what, self.in_use(), LimitOf::Driver)
    }

    fn refusal(
        &self,
        requested: u64,
        what: &'static str,
        in_use: u64,
        limit_of: LimitOf,
    ) -> BowtieError {
        BowtieError::OutOfDeviceMemory {
            what,
            operator: None,
            requested,
            in_use,
            limit: self.limit,
            limit_of,
        }
    }

    /// The calls on memory of this budget that are to fail.
    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// A step that shares the device with others, until it is dropped. `None` if a gate stays closed for longer than `wait`.
    pub(crate) fn share_within(&self, wait: Duration) -> Option<Running<'_>> {
        self.gates.share_within(wait)
    }

    /// A place in the queue for exclusive use of what the limit of this budget bounds.
    pub(crate) fn turn(&self) -> Turn<'_> {
        self.gates.turn()
    }

    /// The budget that refused a reservation in this one, by the figures of the error: the largest one of this `limit`, and the device's
    /// where its driver refused.
    pub(crate) fn refuser(&self, limit: u64, limit_of: LimitOf) -> &Self {
        let of_limit = |budget: &&Self| limit_of == LimitOf::Driver || budget.limit == limit;
        self.and_above().filter(of_limit).last().unwrap_or(self)
    }

    fn and_above(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.parent.as_deref())
    }

    /// How many steps made progress, of all that count in this budget.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Counts a step that made progress.
    pub(crate) fn count_step(&self) {
        for budget in self.and_above() {
            budget.steps.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn grow(&self, bytes: u64, what: &'static str, purpose: Purpose) -> Result<()> {
        // The own count first: what this budget refuses is never seen by the others of its parent.
        let before = loop {
            let grown = self
                .in_use
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                    used.checked_add(bytes).filter(|sum| *sum <= self.limit)
                });
            let in_use = match grown {
                Ok(before) => break before,
                Err(in_use) => in_use,
            };
            let missing = in_use.saturating_add(bytes).saturating_sub(self.limit);
            let may_reclaim = purpose == Purpose::Work && bytes <= self.limit;
            if !may_reclaim || !self.reclaim(missing) {
                return Err(self.refusal(bytes, what, in_use, self.limit_of));
            }
        };
        if let Some(parent) = &self.parent
            && let Err(refused) = parent.grow(bytes, what, purpose)
        {
            self.in_use.fetch_sub(bytes, Ordering::SeqCst);
            self.notify();
            return Err(refused);
        }
        if purpose != Purpose::Measurement {
            self.peak.fetch_max(before + bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    fn shrink(&self, bytes: u64) {
        self.in_use.fetch_sub(bytes, Ordering::SeqCst);
        match &self.parent {
            Some(parent) => parent.shrink(bytes),
            None => self.notify(),
        }
    }
}

/// Bytes reserved in a [`Budget`] until dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Lease {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        if bytes < self.bytes {
            self.budget.shrink(self.bytes - bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.shrink(self.bytes);
    }
}

pub(crate) mod gates;
mod shared;
#[cfg(test)]
mod tests;
mod waits;
