//! NVTX ranges for Nsight Systems and Nsight Compute, with the feature `nvtx`: one for each time that a thread enters a span of the library.
//!
//! The layer of the crate `nvtx` keeps one range in each span. It panics where two threads are in a span, as those that copy for an operator
//! are.

use std::cell::RefCell;
use std::ffi::CString;
use std::fmt::{Debug, Write as _};
use std::sync::LazyLock;

use nvtx::domain::LocalRange;
use nvtx::{Domain, Str};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// The target of the library's spans, and the domain of the ranges.
const TARGET: &str = "datafusion_bowtie";

static DOMAIN: LazyLock<Domain> = LazyLock::new(|| Domain::new(ascii(TARGET)));

thread_local! {
    /// The ranges of the spans that the thread is in. They end when dropped.
    static RANGES: RefCell<Vec<LocalRange<'static>>> = const { RefCell::new(vec![]) };
}

/// Makes the ranges from now on. Without a tool they go nowhere.
pub(crate) fn start() {
    let ranges = Ranges.with_filter(filter_fn(|span| span.target() == TARGET));
    // There is none before: this is called once, at the start.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(ranges));
}

/// Text of one byte for each character: Nsight Compute reads no other.
fn ascii(text: &str) -> Str {
    let known = |c: char| matches!(c, ' '..='~');
    let text: String = text
        .chars()
        .map(|c| if known(c) { c } else { '?' })
        .collect();
    Str::Ascii(CString::new(text).unwrap_or_default())
}

struct Ranges;

/// The span's name, and the values of its fields.
struct Name(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Ranges {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut name = Name(attributes.metadata().name().to_owned());
        attributes.record(&mut name);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(name);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let extensions = span.extensions();
        let name = extensions.get::<Name>().map_or("", |name| &name.0);
        let range = DOMAIN.local_range(ascii(name));
        RANGES.with_borrow_mut(|ranges| ranges.push(range));
    }

    /// Spans of the library are entered for the time of a call, so the last one ends first.
    fn on_exit(&self, _: &Id, _: Context<'_, S>) {
        RANGES.with_borrow_mut(|ranges| drop(ranges.pop()));
    }
}

impl Visit for Name {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {value:?}");
    }

    fn record_str(&mut self, _: &Field, value: &str) {
        let _ = write!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use tracing::trace_span;

    use super::*;

    #[test]
    fn threads_in_one_span_have_a_range_each() {
        let ranges = Ranges.with_filter(filter_fn(|span| span.target() == TARGET));
        let subscriber = tracing::Dispatch::new(Registry::default().with(ranges));
        let of_thread = || RANGES.with_borrow(Vec::len);
        let both = Barrier::new(2);
        tracing::dispatcher::with_default(&subscriber, || {
            let span = trace_span!(target: TARGET, "copy", direction = "to device", bytes = 8);
            let other = trace_span!(target: "other", "unknown");
            let in_both = || {
                other.in_scope(|| {
                    span.in_scope(|| {
                        both.wait();
                        let entered = of_thread();
                        both.wait();
                        entered
                    })
                })
            };
            std::thread::scope(|scope| {
                let theirs = scope.spawn(|| {
                    tracing::dispatcher::with_default(&subscriber, || (in_both(), of_thread()))
                });
                assert_eq!((in_both(), of_thread()), (1, 0));
                assert_eq!(theirs.join().unwrap(), (1, 0));
            });
            // And again.
            assert_eq!(span.in_scope(of_thread), 1);
        });
    }
}
