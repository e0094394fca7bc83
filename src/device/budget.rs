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
//! Locks: a step holds the work lock of a root from its begin to its end. While it holds the lock, it may lock its own
//! data, and a card's staging rings and kernels. A holder of one of these never asks for the work lock.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{BowtieError, Result};

/// A limit of reserved bytes. A reservation in a child counts in its parents, too.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    in_use: AtomicU64,
    peak: AtomicU64,
    parent: Option<Arc<Budget>>,
    /// Whether a refused reservation takes from the store.
    reclaims: bool,
    /// The stores below it.
    stores: RwLock<Vec<Weak<dyn Reclaim>>>,
    shared: Arc<Shared>,
}

/// Reservations that are given up for others.
pub(crate) trait Reclaim: Debug + Send + Sync {
    /// Bytes of all that it holds.
    fn stored(&self) -> u64;

    /// Bytes that could be given up now.
    fn reclaimable(&self) -> u64;

    /// Gives up at least `bytes`, if there are as many. Returns the bytes given up.
    fn reclaim(&self, bytes: u64) -> u64;
}

/// What a root and all budgets below it have in common.
#[derive(Debug, Default)]
struct Shared {
    /// Read for the time of a step, many of whose leases end with it; written for exclusive use of the device.
    work: RwLock<()>,
    /// Threads in [`Budget::wait_for_release`].
    waiting: AtomicUsize,
    lock: Mutex<()>,
    /// Notified when a lease is given back while somebody waits.
    released: Condvar,
}

