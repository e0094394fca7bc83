//! A step that finds no room on the device while others are at work there is done again alone.
//!
//! Nodes of a plan, and queries, work at the same time, each with what the others leave. What a step takes beside the rows that it hands on
//! is free again when it ends, and a step may be one that takes rows off the device: so a refusal may be only of the moment.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::device::{Device, Flags};
use crate::error::Result;

/// How often it is asked whether anybody still waits for the query.
const LOOK: Duration = Duration::from_millis(50);
/// Others go on before the first time alone, and twice as long before each one that follows: a quarter of a second in all.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const TIMES: u32 = 8;
/// For so long all times together wait until others end their steps; then one more is done while they are at work.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does `step`; if it found no room, but may find some, again alone, as long as `again` says that it left `run` as it was. It waits for
/// others, and so must not hold what they wait for.
pub(super) fn or_alone<R, T>(
    device: &dyn Device,
    run: &mut R,
    step: impl Fn(&mut R) -> Result<T>,
    again: impl Fn(&R) -> bool,
) -> Result<T> {
    let budget = device.budget();
    let beside = |run: &mut R| {
        let _work = budget.at_work();
        step(run)
    };
    let mut made = beside(run);
    let mut waited = Duration::ZERO;
    for time in 0..TIMES {
        match &made {
            Err(error) if error.may_be_of_the_moment() && again(run) => {}
            _ => break,
        }
        sleep(FIRST_PAUSE * 2u32.pow(time));
        let since = Instant::now();
        let alone = loop {
            device.go_on()?;
            match budget.alone_within(LOOK) {
                None if waited + since.elapsed() < PATIENCE => sleep(FIRST_PAUSE),
                alone => break alone,
            }
        };
        waited += since.elapsed();
        let Some(_alone) = alone else {
            return beside(run);
        };
        made = step(run);
    }
    made
}

/// Flags of so many rows.
pub(super) fn flags_or_alone(device: &dyn Device, rows: usize) -> Result<Flags> {
    or_alone(device, &mut (), |()| device.flags(rows), |()| true)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::device::budget::Budget;
    use crate::device::host::HostDevice;

    #[test]
    fn a_refusal_of_the_moment_is_none() {
        let device = HostDevice::new(Budget::new(100)).unwrap();
        let (leased, others) = (mpsc::channel(), device.budget().child());
        let other = thread::spawn(move || {
            let _work = others.at_work();
            let _lease = others.lease(60, "the work of others").unwrap();
            leased.0.send(()).unwrap();
            thread::sleep(3 * LOOK);
        });
        leased.1.recv().unwrap();
        let lease = |tried: &mut u32| {
            *tried += 1;
            device.budget().lease(50, "a step")
        };
        let mut tried = 0;
        let lease = or_alone(&device, &mut tried, lease, |_| true).unwrap();
        assert_eq!((lease.bytes(), tried), (50, 2));
        other.join().unwrap();
    }

    #[test]
    fn what_is_changed_or_never_fits_is_refused() {
        let device = HostDevice::new(Budget::new(100)).unwrap();
        let _held = device.budget().lease(1, "rows between steps").unwrap();
        for (repeats, bytes, expected) in [(false, 100, 1), (true, 100, 1 + TIMES), (true, 101, 1)]
        {
            let lease = |tried: &mut u32| {
                *tried += 1;
                device.budget().lease(bytes, "a step")
            };
            let mut tried = 0;
            let refused = or_alone(&device, &mut tried, lease, |_| repeats);
            assert!(refused.unwrap_err().is_out_of_device_memory());
            assert_eq!(tried, expected);
        }
    }
}
