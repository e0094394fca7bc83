//! [`CardFailures`]: GPUs that are left alone for a while: those that did not open, for which `bowtie.device = 'auto'` chooses another device, and those on which
//! a query failed, whose operators run in DataFusion under `bowtie.offload = 'auto'`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{BowtieError, Result};

/// How long a GPU is passed over that did not open: its driver may be starting, or other processes may use its memory.
const AFTER_OPENING: Duration = Duration::from_secs(60);

/// How long a GPU is passed over on which a query failed.
const AFTER_QUERY: Duration = Duration::from_secs(10);

/// The failures of each card, which end by themselves: a GPU is tried again.
#[derive(Debug, Default)]
pub(crate) struct CardFailures(Mutex<BTreeMap<u32, Failure>>);

#[derive(Debug, Clone)]
struct Failure {
    until: Instant,
    why: String,
    is_of_opening: bool,
}

impl CardFailures {
    /// A GPU does not open.
    pub(crate) fn did_not_open(&self, ordinal: u32, why: String) {
        self.record(ordinal, why, AFTER_OPENING, true);
    }

    /// A query failed on a GPU.
    pub(crate) fn query_failed(&self, ordinal: u32, why: String) {
        self.record(ordinal, why, AFTER_QUERY, false);
    }

    fn record(&self, ordinal: u32, why: String, lasts: Duration, is_of_opening: bool) {
        let until = Instant::now() + lasts;
        let failure = Failure {
            until,
            why,
            is_of_opening,
        };
        let mut failures = self.0.lock();
        if failures.get(&ordinal).is_none_or(|of| of.until < until) {
            failures.insert(ordinal, failure);
        }
    }

    /// A GPU works again.
    pub(crate) fn opened(&self, ordinal: u32) {
        let mut failures = self.0.lock();
        if failures.get(&ordinal).is_some_and(|of| of.is_of_opening) {
            failures.remove(&ordinal);
        }
    }

    /// Forgets all failures.
    #[cfg(feature = "faults")]
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }

    /// The first GPU that did not open, with the reason.
    pub(crate) fn first_unopened(&self) -> Option<(u32, String)> {
        let failures = self.0.lock();
        let mut of_opening = failures.iter().filter(|(_, of)| of.is_of_opening);
        let (ordinal, failure) = of_opening.find(|(_, of)| of.until > Instant::now())?;
        Some((*ordinal, failure.why.clone()))
    }

    /// # Errors
    /// While the GPU is passed over since it did not open.
    pub(crate) fn check_opening(&self, ordinal: u32) -> Result<()> {
        let failures = self.0.lock();
        let is_of_opening = failures.get(&ordinal).is_some_and(|of| of.is_of_opening);
        drop(failures);
        match is_of_opening {
            true => self.check(ordinal),
            false => Ok(()),
        }
    }

    /// # Errors
    /// While the GPU is passed over.
    pub(crate) fn check(&self, ordinal: u32) -> Result<()> {
        let failure = self.0.lock().get(&ordinal).cloned();
        let left = |of: &Failure| of.until.saturating_duration_since(Instant::now());
        let Some(failure) = failure.filter(|of| !left(of).is_zero()) else {
            return Ok(());
        };
        let why = &failure.why;
        Err(BowtieError::Device(match failure.is_of_opening {
            true => format!("the GPU cuda:{ordinal} did not open: {why}"),
            false => format!(
                "the GPU cuda:{ordinal} is left alone for {:.0} s, as a query failed on it: {why}",
                left(&failure).as_secs_f64().ceil()
            ),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_passed_over_for_a_while() {
        let failures = CardFailures::default();
        failures.check(0).unwrap();
        failures.query_failed(0, "out of memory".into());
        failures.did_not_open(1, "it is busy".into());
        let told = |ordinal| failures.check(ordinal).unwrap_err().to_string();
        assert!(told(0).ends_with("as a query failed on it: out of memory"));
        assert!(told(1).ends_with("cuda:1 did not open: it is busy"));
        assert_eq!(failures.first_unopened(), Some((1, "it is busy".into())));
        // A card that opens is not one on which queries succeed.
        failures.opened(0);
        failures.opened(1);
        assert!(failures.check(0).is_err());
        failures.check(1).unwrap();
        // A failure is not made shorter by another one, and ends.
        failures.record(0, "at once".into(), Duration::ZERO, false);
        assert!(told(0).ends_with("out of memory"));
        let failures = CardFailures::default();
        failures.record(0, "long ago".into(), Duration::ZERO, false);
        failures.check(0).unwrap();
    }
}
