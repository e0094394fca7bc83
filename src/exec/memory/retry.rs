//! A step that finds no room on the device while others are at work there is done again alone.
//!
//! Nodes of a plan, and queries, work at the same time, each with what the others leave. What a step takes beside the rows that it hands on
//! is free again when it ends, and a step may be one that takes rows off the device: so a refusal may be only of the moment.

use std::thread::sleep;
use std::time::{Duration, Instant};

use parking_lot::RwLockReadGuard;

use crate::device::data::structures::Flags;
use crate::device::primitives::device::Device;
use crate::error::Result;

/// How often it is asked whether anybody still waits for the query.
const LOOK: Duration = Duration::from_millis(50);
/// Others go on before the first time alone, and twice as long before each one that follows, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(128);
/// So often in a row without any change of what others hold: a quarter of a second of pauses.
const TIMES: u32 = 8;
/// Others that go on and on are not waited for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// For the time of a step, many of whose leases end with it. It must not wait for another step.
pub(crate) fn shared_step(device: &dyn Device) -> Result<RwLockReadGuard<'_, ()>> {
    loop {
        device.go_on()?;
        if let Some(work) = device.budget().at_work_within(LOOK) {
            return Ok(work);
        }
    }
}

/// Does `step`; if it found no room, but may find some, again alone, as long as `again` says that it left `run` as it was. It waits for
/// others, and so must not hold what they wait for.
pub(crate) fn retry_exclusive<R, T>(
    device: &dyn Device,
    run: &mut R,
    step: impl Fn(&mut R) -> Result<T>,
    again: impl Fn(&R) -> bool,
) -> Result<T> {
    let mut made = {
        let _work = shared_step(device)?;
        step(run)
    };
    let (budget, since) = (device.budget(), Instant::now());
    let (mut times, mut pause) = (0, FIRST_PAUSE);
    let mut in_use = budget.in_use_by_all();
    while times < TIMES && since.elapsed() < PATIENCE {
        match &made {
            Err(error) if error.is_transient() && again(run) => {}
            _ => break,
        }
        sleep(pause);
        pause = LAST_PAUSE.min(2 * pause);
        device.go_on()?;
        let Some(_alone) = budget.alone_within(LOOK) else {
            continue;
        };
        made = step(run);
        times += 1;
        let before = std::mem::replace(&mut in_use, budget.in_use_by_all());
        if in_use != before {
            times = 0;
        }
    }
    made
}

/// Flags of so many rows.
pub(crate) fn flags_retry_exclusive(device: &dyn Device, rows: usize) -> Result<Flags> {
    retry_exclusive(device, &mut (), |()| device.flags(rows), |()| true)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::device::budget::Budget;
    use crate::device::host::device::HostDevice;

    #[test]
    fn a_refusal_of_the_moment_is_none() {
        let device = HostDevice::new(Budget::new(100)).unwrap();
        let others = device.budget().child();
        let (tell_leased, leased) = mpsc::channel();
        let (tell_refused, refused) = mpsc::channel();
        let other = thread::spawn(move || {
            let _work = others.at_work_within(LOOK).unwrap();
            let _lease = others.lease(60, "the work of others").unwrap();
            tell_leased.send(()).unwrap();
            refused.recv().unwrap();
            sleep(LOOK);
        });
        leased.recv().unwrap();
        let lease = |tried: &mut u32| {
            *tried += 1;
            let lease = device.budget().lease(50, "a step");
            if lease.is_err() {
                tell_refused.send(()).unwrap();
            }
            lease
        };
        let mut tried = 0;
        let lease = retry_exclusive(&device, &mut tried, lease, |_| true).unwrap();
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
            let refused = retry_exclusive(&device, &mut tried, lease, |_| repeats);
            assert!(refused.unwrap_err().is_divisible());
            assert_eq!(tried, expected);
        }
    }
}
