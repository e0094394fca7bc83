//! [`Pace`]: long loops check for cancellation at intervals.

use crate::error::Result;

/// A check for cancellation: an error if the query is cancelled.
pub(crate) type CancelCheck<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// Checks for cancellation once in [`Pace::STEPS`] elements of a loop.
pub(crate) struct Pace<'a> {
    check_cancelled: CancelCheck<'a>,
    steps: usize,
}

impl<'a> Pace<'a> {
    /// Elements between two checks.
    pub(crate) const STEPS: usize = 1 << 16;

    pub(crate) fn new(check_cancelled: CancelCheck<'a>) -> Self {
        Self {
            check_cancelled,
            steps: 0,
        }
    }

    /// Counts `elements`; the error of `check_cancelled` if a check was due and the query is cancelled.
    #[inline]
    pub(crate) fn step(&mut self, elements: usize) -> Result<()> {
        self.steps += elements;
        if self.steps < Self::STEPS {
            return Ok(());
        }
        self.steps = 0;
        (self.check_cancelled)()
    }
}
