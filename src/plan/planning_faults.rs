//! Rules that fail on purpose, for tests (feature `faults`).

use std::cell::Cell;

use datafusion::error::DataFusionError;

thread_local! {
    /// The rule that fails on this thread.
    static FAILING: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// While it lives, a rule fails in plans that this thread makes, as if it were not a build for tests: its error is declined.
#[derive(Debug)]
pub struct FailingRule(());

impl FailingRule {
    /// Of the rule with this name.
    pub fn named(rule: &'static str) -> Self {
        FAILING.set(Some(rule));
        Self(())
    }
}

impl Drop for FailingRule {
    fn drop(&mut self) {
        FAILING.set(None);
    }
}

/// The error of a rule that is to fail.
pub(crate) fn strikes(rule: &'static str) -> Option<DataFusionError> {
    let fails = FAILING.get() == Some(rule);
    fails.then(|| DataFusionError::Internal(format!("{rule} failed on purpose")))
}
