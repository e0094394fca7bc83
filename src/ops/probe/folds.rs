//! Folds of the matches of a [`Probe`], without the matches, and whether they cost less than these. In: a column of one side. Out: a column with a row for
//! each row of the other side.

use super::Probe;
use crate::device::data::column::Column;
use crate::device::data::matches::Matches;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::fold::RangeFold;
use crate::ir::side::Side;

/// What a row costs on a level of folds under a test, and a match that is expanded and aggregated: a ratio.
const LEVEL_ROW: u64 = 1;
const MATCH: u64 = 2;
/// Candidates that a walk tests in the time of a row on a level.
const CANDIDATES: u64 = 8;

impl Probe {
    /// Whether `folds` calls of [`Probe::fold`] serve the values of `side`, and cost less than all matches.
    pub(crate) fn folds(&self, device: &dyn Device, side: Side, folds: usize) -> Result<bool> {
        // Lists have a build row once for each probe row that it matches.
        if self.listed.is_some() && side != self.build_side {
            return Ok(false);
        }
        if self.is_untested() {
            return Ok(true);
        }
        // Listed pairs of tests and a program are not walked.
        let is_walked = self.program.is_none() || self.index.tests.is_empty();
        if side != self.build_side || !is_walked {
            return Ok(false);
        }
        let matches = device.total(&self.offsets(device)?)?;
        if !self.folds_by_levels() {
            let again = folds.saturating_sub(1) as u64;
            let candidates = match again {
                0 => 0,
                _ => self.candidates(device)?,
            };
            return Ok(matches > self.positions() as u64
                && matches * MATCH > candidates / CANDIDATES * again);
        }
        let build = self.build_rows()?.len();
        let levels = u64::from(usize::BITS - build.leading_zeros());
        let rows = (build + self.positions()) as u64;
        Ok(matches > rows * levels * folds as u64 * LEVEL_ROW / MATCH)
    }

    /// Whether [`Probe::fold`] under tests goes through the levels of their order, and not through the matches.
    pub(crate) fn folds_by_levels(&self) -> bool {
        let is_one_inequality = matches!(self.index.tests[..], [test] if test.op.is_inequality());
        is_one_inequality && self.program.is_none()
    }

    /// The number of positions in all ranges.
    fn candidates(&self, device: &dyn Device) -> Result<u64> {
        let counts = self.with_matches(|matches| {
            let untested = Matches {
                tests: &[],
                program: None,
                ..matches
            };
            device.count_matches(untested, false)
        })?;
        device.total(&device.scan(&counts.counts)?)
    }

    /// For each row of the other side, a fold over the matches of `values`, a column of `side`; see [`Probe::folds`].
    pub(crate) fn fold(
        &self,
        device: &dyn Device,
        fold: RangeFold,
        side: Side,
        values: &Column,
    ) -> Result<Column> {
        self.with_matches(
            |matches| match (side == self.build_side, self.is_untested()) {
                (true, true) => device.fold_ranges(fold, values, matches, self.rows),
                (true, false) => device.fold_tested(fold, values, matches, self.rows),
                (false, true) => device.fold_covers(fold, values, matches, self.index.rows()),
                (false, false) => Err(BowtieError::Internal("covers of tested ranges".into())),
            },
        )
    }
}
