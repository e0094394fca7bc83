//! [`Event`]: a place in the work of a stream. Other streams are ordered after it, and threads wait for it.
//!
//! Most waits are short, and a thread that sleeps wakes up late. But a thread that asks the driver again and again holds a core, which others plan
//! and stage with. So a thread asks for [`SPIN`], and then sleeps. To measure what that is worth, set `SPIN` to `Duration::MAX` (no thread sleeps)
//! or to zero, and compare the times, and the processor times, of one client and of more clients than half of the cores.

use std::hint::spin_loop;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use crate::device::cuda::runtime::symbols;

/// For how long a thread asks before it sleeps: some times what it takes to wake up (17 µs on an H200 machine).
const SPIN: Duration = Duration::from_micros(50);

/// An event of a card. A thread that waits for it sleeps (`BLOCKING_SYNC`).
#[derive(Debug)]
pub(crate) struct Event {
    event: sys::CUevent,
    context: Arc<CudaContext>,
}

// SAFETY: a handle, which the driver lets any thread use.
unsafe impl Send for Event {}
// SAFETY: the same.
unsafe impl Sync for Event {}

impl Event {
    /// An event that orders streams and is waited for. One that was never recorded is done.
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        Self::with(context, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32)
    }

    /// One that tells the time as well.
    pub(crate) fn timing(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        Self::with(context, sys::CUevent_flags::CU_EVENT_DEFAULT as u32)
    }

    pub(crate) fn context(&self) -> &CudaContext {
        &self.context
    }

    fn with(context: &Arc<CudaContext>, flags: u32) -> Result<Self, DriverError> {
        context.bind_to_thread()?;
        let flags = flags | sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
        let mut event = ptr::null_mut();
        // SAFETY: the context is bound; the handle is written during the call.
        unsafe { sys::cuEventCreate(&mut event, flags) }.result()?;
        Ok(Self {
            event,
            context: Arc::clone(context),
        })
    }

    /// Puts it behind the work that was launched on `stream` so far.
    pub(crate) fn record(&self, stream: &CudaStream) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        // SAFETY: the event and the stream live.
        unsafe { result::event::record(self.event, stream.cu_stream()) }
    }

    /// Orders all later work of `stream` after it.
    pub(crate) fn before(&self, stream: &CudaStream) -> Result<(), DriverError> {
        stream.context().bind_to_thread()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT as u32;
        // SAFETY: the event and the stream live.
        unsafe { sys::cuStreamWaitEvent(stream.cu_stream(), self.event, flags) }.result()
    }

    /// Whether the work before it is done.
    pub(crate) fn is_done(&self) -> Result<bool, DriverError> {
        // SAFETY: the event lives.
        done(unsafe { result::event::query(self.event) })
    }

    /// Waits until the work before it is done.
    pub(crate) fn wait(&self) -> Result<(), DriverError> {
        let recorded = bound(&self.context)?;
        if !asked(|| self.is_done())? {
            // SAFETY: the event lives.
            unsafe { result::event::synchronize(self.event) }?;
        }
        recorded
    }

    /// Milliseconds from it to `end`. Waits for both, which must be of [`Event::timing`] and recorded.
    pub(crate) fn milliseconds_to(&self, end: &Self) -> Result<f32, DriverError> {
        self.wait()?;
        end.wait()?;
        // SAFETY: both live; where one was not recorded, or does not tell the time, the driver says so.
        unsafe { symbols::elapsed(self.event, end.event) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let bound = self.context.bind_to_thread();
        self.context.record_err(bound);
        // SAFETY: the event was made by this and is destroyed once; the driver lets waits for it end.
        let destroyed = unsafe { result::event::destroy(self.event) };
        self.context.record_err(destroyed);
    }
}

/// Waits until all work of `stream` is done.
pub(crate) fn wait_for(stream: &CudaStream) -> Result<(), DriverError> {
    let recorded = bound(stream.context())?;
    // SAFETY: the stream lives.
    let is_done = || done(unsafe { sys::cuStreamQuery(stream.cu_stream()) }.result());
    if !asked(is_done)? {
        match Event::new(stream.context()) {
            Ok(event) => {
                event.record(stream)?;
                // SAFETY: the event lives.
                unsafe { result::event::synchronize(event.event) }?;
            }
            // Without an event the wait takes a core.
            Err(_) => stream.synchronize()?,
        }
    }
    recorded
}

/// Binds a context to the thread, whatever error a destructor recorded before, which binding returns once: whoever waits must wait all the same, and
/// returns that error behind.
fn bound(context: &CudaContext) -> Result<Result<(), DriverError>, DriverError> {
    let recorded = context.bind_to_thread();
    if recorded.is_err() {
        context.bind_to_thread()?;
    }
    Ok(recorded)
}

/// What a query says: whether work is done.
fn done(queried: Result<(), DriverError>) -> Result<bool, DriverError> {
    match queried {
        Ok(()) => Ok(true),
        Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Asks for [`SPIN`] whether work is done.
fn asked(is_done: impl Fn() -> Result<bool, DriverError>) -> Result<bool, DriverError> {
    let begun = Instant::now();
    loop {
        if is_done()? {
            return Ok(true);
        }
        if begun.elapsed() >= SPIN {
            return Ok(false);
        }
        spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn work_that_is_done_soon_is_asked_for_and_other_work_not_for_long() {
        let asked_for = Cell::new(0);
        let third = || {
            asked_for.set(asked_for.get() + 1);
            Ok(asked_for.get() == 3)
        };
        // A thread may be interrupted for longer than it spins.
        let done = (0..100).any(|_| {
            asked_for.set(0);
            asked(third).unwrap() && asked_for.get() == 3
        });
        assert!(done);
        let begun = Instant::now();
        assert!(!asked(|| Ok(false)).unwrap());
        assert!(begun.elapsed() >= SPIN);
        let failed = asked(|| Err(DriverError(sys::CUresult::CUDA_ERROR_LAUNCH_FAILED)));
        assert!(failed.is_err());
    }
}