impl Budget {
    /// A root budget.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            in_use: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            parent: None,
            reclaims: true,
            stores: RwLock::default(),
            shared: Arc::default(),
        })
    }

    /// A budget with the parent's limit and a count of its own, for the peak of one operator.
    pub(crate) fn child(self: &Arc<Self>) -> Arc<Self> {
        self.child_of(self.limit)
    }

    /// A child budget of at most `limit` bytes.
    pub(crate) fn child_of(self: &Arc<Self>, limit: u64) -> Arc<Self> {
        self.child_that(limit, true)
    }

    /// The budget of a store: it takes nothing from the store's own columns.
    pub(crate) fn of_store(self: &Arc<Self>) -> Arc<Self> {
        self.child_that(self.limit, false)
    }

    fn child_that(self: &Arc<Self>, limit: u64, reclaims: bool) -> Arc<Self> {
        Arc::new(Self {
            limit: limit.min(self.limit),
            in_use: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            parent: Some(Arc::clone(self)),
            reclaims,
            stores: RwLock::default(),
            shared: Arc::clone(&self.shared),
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
            Some(parent) if self.reclaims => parent.reclaim_of_card(bytes),
            _ => {
                self.reclaim(bytes);
            }
        }
    }

    /// Has the stores give up `bytes` bytes, if they have as many. Whether they gave up any.
    pub(crate) fn reclaim(&self, bytes: u64) -> bool {
        let stores = self.stores();
        let all: u64 = stores.iter().map(|store| store.reclaimable()).sum();
        if !self.reclaims || all < bytes {
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

    /// Bytes that are not reserved, in this budget or a parent, and those `of` stores.
    fn free(&self, of: fn(&dyn Reclaim) -> u64) -> u64 {
        let stores: u64 = self.stores().iter().map(|store| of(store.as_ref())).sum();
        let own = self.limit.saturating_sub(self.in_use());
        let own = own.saturating_add(stores).min(self.limit);
        match &self.parent {
            Some(parent) => own.min(parent.free(of)),
            None => own,
        }
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
        self.grow(bytes, what, self.reclaims)?;
        Ok(Lease {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// The device shared with other steps. `None` if a step has exclusive use of it for longer than `wait`.
    pub(crate) fn share_within(&self, wait: Duration) -> Option<RwLockReadGuard<'_, ()>> {
        self.shared.work.try_read_for(wait)
    }

    /// Exclusive use of the device: no other step of any session runs, and none begins. `None` if that takes longer than `wait`.
    pub(crate) fn exclude_within(&self, wait: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        self.shared.work.try_write_for(wait)
    }

    /// Waits until less than `in_use` bytes of the limit are [in use by all](Self::in_use_by_all), for `wait` at most. Whether they are.
    pub(crate) fn wait_for_release(&self, in_use: u64, wait: Duration) -> bool {
        let shared = &self.shared;
        let deadline = Instant::now() + wait;
        let mut guard = shared.lock.lock();
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        // Either this thread sees the smaller count, or who gave back sees that it waits.
        fence(Ordering::SeqCst);
        let released = loop {
            if self.in_use_by_all() < in_use {
                break true;
            }
            if shared.released.wait_until(&mut guard, deadline).timed_out() {
                break self.in_use_by_all() < in_use;
            }
        };
        shared.waiting.fetch_sub(1, Ordering::SeqCst);
        released
    }

    fn grow(&self, bytes: u64, what: &'static str, reclaims: bool) -> Result<()> {
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
            if !reclaims || bytes > self.limit || !self.reclaim(missing) {
                return Err(BowtieError::OutOfDeviceMemory {
                    what,
                    requested: bytes,
                    in_use,
                    limit: self.limit,
                });
            }
        };
        if let Some(parent) = &self.parent
            && let Err(refused) = parent.grow(bytes, what, reclaims)
        {
            self.in_use.fetch_sub(bytes, Ordering::SeqCst);
            self.notify();
            return Err(refused);
        }
        self.peak.fetch_max(before + bytes, Ordering::Relaxed);
        Ok(())
    }

    fn shrink(&self, bytes: u64) {
        self.in_use.fetch_sub(bytes, Ordering::SeqCst);
        match &self.parent {
            Some(parent) => parent.shrink(bytes),
            None => self.notify(),
        }
    }

    fn notify(&self) {
        let shared = &self.shared;
        if shared.waiting.load(Ordering::SeqCst) > 0 {
            // Not between the look of who waits and its sleep.
            drop(shared.lock.lock());
            shared.released.notify_all();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_given_back_and_the_peak_stays() {
        let budget = Budget::new(100);
        let lease = budget.lease(60, "test").unwrap();
        assert!(budget.lease(41, "test").is_err());
        drop(lease);
        assert_eq!((budget.in_use(), budget.peak()), (0, 60));
        budget.lease(100, "test").unwrap();
    }

    #[test]
    fn a_child_leases_from_its_parent_and_a_refusal_leaves_no_trace() {
        let parent = Budget::new(100);
        let (a, b) = (parent.child(), parent.child());
        let held = a.lease(70, "test").unwrap();
        let refused = b.lease(40, "keys").unwrap_err();
        assert!(refused.is_divisible());
        assert!(refused.to_string().contains("keys needs 40.0 B"));
        assert_eq!((a.in_use(), b.in_use(), parent.in_use()), (70, 0, 70));
        drop(held);
        assert_eq!((parent.in_use(), parent.peak()), (0, 70));
    }

    #[test]
    fn who_waits_is_woken_by_a_release() {
        let root = Budget::new(100);
        let (session, others) = (root.child_of(80), root.child());
        let held = others.lease(70, "others").unwrap();
        let in_use = session.in_use_by_all();
        assert_eq!(in_use, 50);
        assert!(!session.wait_for_release(in_use, Duration::from_millis(5)));
        let begun = Instant::now();
        let released = std::thread::scope(|scope| {
            let waits = scope.spawn(|| session.wait_for_release(in_use, Duration::from_secs(60)));
            while root.shared.waiting.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            drop(held);
            waits.join().unwrap()
        });
        assert!(released && begun.elapsed() < Duration::from_secs(30));
        assert!(session.wait_for_release(in_use, Duration::ZERO));
    }

    #[test]
    fn room_is_that_of_the_tightest_budget() {
        let root = Budget::new(100);
        let (session, other) = (root.child_of(60), root.child_of(1_000));
        assert_eq!((session.limit(), other.limit()), (60, 100));
        let operator = session.child();
        assert_eq!((operator.available(), operator.in_use_by_all()), (60, 0));
        let of_others = other.lease(70, "others").unwrap();
        assert_eq!((operator.available(), operator.in_use_by_all()), (30, 30));
        let own = operator.lease(30, "own").unwrap();
        assert_eq!(
            (operator.available(), other.available(), root.peak()),
            (0, 0, 100)
        );
        // What the session's limit refuses leaves no trace in the root.
        assert!(operator.lease(61, "too much").is_err());
        assert_eq!(root.peak(), 100);
        // The root refuses what the session's limit allows.
        let refused = operator.lease(20, "more").unwrap_err().to_string();
        assert!(refused.contains("100.0 B of 100.0 B"), "{refused}");
        drop((of_others, own));
        assert_eq!((session.available(), root.in_use()), (60, 0));
    }

    /// Holds leases of one byte each.
    #[derive(Debug)]
    struct Store(Mutex<Vec<Lease>>);

    impl Store {
        fn below(budget: &Arc<Budget>, bytes: usize) -> Arc<Self> {
            let own = budget.of_store();
            let leases = (0..bytes).map(|_| own.lease(1, "stored").unwrap());
            let store = Arc::new(Self(Mutex::new(leases.collect())));
            let weak: Weak<Self> = Arc::downgrade(&store);
            let weak: Weak<dyn Reclaim> = weak;
            budget.take_from(&weak);
            store
        }
    }

    impl Reclaim for Store {
        fn stored(&self) -> u64 {
            self.0.lock().len() as u64
        }

        fn reclaimable(&self) -> u64 {
            self.stored()
        }

        fn reclaim(&self, bytes: u64) -> u64 {
            let mut leases = self.0.lock();
            let left = leases.len().saturating_sub(bytes as usize);
            leases.drain(left..).len() as u64
        }
    }

    #[test]
    fn stored_columns_are_given_up_for_leases_of_every_budget() {
        let root = Budget::new(100);
        let (one, two) = (root.child_of(80), root.child_of(80));
        let (of_one, of_root) = (Store::below(&one, 60), Store::below(&root, 20));
        assert_eq!((one.available(), two.available()), (80, 80));
        assert_eq!((one.in_use_by_all(), two.in_use_by_all()), (0, 0));
        // The runtime's own limit, and then the card's.
        let work = one.child().lease(30, "work").unwrap();
        assert_eq!(of_one.stored() + of_root.stored(), 70);
        let other = two.child().lease(50, "work").unwrap();
        assert_eq!(of_one.stored() + of_root.stored(), 20);
        assert_eq!((two.available(), two.in_use_by_all()), (20, 60));
        // More than there is: the stores keep what they have.
        assert!(two.child().lease(25, "too much").is_err());
        assert_eq!(of_one.stored() + of_root.stored(), 20);
        drop((work, other));
        drop(of_one);
        // A store takes nothing from stores.
        assert!(root.of_store().lease(100, "stored").is_err());
    }
}
