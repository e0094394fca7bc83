//! All files together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::files::LEFT_OUT;
use super::lists::{ANY_ORDER, Entry, SKIPS};
use super::run::{Failure, Outcome};
use crate::support::session::Rule;

/// Executed plans with a bowtie node: far fewer mean that the offload has stopped working.
const LEAST_OFFLOADED: usize = 2_000;

/// Passed records: far fewer mean that most tables could not be made.
const LEAST_PASSED: usize = 21_000;

/// Characters of a failure's message that are shown.
const SHOWN: usize = 2_000;

#[derive(Debug)]
pub(super) struct Total<'a> {
    outcomes: &'a [Outcome],
}

impl<'a> Total<'a> {
    pub(super) fn of(outcomes: &'a [Outcome]) -> Self {
        Self { outcomes }
    }

    fn sum(&self, of: fn(&Outcome) -> usize) -> usize {
        self.outcomes.iter().map(of).sum()
    }

    fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.outcomes.iter().flat_map(|outcome| &outcome.failures)
    }

    fn offloaded(&self) -> usize {
        self.sum(|o| o.plans.offloaded)
    }

    fn seen(&self) -> BTreeMap<&str, usize> {
        let mut seen = BTreeMap::new();
        for (what, count) in self.outcomes.iter().flat_map(|o| &o.plans.seen) {
            *seen.entry(what.as_str()).or_default() += count;
        }
        seen
    }

    pub(super) fn expect_no_failures(&self) {
        let (environment, bowtie): (Vec<_>, Vec<_>) = self.failures().partition(|f| f.also_off);
        for (whose, failures) in [
            (
                "of the environment (without offload they fail too)",
                &environment,
            ),
            ("of bowtie", &bowtie),
        ] {
            for failure in failures {
                let message: String = failure.message.chars().take(SHOWN).collect();
                println!("\nfailure {whose}, at {}:\n{message}", failure.at);
            }
        }
        assert!(
            bowtie.is_empty() && environment.is_empty(),
            "{} records fail because of bowtie, {} because of the environment (list those)",
            bowtie.len(),
            environment.len()
        );
    }

    /// When all files have run.
    pub(super) fn expect_that_much_was_tested(&self, rule: Rule) {
        let offloaded = self.offloaded();
        assert!(
            offloaded >= LEAST_OFFLOADED,
            "only {offloaded} plans had a bowtie node"
        );
        let passed = self.sum(|o| o.passed);
        assert!(passed >= LEAST_PASSED, "only {passed} records passed");
        // The nodes of stages show less of themselves.
        if rule != Rule::Early {
            return;
        }
        let seen = self.seen();
        for fact in [
            "join_type=Inner",
            "join_type=Left",
            "join_type=Right",
            "join_type=Full",
            "join_type=LeftSemi",
            "join_type=RightSemi",
            "join_type=LeftAnti",
            "join_type=RightAnti",
            "join_type=LeftMark",
            "join_type=RightMark",
            // No file has a condition for "dominance".
            "strategy=range",
            "strategy=tiles",
            "BowtieJoinExec",
            "BowtieJoinAggregateExec",
            "BowtieAggregateExec",
        ] {
            assert!(seen.contains_key(fact), "no executed plan had {fact}");
        }
        let used: BTreeSet<&String> = self.outcomes.iter().flat_map(|o| &o.used).collect();
        for entry in lists() {
            assert!(
                used.contains(&entry.name()),
                "the list names a record that no file has: {}",
                entry.name()
            );
        }
    }
}

fn lists() -> impl Iterator<Item = &'static Entry> {
    SKIPS.iter().chain(ANY_ORDER)
}

impl fmt::Display for Total<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<46} {:>7} {:>9} {:>9} {:>7} {:>6} {:>8}",
            "file", "passed", "offloaded", "reordered", "skipped", "failed", "seconds"
        )?;
        for o in self.outcomes {
            writeln!(
                f,
                "{:<46} {:>7} {:>9} {:>9} {:>7} {:>6} {:>8.1}",
                o.file,
                o.passed,
                o.plans.offloaded,
                o.reordered,
                o.skipped.values().sum::<usize>(),
                o.failures.len(),
                o.took.as_secs_f64()
            )?;
        }
        writeln!(
            f,
            "{:<46} {:>7} {:>9} {:>9} {:>7} {:>6}",
            "together",
            self.sum(|o| o.passed),
            self.offloaded(),
            self.sum(|o| o.reordered),
            self.sum(|o| o.skipped.values().sum()),
            self.sum(|o| o.failures.len())
        )?;
        let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
        for (why, count) in self.outcomes.iter().flat_map(|o| &o.skipped) {
            *skipped.entry(why).or_default() += count;
        }
        writeln!(f, "\nskipped records:")?;
        for (why, count) in skipped {
            writeln!(f, "{count:>6}  {why}")?;
        }
        writeln!(f, "\nfiles that did not run:")?;
        for left in LEFT_OUT {
            writeln!(f, "        {}: {}", left.file, left.why)?;
        }
        writeln!(f, "\nother records of the lists:")?;
        for entry in ANY_ORDER {
            writeln!(f, "        {}: {}", entry.name(), entry.why)?;
        }
        writeln!(f, "\nin the plans that ran:")?;
        for (what, count) in self.seen() {
            writeln!(f, "{count:>6}  {what}")?;
        }
        let mut declined: BTreeMap<&str, usize> = BTreeMap::new();
        for (why, count) in self.outcomes.iter().flat_map(|o| &o.plans.declined) {
            *declined.entry(why).or_default() += count;
        }
        writeln!(
            f,
            "\nwhy some joins and aggregations of DataFusion were left in them:"
        )?;
        for (why, count) in declined {
            writeln!(f, "{count:>6}  {why}")?;
        }
        Ok(())
    }
}
