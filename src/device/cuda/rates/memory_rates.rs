//! Measures a card's memory once: the rates of sequential copies and of random gathers, which the cost model of \[W\] 4.1
//! compares, and by which that of plans scales the times of kernels.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::cuda::columns::rows;
use crate::device::cuda::runtime::event::Event;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::machine_rates::{MemoryRates, bounded};
use crate::error::{IfItFits as _, Result};

/// Powers of two: the values of the source, more than any cache holds, and the values that are gathered.
const LOG_VALUES: u32 = 25;
const LOG_GATHERED: u32 = 22;
const TIMES: usize = 4;
/// Copies that are timed together: a single one takes hardly longer than its launch.
const COPIES: usize = 8;

/// No round begins later, from the second one on.
const MOST: Duration = Duration::from_millis(8);

/// Picoseconds in a millisecond.
const PS: f64 = 1e9;

/// The rates, which the first call measures in a few milliseconds; the reference's where the budget has no memory for that.
pub(crate) fn memory_rates(stream: &Arc<Stream>) -> Result<MemoryRates> {
    if let Some(known) = stream.gpu.memory_rates.get() {
        return Ok(*known);
    }
    let measured = measured_memory(stream).if_it_fits()?;
    let rates = measured.map(|measured| *stream.gpu.memory_rates.get_or_init(|| measured));
    Ok(rates.unwrap_or(MemoryRates::REFERENCE))
}

/// The least of several times each: the first run may touch new memory, and other work may run on the card.
pub(crate) fn measured_memory(stream: &Arc<Stream>) -> Result<MemoryRates> {
    let (values, gathered) = (1usize << LOG_VALUES, 1usize << LOG_GATHERED);
    let memory = stream.zeroed(values * 4, "memory to measure")?;
    let ids = arrow::buffer::Buffer::from_vec((0..gathered as u32).map(anywhere).collect());
    let ids = stream.send(ids.as_slice(), "memory to measure")?;
    let out = stream.alloc(values * 2, "memory to measure")?;
    let mut best = [f64::INFINITY; 2];
    let begun = Instant::now();
    for round in 0..TIMES {
        if round > 1 && begun.elapsed() > MOST {
            break;
        }
        let copied = timed(stream, || {
            (0..COPIES).try_for_each(|_| memory.copy_to(values * 2, &out, 0))
        })?;
        let found = timed(stream, || {
            rows::gather_into(stream, (&memory).into(), &ids, (&out).into(), gathered, 4)
        })?;
        best = [best[0].min(copied), best[1].min(found)];
    }
    let reference = MemoryRates::REFERENCE;
    let (copied, found) = (
        best[0] * PS / (COPIES * values * 2) as f64,
        best[1] * PS / gathered as f64,
    );
    let rates = MemoryRates {
        copied_byte: bounded(copied, reference.copied_byte),
        gathered_value: bounded(found, reference.gathered_value),
    };
    log::debug!("memory of the GPU: {rates:?}");
    Ok(rates)
}

/// Milliseconds of the work that `work` launches.
fn timed(stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let event = || {
        let event = Event::timing(&stream.gpu.context);
        event.map_err(|e| stream.failed("making an event", e))
    };
    let (begun, done) = (event()?, event()?);
    let mark = |e| stream.failed("recording an event", e);
    begun.record(&stream.cuda_stream).map_err(mark)?;
    work()?;
    done.record(&stream.cuda_stream).map_err(mark)?;
    let elapsed = begun.milliseconds_to(&done);
    Ok(elapsed.map_err(|e| stream.failed("a kernel", e))?.into())
}

/// The row id of one of the values for `i`, in no order and mostly without repeats.
fn anywhere(i: u32) -> u32 {
    let mut mixed = i.wrapping_mul(0x9E37_79B1);
    mixed ^= mixed >> 15;
    mixed = mixed.wrapping_mul(0x85EB_CA77);
    mixed >> (32 - LOG_VALUES)
}
