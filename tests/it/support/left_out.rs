//! The cases that a suite over many types leaves out, held against a list.

use std::collections::BTreeSet;
use std::fmt::Display;

/// Which cases of a suite ran, and which did not.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    compared: BTreeSet<String>,
    left_out: BTreeSet<String>,
}

/// Who does not take a case.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By {
    /// It refuses the query, so that there is nothing to compare with.
    DataFusion,
    /// It declines what the suite is about, also when forced.
    Bowtie,
}

impl LeftOut {
    /// A query of `case` was compared.
    pub(crate) fn compared(&mut self, case: impl Display) {
        self.compared.insert(case.to_string());
    }

    /// A query of `case` was not compared.
    pub(crate) fn leave(&mut self, case: impl Display, by: By) {
        self.left_out.insert(format!("{case} by {by:?}"));
    }

    /// Checks that `expected`, such as `Float16 by DataFusion`, are the cases that were left out, all of their queries.
    pub(crate) fn assert_are(&self, expected: &[String]) {
        let expected: BTreeSet<String> = expected.iter().cloned().collect();
        assert!(
            self.left_out == expected,
            "left out, though not in the list: {:#?}\nin the list, though not left out: {:#?}",
            self.left_out.difference(&expected).collect::<Vec<_>>(),
            expected.difference(&self.left_out).collect::<Vec<_>>(),
        );
        let of_both = self.left_out.iter().filter(|left| {
            let case = left.rsplit_once(" by ").map_or("", |(case, _)| case);
            self.compared.contains(case)
        });
        assert_eq!(of_both.collect::<Vec<_>>(), Vec::<&String>::new());
    }
}
