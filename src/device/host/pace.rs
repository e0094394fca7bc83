//! [`Pace`]: long loops check for cancellation at intervals.

use crate::error::Result;

/// A check for cancellation: an error if the query is cancelled.
pub(crate) type GoOn<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// Checks for cancellation once in [`Pace::STEPS`] elements of a loop.
pub(crate) struct Pace<'a> {
    go_on: GoOn<'a>,
    steps: usize,
}

impl<'a> Pace<'a> {
    /// Elements between two checks.
    pub(crate) const STEPS: usize = 1 << 16;

    pub(crate) fn new(go_on: GoOn<'a>) -> Self {
        Self { go_on, steps: 0 }
    }

    /// Counts `elements`; the error of `go_on` if a check was due and the query is cancelled.
    #[inline]
    pub(crate) fn step(&mut self, elements: usize) -> Result<()> {
        self.steps += elements;
        if self.steps < Self::STEPS {
            return Ok(());
        }
        self.steps = 0;
        (self.go_on)()
    }
}
