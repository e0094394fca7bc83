//! [`Step`]: a bounded amount of work on a device, and how it answers an allocation failure.
//!
//! Nodes of a plan, and queries, use a device at the same time. Most reservations of a step end with it, so a refused
//! reservation may be transient. It is answered in this order:
//!
//! | answer | by | when |
//! |---|---|---|
//! | defer | [`Step::may_shrink`] is false | the step runs while the consumer reads its operator's last output, which frees memory |
//! | evict, shrink | `exec/join/tiles/evict.rs`, `shrink.rs`, in the step | always otherwise; what is only faster, such as a key bitmap, is done without ([`IfItFits`](crate::error::IfItFits)) |
//! | retry | [`retried`] | nothing is left to evict or to shrink: with exclusive use of what the limit that refused bounds, and after others gave memory back, those that await their inputs [on request](super::on_request) |
//!
//! A thread is in one step at a time: a step that waited for another one on the same thread would wait forever.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::device::budget::Budget;
use crate::device::budget::gates::Running;
use crate::device::counters::Counted;
use crate::device::data::structures::Flags;
use crate::device::primitives::device::Device;
use crate::device::trace::{self, Lane};
use crate::error::{BowtieError, LimitOf, Result};

/// How often a waiting thread checks whether its query was cancelled.
const LOOK: Duration = Duration::from_millis(50);
/// A step that nobody else can free memory for gives up after this time without a release.
const QUIET: Duration = Duration::from_millis(500);
/// The same of a step that others could free memory for: neither did they, nor did a step of theirs end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A refused step gives up after this time, whatever others do: on a busy device somebody always makes progress.
const LONGEST: Duration = Duration::from_secs(60);

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

/// A running step. It is in the gates of its budgets until it is dropped.
pub(crate) struct Step<'a> {
    on_refusal: OnRefusal,
    #[expect(dead_code, reason = "a guard")]
    running: Running<'a>,
}

impl<'a> Step<'a> {
    fn new(on_refusal: OnRefusal, running: Running<'a>) -> Result<Self> {
        if IN_STEP.replace(true) {
            return Err(BowtieError::Internal("a step began within a step".into()));
        }
        Ok(Self {
            on_refusal,
            running,
        })
    }

    /// A step that shares the device with others.
    fn shared(device: &'a dyn Device, on_refusal: OnRefusal) -> Result<Self> {
        // Otherwise a step within a step could wait forever for a thread that waits for exclusive use.
        if IN_STEP.get() {
            return Err(BowtieError::Internal("a step began within a step".into()));
        }
        let budget = device.budget().as_ref();
        if let Some(running) = budget.share_within(Duration::ZERO) {
            device.check_cancelled()?;
            return Self::new(on_refusal, running);
        }
        waiting_for_memory(|| {
            loop {
                device.check_cancelled()?;
                if let Some(running) = budget.share_within(LOOK) {
                    return Self::new(on_refusal, running);
                }
            }
        })
    }

    /// A step with exclusive use of what the limit of `refuser` bounds; `None` if other steps do not end for `patience`. Without one it
    /// waits for as long as they run: they may free memory yet.
    fn exclusive(
        device: &'a dyn Device,
        refuser: &'a Budget,
        patience: Option<Duration>,
    ) -> Result<Option<Self>> {
        let (mut turn, begun) = (refuser.turn(), Instant::now());
        loop {
            device.check_cancelled()?;
            if let Some(running) = turn.exclude_within(LOOK) {
                return Self::new(OnRefusal::Shrink, running).map(Some);
            }
            if patience.is_some_and(|patience| begun.elapsed() >= patience) {
                return Ok(None);
            }
        }
    }

