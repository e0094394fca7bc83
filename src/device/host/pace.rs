//! [`Pace`]: long loops look now and then whether anybody still waits for them.

use crate::error::Result;

pub(crate) type GoOn<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// Ends a loop over many elements when nobody waits for it any more.
pub(crate) struct Pace<'a> {
    go_on: GoOn<'a>,
    steps: usize,
}

impl<'a> Pace<'a> {
    /// Elements after which it is asked.
    pub(crate) const STEPS: usize = 1 << 16;

    pub(crate) fn new(go_on: GoOn<'a>) -> Self {
        Self { go_on, steps: 0 }
    }

    /// After so many more elements.
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
