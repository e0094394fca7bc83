//! Spans for subscribers of the crate [`tracing`], with the feature of that name; `no_tracing_spans.rs` stands for them without it.
//!
//! | span | level | what runs in it | fields |
//! |---|---|---|---|
//! | the operator's name | debug | a step of the operator, on a blocking thread | |
//! | `wait` | debug | the thread waits for the device, for memory or for a kernel to be loaded | `what` |
//! | `launch` | trace | a kernel is submitted; it runs later | `kernel` |
//! | `copy` | trace | a copy is submitted | `direction`, `bytes` |
//!
//! All have the target `datafusion_bowtie`. The parent is the span in which the node's download was polled.

use ::tracing::{Span, debug_span};

#[cfg(feature = "cuda")]
use crate::device::lane::Lane;

const TARGET: &str = "datafusion_bowtie";

/// The name of a span is a constant of the place that makes it: one place for each name.
macro_rules! named {
    ($operator:expr, $($name:literal)*) => {
        match $operator {
            $($name => debug_span!(target: TARGET, $name),)*
            other => debug_span!(target: TARGET, "operator", name = other),
        }
    };
}

/// The span of a step, made where the step is started.
pub(crate) struct Step(Span);

impl Step {
    /// `None`: work for no operator, which has no span.
    pub(crate) fn of(operator: Option<&str>) -> Self {
        let Some(operator) = operator else {
            return Self(Span::none());
        };
        Self(named!(operator,
            "BowtieAggregateExec" "BowtieDownloadExec" "BowtieFilterExec" "BowtieJoinAggregateExec" "BowtieJoinExec" "BowtieLimitExec"
            "BowtieProjectionExec" "BowtieScanExec" "BowtieSortExec" "BowtieUnionExec" "BowtieUploadExec"))
    }

    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        self.0.in_scope(work)
    }
}

/// The span of a thread, for others that work for it.
#[derive(Debug)]
pub(crate) struct Current(Span);

impl Current {
    pub(crate) fn of_thread() -> Self {
        Self(Span::current())
    }

    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.in_scope(work)
    }
}

/// `work`, in which the thread waits.
pub(crate) fn wait<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    debug_span!(target: TARGET, "wait", what).in_scope(work)
}

/// `submit`, which gives a device work of this lane.
#[cfg(feature = "cuda")]
pub(crate) fn submission<T>(
    lane: Lane,
    name: &dyn Fn() -> String,
    bytes: Option<u64>,
    submit: impl FnOnce() -> T,
) -> T {
    let span = match lane {
        Lane::Kernels => ::tracing::trace_span!(target: TARGET, "launch", kernel = name()),
        _ => {
            let direction = match lane {
                Lane::ToDevice => "to device",
                Lane::FromDevice => "from device",
                Lane::Host | Lane::Wait | Lane::Kernels => "none",
            };
            ::tracing::trace_span!(target: TARGET, "copy", direction, bytes)
        }
    };
    span.in_scope(submit)
}
