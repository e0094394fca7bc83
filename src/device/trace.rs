//! [`Scope`]: for which plan node a thread works, so that what the device does is counted for that node, and traced if
//! the query is profiled.
//!
//! ```text
//! exec/  a node's stream is polled, a blocking task runs  ──► Scope::enter        device/cuda/  launches, copies, waits
//!                                                             a thread's scope ◄── current() ─┘   ──► Meter, Trace
//! ```

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::Stream;
use parking_lot::Mutex;

use crate::device::counters::{Counted, Meter};
use crate::device::tracing_spans;

pub(crate) use crate::device::lane::Lane;

/// The node that a thread works for.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) meter: Arc<dyn Meter>,
    /// Of a query that is profiled.
    pub(crate) trace: Option<Arc<Trace>>,
    /// The node's address, which names it in the trace.
    pub(crate) node: usize,
    /// The name of the node's operator.
    pub(crate) operator: &'static str,
    /// Whether the trace is the node's own, of which only the sums are kept.
    pub(crate) is_timed: bool,
}

impl Scope {
    /// Of a node whose counters are `meter`; `trace`: that of its query.
    pub(crate) fn new<N>(
        node: &N,
        operator: &'static str,
        meter: Arc<dyn Meter>,
        trace: Option<Arc<Trace>>,
    ) -> Self {
        Self {
            meter,
            trace,
            node: std::ptr::from_ref(node).addr(),
            operator,
            is_timed: false,
        }
    }

    /// The same, whose work on a card is timed without a profile. `is_timed`: whether it is.
    pub(crate) fn timed(mut self, is_timed: bool) -> Self {
        if is_timed && self.trace.is_none() {
            self.trace = Some(Trace::of_sums());
            self.is_timed = true;
        }
        self
    }

    /// Waits for the card, and adds the times of what was submitted for the node to its counters.
    pub(crate) fn add_card_times(&self) {
        let Some(trace) = self.trace.as_ref().filter(|_| self.is_timed) else {
            return;
        };
        for (lane, took) in trace.sums_of_card() {
            let what = match lane {
                Lane::Kernels => Counted::KernelTime,
                Lane::ToDevice => Counted::HostToDeviceTime,
                Lane::FromDevice => Counted::DeviceToHostTime,
                Lane::Host | Lane::Wait => continue,
            };
            let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            what.add_to_process(took);
            self.meter.add(what, took);
        }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// The scope of this thread.
pub(crate) fn current() -> Option<Scope> {
    CURRENT.with_borrow(Clone::clone)
}

/// Adds to a counter of the node that this thread works for, and to the process's.
pub(crate) fn count(what: Counted, amount: u64) {
    what.add_to_process(amount);
    CURRENT.with_borrow(|scope| {
        if let Some(scope) = scope {
            scope.meter.add(what, amount);
        }
    });
}

/// Runs `work` and adds its time to a counter of the node that this thread works for.
pub(crate) fn timed<T>(
    what: Counted,
    lane: Lane,
    name: &'static str,
    work: impl FnOnce() -> T,
) -> T {
    timed_for(current().as_ref(), what, lane, name, work)
}

/// The same of a thread that works for another one, whose scope is `scope`.
pub(crate) fn timed_for<T>(
    scope: Option<&Scope>,
    what: Counted,
    lane: Lane,
    name: &'static str,
    work: impl FnOnce() -> T,
) -> T {
    let begun = Instant::now();
    let done = tracing_spans::wait(name, work);
    let took = begun.elapsed();
    let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    what.add_to_process(nanoseconds);
    if let Some(scope) = scope {
        scope.meter.add(what, nanoseconds);
        if let Some(trace) = &scope.trace {
            trace.add_host(lane, name, begun, took, scope.node);
        }
    }
    done
}

/// Restores the scope that a thread had before.
pub(crate) struct Entered(Option<Scope>);

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.set(before);
    }
}

/// Makes `scope` this thread's until the guard is dropped.
pub(crate) fn enter(scope: Option<Scope>) -> Entered {
    Entered(CURRENT.replace(scope))
}

/// `future`, which runs in the scope that this thread has now, whatever thread polls it.
pub(crate) fn in_scope<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let scope = current();
    let span = tracing_spans::Current::of_thread();
    let mut future = Box::pin(future);
    std::future::poll_fn(move |context| {
        let _entered = enter(scope.clone());
        span.run(|| future.as_mut().poll(context))
    })
}

