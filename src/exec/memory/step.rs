//! [`Step`]: a bounded amount of work on a device, and how it answers an allocation failure.
//!
//! Nodes of a plan, and queries, use a device at the same time. Most reservations of a step end with it, so a refused
//! reservation may be transient. It is answered in this order:
//!
//! | answer | by | when |
//! |---|---|---|
//! | defer | [`Step::may_shrink`] is false | the step runs while the consumer reads its operator's last output, which frees memory |
//! | evict, shrink | `evict.rs`, `shrink.rs`, in the step | always otherwise; what is only faster, such as a key bitmap, is done without ([`IfItFits`](crate::error::IfItFits)) |
//! | retry | [`retried`] | nothing is left to evict or to shrink: with exclusive use of the device, and after others gave memory back, those that await their inputs [on request](super::on_request) |
//!
//! A thread is in one step at a time: a step that waited for another one on the same thread would wait forever.

use std::cell::Cell;
use std::time::{Duration, Instant};

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};

use crate::device::budget::Budget;
use crate::device::counters::Counted;
use crate::device::data::structures::Flags;
use crate::device::primitives::device::Device;
use crate::device::trace::{self, Lane};
use crate::error::{BowtieError, Result};

/// How often a waiting thread checks whether its query was cancelled.
const LOOK: Duration = Duration::from_millis(50);
/// The last attempt is made after this time without a release.
const QUIET: Duration = Duration::from_millis(500);
/// Attempts after releases end after this time.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    static IN_STEP: Cell<bool> = const { Cell::new(false) };
}

/// How a step answers a transient refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnRefusal {
    /// By eviction and smaller work.
    Shrink,
    /// By the refusal as its error. The work is repeated later.
    Defer,
}

/// The device's work lock, held while the step runs.
enum Use<'a> {
    Shared(
        #[expect(dead_code, reason = "a guard")] RwLockReadGuard<'a, ()>,
        &'a Budget,
    ),
    Exclusive(#[expect(dead_code, reason = "a guard")] RwLockWriteGuard<'a, ()>),
}

/// A running step. It holds the work lock until it is dropped.
pub(crate) struct Step<'a> {
    on_refusal: OnRefusal,
    device_use: Use<'a>,
}

impl<'a> Step<'a> {
    fn new(on_refusal: OnRefusal, device_use: Use<'a>) -> Result<Self> {
        if IN_STEP.replace(true) {
            return Err(BowtieError::Internal("a step began within a step".into()));
        }
        Ok(Self {
            on_refusal,
            device_use,
        })
    }

    /// A step that shares the device with others.
    fn shared(device: &'a dyn Device, on_refusal: OnRefusal) -> Result<Self> {
        // Otherwise a step within a step could wait forever for a thread that waits for exclusive use.
        if IN_STEP.get() {
            return Err(BowtieError::Internal("a step began within a step".into()));
        }
        if let Some(guard) = device.budget().share_within(Duration::ZERO) {
            device.check_cancelled()?;
            return Self::new(on_refusal, Use::Shared(guard, device.budget()));
        }
        waiting_for_memory(|| {
            loop {
                device.check_cancelled()?;
                if let Some(guard) = device.budget().share_within(LOOK) {
                    return Self::new(on_refusal, Use::Shared(guard, device.budget()));
                }
            }
        })
    }

    /// A step with exclusive use of the device; `None` if other steps do not end before `deadline`.
    fn exclusive(device: &'a dyn Device, deadline: Instant) -> Result<Option<Self>> {
        while Instant::now() < deadline {
            device.check_cancelled()?;
            if let Some(guard) = device.budget().exclude_within(LOOK) {
                return Self::new(OnRefusal::Shrink, Use::Exclusive(guard)).map(Some);
            }
        }
        Ok(None)
    }

    /// Whether the step answers `error` by eviction, or by work on fewer rows.
    pub(crate) fn may_shrink(&self, error: &BowtieError) -> bool {
        error.is_divisible() && !(self.on_refusal == OnRefusal::Defer && error.is_transient())
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if let Use::Shared(_, budget) = self.device_use
            && self.on_refusal == OnRefusal::Shrink
        {
            budget.step_ended();
        }
        IN_STEP.set(false);
    }
}

