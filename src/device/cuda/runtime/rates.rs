//! Measures a card's memory once: the rates of sequential copies and of random gathers, which the cost model of \[W\] 4.1
//! compares.

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;

use crate::device::cuda::runtime::driver::failed;
use crate::device::cuda::runtime::memory_rates::{H200, MemoryRates};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::{IfItFits as _, Result};

/// Powers of two: the values of the source, more than any cache holds, and the values that are gathered.
const LOG_VALUES: u32 = 25;
const LOG_GATHERED: u32 = 22;
const TIMES: usize = 4;
/// Copies that are timed together: a single one takes hardly longer than its launch.
const COPIES: usize = 8;

/// The plausible times, as multiples of an H200's: a quarter to sixteen. Times outside of that are due to other work on the
/// card.
const LEAST: f64 = 0.25;
const MOST: f64 = 16.0;

/// Picoseconds in a millisecond.
const PS: f64 = 1e9;

impl Stream {
    /// The rates, which the first call measures in a few milliseconds; the H200's where the budget has no memory for that.
    pub(crate) fn memory_rates(self: &Arc<Self>) -> Result<MemoryRates> {
        if let Some(known) = self.gpu.memory_rates.get() {
            return Ok(*known);
        }
        let measured = self.measured().if_it_fits()?;
        let rates = measured.map(|measured| *self.gpu.memory_rates.get_or_init(|| measured));
        Ok(rates.unwrap_or(H200))
    }

    /// The least of several times each: the first run may touch new memory, and other work may run on the card.
    fn measured(self: &Arc<Self>) -> Result<MemoryRates> {
        let (values, gathered) = (1usize << LOG_VALUES, 1usize << LOG_GATHERED);
        let memory = self.zeroed(values * 4, "memory to measure")?;
        let ids = arrow::buffer::Buffer::from_vec((0..gathered as u32).map(anywhere).collect());
        let ids = self.send(ids.as_slice(), "memory to measure")?;
        let out = self.alloc(values * 2, "memory to measure")?;
        let mut best = [f64::INFINITY; 2];
        for _ in 0..TIMES {
            let copied =
                self.timed(|| (0..COPIES).try_for_each(|_| memory.copy_to(values * 2, &out, 0)))?;
            let found = self
                .timed(|| self.gather_into((&memory).into(), &ids, (&out).into(), gathered, 4))?;
            best = [best[0].min(copied), best[1].min(found)];
        }
        let near = |measured: f64, of: f64| (measured / of).clamp(LEAST, MOST) * of;
        let rates = MemoryRates {
            copied_byte: near(
                best[0] * PS / (COPIES * values * 2) as f64,
                H200.copied_byte,
            ),
            gathered_value: near(best[1] * PS / gathered as f64, H200.gathered_value),
        };
        log::debug!("memory of the GPU: {rates:?}");
        Ok(rates)
    }

    /// Milliseconds of the work that `work` launches.
    fn timed(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let event = || {
            let marked = self
                .gpu
                .context
                .new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
            marked.map_err(|e| failed("making an event", e))
        };
        let (begun, done) = (event()?, event()?);
        let mark = |e| failed("recording an event", e);
        begun.record(&self.cuda_stream).map_err(mark)?;
        work()?;
        done.record(&self.cuda_stream).map_err(mark)?;
        let elapsed = begun.elapsed_ms(&done);
        Ok(elapsed.map_err(|e| failed("a kernel", e))?.into())
    }
}

/// The row id of one of the values for `i`, in no order and mostly without repeats.
fn anywhere(i: u32) -> u32 {
    let mut mixed = i.wrapping_mul(0x9E37_79B1);
    mixed ^= mixed >> 15;
    mixed = mixed.wrapping_mul(0x85EB_CA77);
    mixed >> (32 - LOG_VALUES)
}
