//! [`Faults`]: calls of a device that fail on purpose, for tests (feature `faults`). A build without the feature has
//! `no_faults.rs` in its place.
//!
//! Every budget has the faults of its parent, down from that of a `BowtieRuntime`, so that the queries of one runtime fail and
//! those of others do not. Whatever reserves, allocates, copies or launches asks the faults of its budget first.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{BowtieError, Result};

/// A kind of call that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A budget refuses a reservation.
    Reservation,
    /// A GPU's driver refuses memory that was reserved.
    Allocation,
    /// A copy to the device. On the host, which shares the columns, taking them.
    Upload,
    /// A copy from the device. On the host, handing columns or words out.
    Download,
    /// A copy, or a fill, within a GPU's memory.
    Copy,
    /// A GPU's launch. On the host, the beginning of a step, or of a piece of its work.
    Launch,
    /// A GPU's driver refuses the memory of a kernel. Kernels stay loaded, so this is asked wherever one is used.
    Load,
    /// A GPU's driver pins no host memory: a word, or the ring of a copy. Rings stay, so this is asked at each copy by one.
    Pin,
    /// A GPU's driver refuses a stream.
    Stream,
    /// A GPU's driver refuses an event.
    Event,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Reservation,
        Self::Allocation,
        Self::Upload,
        Self::Download,
        Self::Copy,
        Self::Launch,
        Self::Load,
        Self::Pin,
        Self::Stream,
        Self::Event,
    ];
}

/// Which calls are to fail. Clones are the same faults.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Armed>>);

#[derive(Debug, Default)]
struct Armed {
    fault: Option<Fault>,
    /// Calls that succeed before.
    before: u64,
    /// Calls that are still to fail.
    left: u64,
    /// Calls that failed.
    struck: u64,
}

impl Faults {
    /// From now on, of the calls of this kind those fail that come after `before` others, `times` of them.
    pub fn arm(&self, fault: Fault, before: u64, times: u64) {
        *self.0.lock() = Armed {
            fault: Some(fault),
            before,
            left: times,
            struck: 0,
        };
    }

    /// No more calls fail. Returns how many did since [`arm`](Self::arm).
    pub fn disarm(&self) -> u64 {
        std::mem::take(&mut *self.0.lock()).struck
    }

    /// Whether a call is to fail.
    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        let mut armed = self.0.lock();
        if armed.fault != Some(fault) {
            return false;
        }
        if armed.before > 0 {
            armed.before -= 1;
            return false;
        }
        let strikes = armed.left > 0;
        if strikes {
            armed.left -= 1;
            armed.struck += 1;
        }
        strikes
    }

    /// # Errors
    /// When a call is to fail, with an error that no retry and no smaller work answers.
    pub(crate) fn check(&self, fault: Fault) -> Result<()> {
        match self.strikes(fault) {
            true => Err(BowtieError::Device(format!("{fault:?} failed on purpose"))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::budget::Budget;

    #[test]
    fn the_calls_after_some_others_fail() {
        let faults = Faults::default();
        let calls = |fault| (0..5).map(move |_| fault);
        faults.arm(Fault::Upload, 2, 2);
        let failed = |fault| calls(fault).map(|fault| faults.check(fault).is_err());
        assert!(!failed(Fault::Download).any(|failed| failed));
        let uploads: Vec<bool> = failed(Fault::Upload).collect();
        assert_eq!(uploads, [false, false, true, true, false]);
        assert_eq!((faults.disarm(), faults.disarm()), (2, 0));
        faults.arm(Fault::Launch, 0, 1);
        faults.disarm();
        assert!(!failed(Fault::Launch).any(|failed| failed));
    }

    #[test]
    fn budgets_below_have_the_same_faults_and_those_beside_have_not() {
        let root = Budget::new(100);
        let faults = Faults::default();
        let (own, other) = (root.child_with(80, faults.clone()), root.child());
        let below = own.child().of_store();
        faults.arm(Fault::Reservation, 1, 1);
        other.lease(10, "others").unwrap();
        own.lease(10, "before").unwrap();
        let refused = below.lease(10, "columns").unwrap_err();
        assert!(refused.is_transient(), "{refused}");
        assert_eq!((below.in_use(), own.in_use(), root.in_use()), (0, 0, 0));
        below.lease(10, "columns").unwrap();
        assert_eq!(faults.disarm(), 1);
    }
}
