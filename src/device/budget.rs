//! Device memory is leased before it is allocated. A [`Budget`] counts the leases of one device, or of one operator when
//! it has a parent; a [`Lease`] gives its bytes back when it is dropped, so nothing leaks when a stream is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{BowtieError, Result};

/// A bound on leased bytes. Leasing from a child leases from its parent too.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    in_use: AtomicU64,
    peak: AtomicU64,
    parent: Option<Arc<Budget>>,
    /// Read by who is at work with leases that end with that work.
    work: Arc<RwLock<()>>,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            in_use: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            parent: None,
            work: Arc::default(),
        })
    }

    /// A budget with the parent's limit that keeps its own count, so that one operator's peak can be told apart.
    pub(crate) fn child(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            limit: self.limit,
            in_use: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            parent: Some(Arc::clone(self)),
            work: Arc::clone(&self.work),
        })
    }

    /// Bytes that may be leased at once.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes leased now.
    pub(crate) fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Bytes leased now by everyone who shares the limit.
    pub(crate) fn in_use_by_all(&self) -> u64 {
        match &self.parent {
            Some(parent) => parent.in_use_by_all(),
            None => self.in_use(),
        }
    }

    /// Bytes that may be leased still.
    pub(crate) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.in_use_by_all())
    }

    /// Most bytes that were ever leased at once.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Leases `bytes` for `what` (named in the error), or refuses.
    pub(crate) fn lease(self: &Arc<Self>, bytes: u64, what: &'static str) -> Result<Lease> {
        self.grow(bytes, what)?;
        Ok(Lease {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// For the time of a step, many of whose leases end with it. It must not wait for another step. `None` if somebody is alone at work for
    /// longer.
    pub(crate) fn at_work_within(&self, wait: Duration) -> Option<RwLockReadGuard<'_, ()>> {
        self.work.try_read_for(wait)
    }

    /// The same once nobody who shares the limit is at work, and until then nobody begins to be; `None` if that takes longer.
    pub(crate) fn alone_within(&self, wait: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        self.work.try_write_for(wait)
    }

    fn grow(&self, bytes: u64, what: &'static str) -> Result<()> {
        if let Some(parent) = &self.parent {
            parent.grow(bytes, what)?;
        }
        let grown = self
            .in_use
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.limit)
            });
        match grown {
            Ok(before) => {
                self.peak.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(in_use) => {
                if let Some(parent) = &self.parent {
                    parent.shrink(bytes);
                }
                Err(BowtieError::OutOfDeviceMemory {
                    what,
                    requested: bytes,
                    in_use,
                    limit: self.limit,
                })
            }
        }
    }

    fn shrink(&self, bytes: u64) {
        self.in_use.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.shrink(bytes);
        }
    }
}

/// Bytes held from a [`Budget`] until dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Lease {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back what is not needed, if anything is not.
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
        assert!(refused.is_out_of_device_memory());
        assert!(refused.to_string().contains("keys needs 40 bytes"));
        assert_eq!((a.in_use(), b.in_use(), parent.in_use()), (70, 0, 70));
        drop(held);
        assert_eq!((parent.in_use(), parent.peak()), (0, 70));
    }
}
