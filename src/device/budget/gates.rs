//! [`Gates`]: the steps that run under each limit, and exclusive use of what one limit bounds.
//!
//! Every budget with a limit of its own has a gate: a root, a runtime's, a session's. A step counts in the gates of all budgets that its
//! reservations count in. A step that a limit refused is repeated with exclusive use of the gate of that limit, and counts in those above:
//!
//! ```text
//! root            shared       other runtimes go on
//!  └─ runtime     shared       other sessions of the runtime go on
//!      └─ session exclusive    no other step of the session runs
//! ```
//!
//! Invariants, by which no circle of waiting threads exists:
//!
//! - Gates are entered from the root to the leaf, and a thread enters all of its gates or none. A thread that waits is in no gate.
//! - Who is in a gate runs a step, and waits for no gate.
//! - A closed gate keeps out only those who count in it. Who wants a gate exclusively heeds it and the gates above, not those below: their
//!   steps count in it, too. So waits go towards the root.
//!
//! Who waits for exclusive use needs a moment without steps. The first in the queue waits for one, and then [bars](State::is_barred) the
//! gate for as long. Both periods double until the moment comes: others are kept out for at most half of the time, and it is there once
//! a period is longer than the longest step.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The first period in which a gate is not barred.
const FIRST_PERIOD: Duration = Duration::from_millis(5);

/// The steps under one limit.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    /// Notified when the gate opens, when its last step ends, and when its queue gets shorter.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Steps that have not ended.
    running: usize,
    /// The only running step has exclusive use.
    is_exclusive: bool,
    /// New steps wait for the first in the queue.
    is_barred: bool,
    /// The tickets of those who wait for exclusive use, in the order in which they came.
    queue: VecDeque<u64>,
    next_ticket: u64,
}

impl State {
    fn is_open(&self) -> bool {
        !self.is_exclusive && !self.is_barred
    }

    fn may_exclude(&self, ticket: u64) -> bool {
        self.running == 0 && self.queue.front() == Some(&ticket)
    }
}

impl Gate {
    /// Counts a step, if the gate is open.
    fn enter(&self) -> bool {
        let mut state = self.state.lock();
        let is_open = state.is_open();
        state.running += usize::from(is_open);
        is_open
    }

    /// Counts the step of the first in the queue, whose use is exclusive, if no other step runs.
    fn enter_exclusively(&self, ticket: u64) -> bool {
        let mut state = self.state.lock();
        let may = state.may_exclude(ticket);
        if may {
            state.queue.pop_front();
            state.is_exclusive = true;
            state.is_barred = false;
            state.running = 1;
        }
        may
    }

    fn leave(&self) {
        let mut state = self.state.lock();
        state.running -= 1;
        if state.running == 0 {
            state.is_exclusive = false;
            self.changed.notify_all();
        }
    }

    /// Waits until the gate is open. False if it is not by `deadline`.
    fn opens_by(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        let is_closed = |state: &mut State| !state.is_open();
        self.changed
            .wait_while_until(&mut state, is_closed, deadline);
        state.is_open()
    }
}

/// The gates of a budget, from the root's to that of its own limit.
#[derive(Debug, Clone)]
pub(super) struct Gates(Arc<[Arc<Gate>]>);

impl Gates {
    pub(super) fn of_root() -> Self {
        Self(Arc::new([Arc::default()]))
    }

    /// The gates of a child budget. `is_lower`: whether it has a limit of its own.
    pub(super) fn below(&self, is_lower: bool) -> Self {
        if !is_lower {
            return self.clone();
        }
        let above = self.0.iter().map(Arc::clone);
        Self(above.chain([Arc::default()]).collect())
    }

    /// A step that shares all gates. `None` if one stays closed for longer than `wait`.
    pub(super) fn share_within(&self, wait: Duration) -> Option<Running<'_>> {
        shared_by(&self.0, Instant::now() + wait)
    }

    /// A place in the queue for exclusive use of the last gate.
    pub(super) fn turn(&self) -> Turn<'_> {
        // There is always the root's gate.
        let (own, above) = (&self.0[self.0.len() - 1], &self.0[..self.0.len() - 1]);
        let mut state = own.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue.push_back(ticket);
        Turn {
            above,
            own,
            ticket,
            period: None,
        }
    }
}

/// Enters all `gates`, in their order. `None` if one is closed until `deadline`.
fn shared_by(gates: &[Arc<Gate>], deadline: Instant) -> Option<Running<'_>> {
    loop {
        let mut entered = Running {
            shared: &gates[..0],
            exclusive: None,
        };
        let mut closed = None;
        for (i, gate) in gates.iter().enumerate() {
            if !gate.enter() {
                closed = Some(gate);
                break;
            }
            entered.shared = &gates[..=i];
        }
        let Some(closed) = closed else {
            return Some(entered);
        };
        // Whoever waits is in no gate.
        drop(entered);
        if !closed.opens_by(deadline) {
            return None;
        }
    }
}

/// A step that counts in its gates until it is dropped.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    shared: &'a [Arc<Gate>],
    exclusive: Option<&'a Gate>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let shared = self.shared.iter().map(AsRef::as_ref);
        for gate in shared.chain(self.exclusive) {
            gate.leave();
        }
    }
}

/// Exclusive use of a gate that a thread waits for. It loses its place in the queue when dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    above: &'a [Arc<Gate>],
    own: &'a Gate,
    ticket: u64,
    /// Once it is the first in the queue.
    period: Option<Period>,
}