/// `stream`, which is polled in `scope`.
pub(crate) fn in_scope_of<S: Stream>(scope: Scope, stream: S) -> impl Stream<Item = S::Item> {
    let mut stream = Box::pin(stream);
    futures::stream::poll_fn(move |context| {
        let _entered = enter(Some(scope.clone()));
        stream.as_mut().poll_next(context)
    })
}

/// Whether what this thread does is traced.
pub(crate) fn is_traced() -> bool {
    CURRENT.with_borrow(|scope| scope.as_ref().is_some_and(|scope| scope.trace.is_some()))
}

/// Something that took time while a query ran. Times are from the begin of the trace.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) lane: Lane,
    pub(crate) name: String,
    pub(crate) start: Duration,
    pub(crate) took: Duration,
    /// The node's address.
    pub(crate) node: usize,
    pub(crate) bytes: Option<u64>,
}

/// Asks a card when something began, from the begin of the trace, and how long it took; `None` if it does not tell.
pub(crate) type Times = Box<dyn FnOnce() -> Option<(Duration, Duration)> + Send>;

struct Submitted {
    span: Span,
    times: Times,
}

/// Spans that are kept.
const MOST_SPANS: usize = 20_000;
/// Of a trace of sums: work whose times were not asked for yet. The older half is then asked for, which is mostly done.
const MOST_SUBMITTED: usize = 512;

/// What happened while a query ran.
pub(crate) struct Trace {
    begun: Instant,
    /// The times of a card's lanes, of a trace that keeps no spans.
    sums: Option<Mutex<HashMap<Lane, Duration>>>,
    spans: Mutex<Vec<Span>>,
    /// Work of cards, whose times are known when it is done.
    submitted: Mutex<Vec<Submitted>>,
    dropped: Mutex<usize>,
    /// What a backend keeps for each of its cards.
    cards: Mutex<HashMap<usize, Arc<dyn Any + Send + Sync>>>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace of {} spans", self.spans.lock().len())
    }
}

impl Trace {
    /// Of a query that is profiled.
    pub(crate) fn begin() -> Arc<Self> {
        Self::new(None)
    }

    /// Of a node, for which only the sums of a card's times are kept.
    fn of_sums() -> Arc<Self> {
        Self::new(Some(Mutex::default()))
    }

    fn new(sums: Option<Mutex<HashMap<Lane, Duration>>>) -> Arc<Self> {
        Arc::new(Self {
            begun: Instant::now(),
            sums,
            spans: Mutex::default(),
            submitted: Mutex::default(),
            dropped: Mutex::default(),
            cards: Mutex::default(),
        })
    }

    /// Whether spans are kept, and with them when they began.
    pub(crate) fn keeps_spans(&self) -> bool {
        self.sums.is_none()
    }

    /// The time since the trace began.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whether there is room for one more span; counts it as dropped otherwise.
    fn has_room(&self) -> bool {
        let kept = self.spans.lock().len() + self.submitted.lock().len();
        if kept >= MOST_SPANS {
            *self.dropped.lock() += 1;
        }
        kept < MOST_SPANS
    }

    /// Adds what a thread of the host did.
    pub(crate) fn add_host(
        &self,
        lane: Lane,
        name: &str,
        begun: Instant,
        took: Duration,
        node: usize,
    ) {
        if self.keeps_spans() && self.has_room() {
            self.spans.lock().push(Span {
                lane,
                name: name.into(),
                start: begun.saturating_duration_since(self.begun),
                took,
                node,
                bytes: None,
            });
        }
    }

    /// Adds work of a card, whose times are asked for when the query is done.
    pub(crate) fn add_submitted(
        &self,
        lane: Lane,
        name: String,
        bytes: Option<u64>,
        node: usize,
        times: Times,
    ) {
        let span = Span {
            lane,
            name,
            start: Duration::ZERO,
            took: Duration::ZERO,
            node,
            bytes,
        };
        let submitted = Submitted { span, times };
        if !self.keeps_spans() {
            let older = {
                let mut waiting = self.submitted.lock();
                waiting.push(submitted);
                match waiting.len() > MOST_SUBMITTED {
                    true => waiting.drain(..MOST_SUBMITTED / 2).collect(),
                    false => vec![],
                }
            };
            self.add_up(older);
        } else if self.has_room() {
            self.submitted.lock().push(submitted);
        }
    }

    /// Adds work to the sums. Waits for the card.
    fn add_up(&self, work: Vec<Submitted>) {
        let Some(sums) = &self.sums else { return };
        for Submitted { span, times } in work {
            if let Some((_, took)) = times() {
                *sums.lock().entry(span.lane).or_default() += took;
            }
        }
    }