    /// Whether the step answers `error` by eviction, or by work on fewer rows.
    pub(crate) fn may_shrink(&self, error: &BowtieError) -> bool {
        error.is_divisible() && !(self.on_refusal == OnRefusal::Defer && error.is_transient())
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
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
    let done = work(&step);
    if done.is_ok() && on_refusal == OnRefusal::Shrink {
        device.budget().count_step();
    }
    done
}

/// Runs `work` as a step that shares the device with others. After a transient refusal it is retried with exclusive use
/// of what the limit that refused bounds, if `again` says that the failed attempt left `run` unchanged. While it waits, others evict what
/// they hold between their steps. It fails once nothing changes: for [`PATIENCE`] where others hold memory, else for [`QUIET`].
pub(crate) fn retried<R, T>(
    device: &dyn Device,
    run: &mut R,
    work: impl Fn(&mut R, &Step<'_>) -> Result<T>,
    again: impl Fn(&R) -> bool,
) -> Result<T> {
    attempts(device, run, work, again, Waits::FOR_OTHERS)
}

/// As [`retried`], for work that can be done without: nobody evicts for it.
pub(crate) fn retried_if_it_fits<R, T>(
    device: &dyn Device,
    run: &mut R,
    work: impl Fn(&mut R, &Step<'_>) -> Result<T>,
    again: impl Fn(&R) -> bool,
) -> Result<T> {
    attempts(device, run, work, again, Waits::IF_IT_FITS)
}

/// For what a refused step waits.
#[derive(Debug, Clone, Copy)]
struct Waits {
    /// For the work of others, which may free memory, and who evict for the step.
    for_others: bool,
    /// How long it waits while others hold memory and nothing changes.
    patience: Duration,
}

impl Waits {
    const FOR_OTHERS: Self = Self {
        for_others: true,
        patience: PATIENCE,
    };
    const IF_IT_FITS: Self = Self {
        for_others: false,
        patience: QUIET,
    };
}

/// What changes in the budget that refused a step when others make progress.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Bytes in use by all.
    in_use: u64,
    /// Steps that made progress; 0 if the step does not wait for others.
    steps: u64,
}

impl Seen {
    fn of(refuser: &Budget, waits: Waits) -> Self {
        Self {
            in_use: refuser.in_use_by_all(),
            steps: if waits.for_others { refuser.steps() } else { 0 },
        }
    }

    fn is_progress_since(self, before: Self) -> bool {
        self.in_use < before.in_use || self.steps != before.steps
    }
}

/// A refusal that memory which others give back may end.
struct Refusal<'a> {
    refuser: &'a Budget,
    /// Whether what is reserved is the reason.
    is_by_reservations: bool,
    /// Whether the driver refused: other processes hold the memory, so that the work of others here frees none.
    is_by_driver: bool,
}

impl<'a> Refusal<'a> {
    /// That of a step whose reservations count in `budget`.
    fn of<T>(done: &Result<T>, budget: &'a Budget) -> Option<Self> {
        let error = done.as_ref().err().filter(|error| error.is_transient())?;
        match *error {
            BowtieError::OutOfDeviceMemory {
                requested,
                in_use,
                limit,
                limit_of,
                ..
            } => Some(Self {
                refuser: budget.refuser(limit, limit_of),
                is_by_reservations: in_use.saturating_add(requested) > limit,
                is_by_driver: limit_of == LimitOf::Driver,
            }),
            _ => None,
        }
    }

    /// For what a step waits whose own reservations are those of `budget`.
    fn waits(&self, budget: &Budget, waits: Waits) -> Waits {
        let others_hold = self.refuser.in_use_by_all() > budget.in_use();
        let patience = if self.is_by_reservations && others_hold {
            waits.patience
        } else {
            waits.patience.min(QUIET)
        };
        Waits {
            patience,
            for_others: waits.for_others && !self.is_by_driver,
        }
    }
}

fn attempts<R, T>(
    device: &dyn Device,
    run: &mut R,
    work: impl Fn(&mut R, &Step<'_>) -> Result<T>,
    again: impl Fn(&R) -> bool,
    waits: Waits,
) -> Result<T> {
    let mut done = shared(device, OnRefusal::Shrink, |step| work(run, step));
    let budget = device.budget();
    let begun = Instant::now();
    // After the last attempt with exclusive use.
    let mut known: Option<Seen> = None;
    let mut is_last = false;
    while let Some(Refusal { refuser, .. }) = Refusal::of(&done, budget)
        && again(run)
        && begun.elapsed() < LONGEST
    {
        let patience = (!waits.for_others).then_some(PATIENCE);
        let exclusive = waiting_for_memory(|| Step::exclusive(device, refuser, patience))?;
        let Some(step) = exclusive else {
            break;
        };
        trace::count(Counted::Retries, 1);
        done = work(run, &step);
        let Some(refusal) = Refusal::of(&done, budget) else {
            if done.is_ok() {
                budget.count_step();
            }
            break;
        };
        // Others at work may free memory yet. What can be done without does not wait for them.
        let waits = refusal.waits(budget, waits);
        let now = Seen::of(refusal.refuser, waits);
        drop(step);
        if is_last && known.is_some_and(|known| !now.is_progress_since(known)) {
            break;
        }
        known = Some(now);
        is_last = !progresses(device, refusal.refuser, now, waits)?;
    }
    done
}

/// Waits until memory that counts in `refuser` is given back, or, for a while, until steps of others ended. False if neither happens while
/// the step waits.
fn progresses(device: &dyn Device, refuser: &Budget, before: Seen, waits: Waits) -> Result<bool> {
    let begun = Instant::now();
    let mut need = None;
    waiting_for_memory(|| {
        while !refuser.wait_for_release(before.in_use, LOOK) {
            device.check_cancelled()?;
            let waited = begun.elapsed();
            if waited >= QUIET && Seen::of(refuser, waits).is_progress_since(before) {
                return Ok(true);
            }
            if waited >= waits.patience {
                return Ok(false);
            }
            need = need
                .take()
                .or_else(|| waits.for_others.then(|| refuser.need()));
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
mod tests;