/// In which the gate is barred, or is not.
#[derive(Debug, Clone, Copy)]
struct Period {
    length: Duration,
    ends: Instant,
}

impl<'a> Turn<'a> {
    /// A step with exclusive use of the gate, which shares those above. `None` if others do not leave within `wait`.
    pub(crate) fn exclude_within(&mut self, wait: Duration) -> Option<Running<'a>> {
        let deadline = Instant::now() + wait;
        while self.may_exclude_by(deadline) {
            let mut entered = shared_by(self.above, deadline)?;
            // Others may have entered meanwhile.
            if self.own.enter_exclusively(self.ticket) {
                entered.exclusive = Some(self.own);
                return Some(entered);
            }
        }
        None
    }

    /// Waits for a moment without steps, and bars the gate in every second period. False if none comes by `deadline`.
    fn may_exclude_by(&mut self, deadline: Instant) -> bool {
        let mut state = self.own.state.lock();
        loop {
            if state.may_exclude(self.ticket) {
                return true;
            }
            let now = Instant::now();
            if now >= deadline {
                return false;
            }
            let mut until = deadline;
            if state.queue.front() == Some(&self.ticket) {
                let period = self.period.get_or_insert(Period {
                    length: FIRST_PERIOD,
                    ends: now + FIRST_PERIOD,
                });
                if now >= period.ends {
                    if state.is_barred {
                        period.length *= 2;
                        self.own.changed.notify_all();
                    }
                    state.is_barred = !state.is_barred;
                    period.ends = now + period.length;
                }
                until = until.min(period.ends);
            }
            self.own.changed.wait_until(&mut state, until);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.own.state.lock();
        let place = state.queue.iter().position(|other| *other == self.ticket);
        let Some(place) = place else {
            // It had its turn.
            return;
        };
        state.queue.remove(place);
        if place == 0 {
            state.is_barred = false;
            self.own.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn exclusive_use_is_of_one_limit() {
        let root = Gates::of_root();
        let [one, two] = [root.below(true), root.below(true)];
        let operator = one.below(false);
        let of_two = two.share_within(Duration::ZERO).unwrap();
        let excludes = operator.turn().exclude_within(Duration::ZERO).unwrap();
        assert!(one.share_within(Duration::ZERO).is_none());
        assert!(one.turn().exclude_within(Duration::ZERO).is_none());
        // Who may not enter leaves no trace above.
        assert_eq!(root.0[0].state.lock().running, 2);
        drop(two.share_within(Duration::ZERO).unwrap());
        assert!(root.turn().exclude_within(Duration::ZERO).is_none());
        drop((of_two, excludes));
        drop(one.share_within(Duration::ZERO).unwrap());
        let all = root.turn().exclude_within(Duration::ZERO).unwrap();
        for gates in [&one, &two] {
            assert!(gates.share_within(Duration::ZERO).is_none());
            assert!(gates.turn().exclude_within(Duration::ZERO).is_none());
        }
        drop(all);
        assert_eq!(root.0[0].state.lock().running, 0);
        assert!(root.0[0].state.lock().queue.is_empty());
    }

    #[test]
    fn who_waits_keeps_out_nobody_of_another_limit_and_others_not_for_long() {
        let root = Gates::of_root();
        let [one, two] = [root.below(true), root.below(true)];
        let long_step = one.share_within(Duration::ZERO).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| one.turn().exclude_within(LONG).is_some());
            while one.0[1].state.lock().queue.is_empty() {
                thread::yield_now();
            }
            let mut periods = 0;
            while periods < 3 {
                drop(two.share_within(Duration::ZERO).unwrap());
                if one.share_within(Duration::ZERO).is_none() {
                    drop(two.share_within(Duration::ZERO).unwrap());
                    drop(one.share_within(LONG).unwrap());
                    periods += 1;
                }
            }
            drop(long_step);
            assert!(waits.join().unwrap());
        });
        drop(one.share_within(Duration::ZERO).unwrap());
    }

    #[test]
    fn overlapping_steps_do_not_keep_exclusive_use_away() {
        let root = Gates::of_root();
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut step = root.share_within(LONG);
                while !ends.load(Ordering::Relaxed) {
                    // The next one begins before this one ends, unless the gate is barred.
                    let next = root.share_within(Duration::ZERO);
                    drop(step);
                    step = next.or_else(|| root.share_within(LONG));
                }
            });
            while root.0[0].state.lock().running == 0 {
                thread::yield_now();
            }
            let excludes = root.turn().exclude_within(LONG);
            assert!(excludes.is_some());
            assert_eq!(root.0[0].state.lock().running, 1);
            ends.store(true, Ordering::Relaxed);
            drop(excludes);
        });
    }

    #[test]
    fn who_waits_has_its_turn_in_order_and_may_leave() {
        let root = Gates::of_root();
        let step = root.share_within(Duration::ZERO).unwrap();
        let (mut first, mut second) = (root.turn(), root.turn());
        // Until the first has barred the gate.
        while root.share_within(Duration::ZERO).is_some() {
            assert!(first.exclude_within(Duration::from_millis(1)).is_none());
        }
        drop(step);
        assert!(second.exclude_within(Duration::ZERO).is_none());
        drop(first);
        drop(root.share_within(Duration::ZERO).unwrap());
        let excludes = second.exclude_within(Duration::ZERO);
        assert!(excludes.is_some() && root.share_within(Duration::ZERO).is_none());
    }
}