/// Runs `work` as a step that shares the device with others.
pub(crate) fn shared<T>(
    device: &dyn Device,
    on_refusal: OnRefusal,
    work: impl FnOnce(&Step<'_>) -> Result<T>,
) -> Result<T> {
    let step = Step::shared(device, on_refusal)?;
    work(&step)
}

/// Runs `work` as a step that shares the device with others. After a transient refusal it is retried with exclusive use
/// of the device, if `again` says that the failed attempt left `run` unchanged. While it waits, others evict what they
/// hold between their steps.
pub(crate) fn retried<R, T>(
    device: &dyn Device,
    run: &mut R,
    work: impl Fn(&mut R, &Step<'_>) -> Result<T>,
    again: impl Fn(&R) -> bool,
) -> Result<T> {
    attempts(device, run, work, again, true)
}

/// As [`retried`], for work that can be done without: nobody evicts for it.
pub(crate) fn retried_if_it_fits<R, T>(
    device: &dyn Device,
    run: &mut R,
    work: impl Fn(&mut R, &Step<'_>) -> Result<T>,
    again: impl Fn(&R) -> bool,
) -> Result<T> {
    attempts(device, run, work, again, false)
}

fn attempts<R, T>(
    device: &dyn Device,
    run: &mut R,
    work: impl Fn(&mut R, &Step<'_>) -> Result<T>,
    again: impl Fn(&R) -> bool,
    needs: bool,
) -> Result<T> {
    let mut done = shared(device, OnRefusal::Shrink, |step| work(run, step));
    let (budget, deadline) = (device.budget(), Instant::now() + PATIENCE);
    // Bytes in use, and steps of others, after the last attempt with exclusive use.
    let mut known: Option<(u64, u64)> = None;
    let mut is_last = false;
    loop {
        let limit = match &done {
            Err(BowtieError::OutOfDeviceMemory { limit, .. }) => *limit,
            _ => return done,
        };
        if !done.as_ref().is_err_and(BowtieError::is_transient) || !again(run) {
            return done;
        }
        let exclusive = waiting_for_memory(|| Step::exclusive(device, deadline))?;
        let Some(step) = exclusive else {
            return done;
        };
        trace::count(Counted::Retries, 1);
        done = work(run, &step);
        // Others at work may free memory yet. What can be done without does not wait for them.
        let steps = if needs { budget.steps_of_all(limit) } else { 0 };
        let now = (budget.in_use_by_all(), steps);
        drop(step);
        let unchanged = known.is_some_and(|known| now.0 >= known.0 && now.1 == known.1);
        if done.is_ok() || (is_last && unchanged) {
            return done;
        }
        known = Some(now);
        is_last = !released(device, now.0, needs.then_some(limit))?;
    }
}

/// Waits until less than `in_use` bytes are in use by all. False if nothing was released for long. `needed`: the limit
/// of the budget that refused, for which others evict what they hold.
fn released(device: &dyn Device, in_use: u64, needed: Option<u64>) -> Result<bool> {
    let (budget, quiet) = (device.budget(), Instant::now() + QUIET);
    let mut need = None;
    waiting_for_memory(|| {
        while !budget.wait_for_release(in_use, LOOK) {
            device.check_cancelled()?;
            if Instant::now() >= quiet {
                return Ok(false);
            }
            need = need.take().or_else(|| Some(budget.need(needed?)));
        }
        Ok(true)
    })
}

/// Runs `wait`, whose time counts as waiting for memory that others hold.
fn waiting_for_memory<T>(wait: impl FnOnce() -> Result<T>) -> Result<T> {
    let what = Counted::MemoryWaitTime;
    trace::timed(what, Lane::Wait, "wait for device memory", wait)
}

/// Flags of `rows` rows, none of them set.
pub(crate) fn flags(device: &dyn Device, rows: usize) -> Result<Flags> {
    retried(device, &mut (), |(), _| device.flags(rows), |()| true)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::device::host::device::HostDevice;

    #[test]
    fn a_transient_refusal_is_retried() {
        let device = HostDevice::new(Budget::new(100)).unwrap();
        let others = device.budget().child();
        let (tell_leased, leased) = mpsc::channel();
        let (tell_refused, refused) = mpsc::channel();
        // The reservation of another step, which runs for a while, and then of another query between its steps.
        let other = thread::spawn(move || {
            let work = others.share_within(LOOK).unwrap();
            let lease = others.lease(60, "the work of others").unwrap();
            tell_leased.send(()).unwrap();
            refused.recv().unwrap();
            thread::sleep(LOOK);
            drop(work);
            refused.recv().unwrap();
            thread::sleep(LOOK);
            drop(lease);
        });
        leased.recv().unwrap();
        let lease = |tried: &mut u32, _: &Step<'_>| {
            *tried += 1;
            let lease = device.budget().lease(50, "a step");
            if lease.is_err() {
                tell_refused.send(()).unwrap();
            }
            lease
        };
        let mut tried = 0;
        let lease = retried(&device, &mut tried, lease, |_| true).unwrap();
        assert_eq!((lease.bytes(), tried), (50, 3));
        other.join().unwrap();
    }

    #[test]
    fn what_is_changed_or_never_fits_is_refused() {
        let device = HostDevice::new(Budget::new(100)).unwrap();
        let _held = device.budget().lease(1, "rows between steps").unwrap();
        for (repeats, bytes, expected) in [(false, 100, 1), (true, 100, 3), (true, 101, 1)] {
            let lease = |tried: &mut u32, _: &Step<'_>| {
                *tried += 1;
                device.budget().lease(bytes, "a step")
            };
            let mut tried = 0;
            let refused = retried(&device, &mut tried, lease, |_| repeats);
            assert!(refused.unwrap_err().is_divisible());
            assert_eq!(tried, expected);
        }
    }

    #[test]
    fn only_a_transient_refusal_is_deferred() {
        let device = HostDevice::new(Budget::new(100)).unwrap();
        let _held = device.budget().lease(1, "rows between steps").unwrap();
        let transient = device.budget().lease(100, "a step").unwrap_err();
        let too_large = device.budget().lease(101, "a step").unwrap_err();
        for (on_refusal, shrinks) in [(OnRefusal::Shrink, true), (OnRefusal::Defer, false)] {
            let check = |step: &Step<'_>| {
                assert_eq!(step.may_shrink(&transient), shrinks);
                assert!(step.may_shrink(&too_large));
                assert!(!step.may_shrink(&BowtieError::Cancelled));
                Ok(())
            };
            shared(&device, on_refusal, check).unwrap();
        }
    }

    #[test]
    fn no_step_begins_within_a_step() {
        let device = HostDevice::new(Budget::new(100)).unwrap();
        let within = || shared(&device, OnRefusal::Shrink, |_| Ok(()));
        let nested = shared(&device, OnRefusal::Shrink, |_| within());
        assert!(matches!(nested, Err(BowtieError::Internal(_))));
        within().unwrap();
    }
}
