//! Steps whose reservations are refused, for a while or for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::device::counters::Tally;
use crate::device::host::device::HostDevice;
use crate::device::trace::Scope;

/// The node that the step works for counts the retries, and the time in which it waited for memory.
#[test]
fn a_transient_refusal_is_retried() {
    let device = HostDevice::new(Budget::new(100)).unwrap();
    let tally = Arc::new(Tally::default());
    let scope = Scope::new(&device, "", Arc::<Tally>::clone(&tally), None);
    let _entered = trace::enter(Some(scope));
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
    let counted = [Counted::Retries, Counted::MemoryWaitTime];
    let is_counted = || counted.map(|what| tally.is_counted(what));
    assert_eq!(is_counted(), [false, false]);
    let mut tried = 0;
    let lease = retried(&device, &mut tried, lease, |_| true).unwrap();
    assert_eq!((lease.bytes(), tried), (50, 3));
    assert_eq!(is_counted(), [true, true]);
    other.join().unwrap();
}

/// Little patience.
const SHORT: Waits = Waits {
    for_others: true,
    patience: Duration::from_millis(100),
};

/// Others work for longer than a step is patient, and free their memory then.
#[test]
fn the_work_of_others_takes_no_patience() {
    let root = Budget::new(100);
    let device = HostDevice::new(root.child()).unwrap();
    let others = root.child();
    let (tell_leased, leased) = mpsc::channel();
    let other = thread::spawn(move || {
        // One long step, and then many short ones.
        let work = others.share_within(LOOK).unwrap();
        let lease = others.lease(60, "the work of others").unwrap();
        tell_leased.send(()).unwrap();
        thread::sleep(3 * SHORT.patience);
        drop(work);
        let begun = Instant::now();
        while begun.elapsed() < 3 * SHORT.patience {
            let work = others.share_within(QUIET).unwrap();
            thread::sleep(SHORT.patience / 20);
            others.count_step();
            drop(work);
        }
        drop(lease);
    });
    leased.recv().unwrap();
    let lease = |tried: &mut u32, _: &Step<'_>| {
        *tried += 1;
        device.budget().lease(50, "a step")
    };
    let mut tried = 0;
    let lease = attempts(&device, &mut tried, lease, |_| true, SHORT).unwrap();
    assert!(lease.bytes() == 50 && tried > 2, "{tried}");
    other.join().unwrap();
}

/// Memory that another query holds between its steps is waited for, with patience.
#[test]
fn what_others_hold_is_waited_for() {
    let root = Budget::new(100);
    let device = HostDevice::new(root.child()).unwrap();
    let held = root.child().lease(60, "rows of others").unwrap();
    let lease = |tried: &mut u32, _: &Step<'_>| {
        *tried += 1;
        device.budget().lease(50, "a step")
    };
    // Nothing changes.
    let mut tried = 0;
    let refused = attempts(&device, &mut tried, lease, |_| true, SHORT);
    assert!(refused.is_err());
    assert_eq!(tried, 3);
    // It is given back long after a step that is alone would have given up.
    let other = thread::spawn(move || {
        thread::sleep(QUIET + 5 * LOOK);
        drop(held);
    });
    let begun = Instant::now();
    let mut tried = 0;
    let leased = retried(&device, &mut tried, lease, |_| true).unwrap();
    assert_eq!((leased.bytes(), tried), (50, 3));
    assert!(begun.elapsed() > QUIET);
    other.join().unwrap();
}

/// Steps that a small limit refuses do not keep those of another limit waiting, however many they are.
#[test]
fn one_limit_does_not_stop_another() {
    const STEPS: usize = 8;
    let begun = AtomicUsize::new(0);
    let root = Budget::new(1000);
    let small = root.child_of(100);
    let bystander = HostDevice::new(root.child_of(500)).unwrap();
    let held = small.lease(50, "rows between steps").unwrap();
    thread::scope(|scope| {
        let retry = || {
            let device = HostDevice::new(small.child()).unwrap();
            let lease = |tried: &mut u32, _: &Step<'_>| -> Result<()> {
                *tried += 1;
                let lease = device.budget().lease(60, "a step");
                if *tried == 1 {
                    begun.fetch_add(1, Ordering::Relaxed);
                }
                let _lease = lease?;
                thread::sleep(LOOK / 10);
                Ok(())
            };
            let mut tried = 0;
            retried(&device, &mut tried, lease, |_| true).map(|()| tried)
        };
        let steps: Vec<_> = (0..STEPS).map(|_| scope.spawn(retry)).collect();
        let step_of_bystander = || {
            let step = bystander.budget().share_within(Duration::ZERO);
            assert!(step.is_some(), "a bystander waits");
            drop(step);
            shared(&bystander, OnRefusal::Shrink, |_| Ok(())).unwrap();
        };
        // While they fail, and then while they succeed one after the other.
        while begun.load(Ordering::Relaxed) < STEPS || !small.is_waited_for() {
            step_of_bystander();
        }
        drop(held);
        while steps.iter().any(|step| !step.is_finished()) {
            step_of_bystander();
        }
        for step in steps {
            assert!(step.join().unwrap().unwrap() > 1);
        }
    });
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
