//! Measures a card once: enters a stream of its own, leaves [`CardRates`]. A fast card takes some 20 ms, beside those that its staging
//! memory takes, which queries need too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::cuda::columns::rows;
use crate::device::cuda::rates::memory_rates;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::machine_rates::CardRates;
use crate::error::{IfItFits as _, Result};

/// Values that are gathered first, and the most time for it: ten times what a slow card needs. Beyond that the card has other work.
const FIRST_VALUES: usize = 1 << 16;
const FIRST_MOST: Duration = Duration::from_micros(500);

const LAUNCHES: usize = 16;

/// Bytes of a copy between host and card.
const COPIED: usize = 32 << 20;
/// Copies in each direction, and the time after which no other one begins.
const COPIES: usize = 5;
const MOST: Duration = Duration::from_millis(15);

const WHAT: &str = "memory to measure";

/// Picoseconds in a second.
const PS: f64 = 1e12;

/// The card's rates; `None` where there is no memory for that, or where it takes implausibly long.
pub(crate) fn card_rates(stream: &Arc<Stream>) -> Result<Option<CardRates>> {
    let begun = Instant::now();
    let rates = measured_card(stream).if_it_fits()?.flatten();
    log::debug!("the GPU: {rates:?}, in {:?}", begun.elapsed());
    Ok(rates)
}

fn measured_card(stream: &Arc<Stream>) -> Result<Option<CardRates>> {
    stream.bind()?;
    let Some(launch) = launch_seconds(stream)? else {
        return Ok(None);
    };
    let memory = memory_rates::memory_rates(stream)?;
    let source = stream.zeroed(COPIED, WHAT)?;
    let mut host = Box::new_uninit_slice(COPIED);
    let downloaded = least(|| stream.read(&mut host, &source, None))?;
    // SAFETY: at least one download wrote all of it.
    let host = unsafe { host.assume_init() };
    let uploaded = least(|| {
        let sent = stream.send_async(&[&host], WHAT)?;
        sent.receive()?;
        stream.wait()
    })?;
    Ok(Some(CardRates {
        uploaded_byte: uploaded * PS / COPIED as f64,
        downloaded_byte: downloaded * PS / COPIED as f64,
        launch: launch * PS,
        memory,
    }))
}

/// Seconds of a launch and the wait for it; `None` if a short kernel takes implausibly long.
fn launch_seconds(stream: &Arc<Stream>) -> Result<Option<f64>> {
    let values = stream.zeroed(FIRST_VALUES * 4, WHAT)?;
    let rows = stream.zeroed(FIRST_VALUES * 4, WHAT)?;
    let out = stream.alloc(FIRST_VALUES * 4, WHAT)?;
    let gathered = |count| {
        let begun = Instant::now();
        rows::gather_into(stream, (&values).into(), &rows, (&out).into(), count, 4)?;
        stream.wait()?;
        Ok(begun.elapsed())
    };
    // The first launch loads the kernel.
    gathered(1)?;
    if gathered(FIRST_VALUES)? > FIRST_MOST {
        return Ok(None);
    }
    let times = (0..LAUNCHES).map(|_| gathered(1));
    let least = times.collect::<Result<Vec<_>>>()?.into_iter().min();
    Ok(least.map(|least| least.as_secs_f64()))
}

/// The least seconds of several runs. The first one touches new memory.
fn least(mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let (mut least, begun) = (f64::INFINITY, Instant::now());
    for i in 0..COPIES {
        if i > 1 && begun.elapsed() > MOST {
            break;
        }
        let started = Instant::now();
        run()?;
        least = least.min(started.elapsed().as_secs_f64());
    }
    Ok(least)
}