    /// The times of a card's lanes, of a trace of sums. Waits for the card.
    fn sums_of_card(&self) -> Vec<(Lane, Duration)> {
        let rest = std::mem::take(&mut *self.submitted.lock());
        self.add_up(rest);
        let sums = self
            .sums
            .as_ref()
            .map(|sums| std::mem::take(&mut *sums.lock()));
        sums.unwrap_or_default().into_iter().collect()
    }

    /// What a backend keeps for the card `key`, made when it is first asked for.
    pub(crate) fn of_card<T: Any + Send + Sync>(
        &self,
        key: usize,
        make: impl FnOnce() -> Option<T>,
    ) -> Option<Arc<T>> {
        let mut cards = self.cards.lock();
        if let Some(known) = cards.get(&key) {
            return Arc::clone(known).downcast().ok();
        }
        let made = Arc::new(make()?);
        cards.insert(key, Arc::clone(&made) as _);
        Some(made)
    }

    /// All spans by their begin, and how many were not kept. Waits for the cards.
    pub(crate) fn finish(&self) -> (Vec<Span>, usize) {
        let submitted = std::mem::take(&mut *self.submitted.lock());
        let mut spans = std::mem::take(&mut *self.spans.lock());
        spans.extend(
            submitted
                .into_iter()
                .filter_map(|Submitted { span, times }| {
                    let (start, took) = times()?;
                    Some(Span {
                        start,
                        took,
                        ..span
                    })
                }),
        );
        spans.sort_by_key(|span| span.start);
        (spans, *self.dropped.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::counters::Tally;

    #[test]
    fn a_scope_ends_with_its_guard_and_goes_along_with_futures() {
        let trace = Trace::begin();
        let tally = Arc::new(Tally::default());
        let scope = |node| Scope {
            meter: Arc::<Tally>::clone(&tally),
            trace: Some(Arc::clone(&trace)),
            node,
            operator: "",
            is_timed: false,
        };
        let node = || current().map(|scope| scope.node);
        let outer = enter(Some(scope(1)));
        let kept = in_scope(async { current().map(|scope| scope.node) });
        let inner = enter(Some(scope(2)));
        assert_eq!(node(), Some(2));
        assert_eq!(futures::executor::block_on(kept), Some(1));
        drop(inner);
        assert_eq!(node(), Some(1));
        timed(Counted::WaitTime, Lane::Wait, "a wait", || ());
        drop(outer);
        assert!(node().is_none());
        let (spans, dropped) = trace.finish();
        assert_eq!((spans.len(), spans[0].node, dropped), (1, 1, 0));
        assert!(tally.is_counted(Counted::WaitTime));
    }

    #[test]
    fn a_timed_scope_adds_up_all_that_was_submitted() {
        let tally = Arc::new(Tally::default());
        let scope = Scope {
            meter: Arc::<Tally>::clone(&tally),
            trace: None,
            node: 1,
            operator: "",
            is_timed: false,
        };
        let scope = scope.timed(true);
        let trace = scope.trace.clone().unwrap();
        for _ in 0..3 * MOST_SUBMITTED {
            let times = Box::new(|| Some((Duration::ZERO, Duration::from_micros(2))));
            trace.add_submitted(Lane::Kernels, String::new(), None, 1, times);
            assert!(trace.submitted.lock().len() <= MOST_SUBMITTED);
        }
        trace.add_host(Lane::Wait, "x", Instant::now(), Duration::ZERO, 1);
        let expected = Duration::from_micros(6) * u32::try_from(MOST_SUBMITTED).unwrap();
        assert_eq!(trace.sums_of_card(), [(Lane::Kernels, expected)]);
        assert!(trace.finish().0.is_empty() && trace.sums_of_card().is_empty());
        trace.add_submitted(
            Lane::ToDevice,
            String::new(),
            None,
            1,
            Box::new(|| Some((Duration::ZERO, Duration::from_micros(9)))),
        );
        scope.add_card_times();
        assert!(tally.is_counted(Counted::HostToDeviceTime));
        assert!(!tally.is_counted(Counted::KernelTime));
    }

    #[test]
    fn spans_past_the_most_are_counted() {
        let trace = Trace::begin();
        for i in 0..MOST_SPANS + 7 {
            trace.add_host(Lane::Host, "x", Instant::now(), Duration::ZERO, i);
        }
        let (spans, dropped) = trace.finish();
        assert_eq!((spans.len(), dropped), (MOST_SPANS, 7));
    }
}
