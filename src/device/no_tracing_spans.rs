//! In place of `tracing_spans.rs` without the feature `tracing`: no spans.

#[cfg(feature = "cuda")]
use crate::device::lane::Lane;

/// Would be the span of a step.
pub(crate) struct Step;

impl Step {
    pub(crate) fn of(_operator: Option<&str>) -> Self {
        Self
    }

    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// Would be the span of a thread.
#[derive(Debug)]
pub(crate) struct Current;

impl Current {
    pub(crate) fn of_thread() -> Self {
        Self
    }

    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

pub(crate) fn wait<T>(_what: &'static str, work: impl FnOnce() -> T) -> T {
    work()
}

#[cfg(feature = "cuda")]
pub(crate) fn submission<T>(
    _lane: Lane,
    _name: &dyn Fn() -> String,
    _bytes: Option<u64>,
    submit: impl FnOnce() -> T,
) -> T {
    submit()
}
