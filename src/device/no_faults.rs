//! `faults.rs` of a build without the feature `faults`: nothing fails on purpose.

use crate::error::Result;

/// A kind of call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Reservation,
    Allocation,
    Upload,
    Download,
    Copy,
    Launch,
    Load,
    Pin,
    Stream,
    Event,
}

/// No faults. It has a field, so that `Faults::default()` is as good a way to make them as in the other build.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    _none: (),
}

impl Faults {
    /// Whether a call is to fail.
    #[inline(always)]
    pub(crate) fn strikes(&self, _fault: Fault) -> bool {
        false
    }

    /// # Errors
    /// None.
    #[inline(always)]
    pub(crate) fn check(&self, _fault: Fault) -> Result<()> {
        Ok(())
    }
}
