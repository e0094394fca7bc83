//! Spans of work on a card, between two events, for queries that are profiled or that `EXPLAIN ANALYZE` runs
//! ([`Trace`]).

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaStream, DriverError};

use crate::device::cuda::runtime::event::Event;
use crate::device::trace::{self, Lane, Scope, Trace};
use crate::device::tracing_spans;

/// What is submitted.
pub(crate) struct Work<'a> {
    pub(crate) lane: Lane,
    pub(crate) name: &'a dyn Fn() -> String,
    pub(crate) bytes: Option<u64>,
}

/// A copy of `bytes` to the card.
pub(crate) fn to_device(bytes: usize) -> Work<'static> {
    Work {
        lane: Lane::ToDevice,
        name: &|| "copy to the device".into(),
        bytes: Some(bytes as u64),
    }
}

/// A copy of `bytes` from the card.
pub(crate) fn from_device(bytes: usize) -> Work<'static> {
    Work {
        lane: Lane::FromDevice,
        name: &|| "copy from the device".into(),
        bytes: Some(bytes as u64),
    }
}

/// An event of a card, and when it was reached, from the begin of the trace: by it the card's times become the host's.
struct Base {
    event: Event,
    at: Duration,
}

/// Submits work to `stream`; if the query of this thread is profiled, with an event before it and one behind it.
pub(crate) fn submitted<T, E>(
    stream: &CudaStream,
    work: &Work<'_>,
    submit: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    // Most queries are not profiled: the scope is not copied for them.
    let scope = trace::is_traced().then(trace::current).flatten();
    submitted_for(scope.as_ref(), stream, work, submit)
}

/// The same of a thread that works for another one, whose scope is `scope`.
pub(crate) fn submitted_for<T, E>(
    scope: Option<&Scope>,
    stream: &CudaStream,
    work: &Work<'_>,
    submit: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let Work { lane, name, bytes } = work;
    let submit = || tracing_spans::submission(*lane, name, *bytes, submit);
    let Some(Scope {
        trace: Some(trace),
        node,
        ..
    }) = scope
    else {
        return submit();
    };
    // A span less is no reason to fail a query.
    let begin = marked(stream.context(), stream).ok();
    let done = submit()?;
    let end = marked(stream.context(), stream).ok();
    let base = trace.keeps_spans().then(|| base_of(trace, stream));
    if let (Some(begin), Some(end)) = (begin, end)
        && !matches!(base, Some(None))
    {
        let base = base.flatten();
        let times = Box::new(move || {
            end.wait().ok()?;
            let start = match base {
                Some(base) => base.at.as_secs_f64() * 1e3 + milliseconds(&base.event, &begin)?,
                None => 0.0,
            };
            let took = milliseconds(&begin, &end)?.max(0.0);
            Some((
                Duration::from_secs_f64(start.max(0.0) / 1e3),
                Duration::from_secs_f64(took / 1e3),
            ))
        });
        trace.add_submitted(*lane, name(), *bytes, *node, times);
    }
    Ok(done)
}

fn milliseconds(from: &Event, to: &Event) -> Option<f64> {
    from.milliseconds_to(to).ok().map(f64::from)
}

/// A new event that tells the time, behind what was submitted so far.
fn marked(context: &Arc<CudaContext>, stream: &CudaStream) -> Result<Event, DriverError> {
    let event = Event::timing(context)?;
    event.record(stream)?;
    Ok(event)
}

fn base_of(trace: &Trace, stream: &CudaStream) -> Option<Arc<Base>> {
    let context = stream.context();
    trace.of_card(context.cu_ctx() as usize, || {
        // On a stream of its own: nothing is waited for that is in flight.
        let own = context.new_stream().ok()?;
        let event = marked(context, &own).ok()?;
        event.wait().ok()?;
        Some(Base {
            event,
            at: trace.now(),
        })
    })
}
