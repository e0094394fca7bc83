//! A wavelet tree's layout, and when counting by it is faster than a walk: what both devices share.

use crate::device::data::matches::{Matches, Test};
use crate::error::Result;

/// How the ranks of `n` keys are cut into digits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) n: usize,
    /// Bits of a rank.
    pub(crate) bits: u32,
    /// Bits of it that no level has: 7 or 8.
    pub(crate) low_bits: u32,
}

impl Layout {
    pub(crate) fn of(n: usize) -> Self {
        let bits = (usize::BITS - n.saturating_sub(1).leading_zeros()).max(LEAST_BITS);
        Self {
            n,
            bits,
            low_bits: 8 - bits % DIGIT_BITS,
        }
    }

    pub(crate) fn levels(&self) -> u32 {
        (self.bits - self.low_bits) / DIGIT_BITS
    }

    /// Bits below the digit of a level.
    pub(crate) fn shift(&self, level: u32) -> u32 {
        self.bits - (level + 1) * DIGIT_BITS
    }

    /// Blocks of a level.
    pub(crate) fn blocks(&self) -> usize {
        self.n.div_ceil(BLOCK)
    }
}

/// What a walk over zone maps costs, and what the index does, measured on one machine: only their ratios matter.
#[derive(Debug)]
pub(crate) struct Costs {
    /// One key of the searching side compared with a leaf.
    pub(crate) leaf_test: f64,
    /// To begin.
    pub(crate) begin: f64,
    /// To build the index, for each sorted position.
    pub(crate) build: f64,
    /// To count, for each searching position.
    pub(crate) count: f64,
}

impl Costs {
    /// What counting by the index costs; `None` where it cannot serve.
    ///
    /// It does not where one match a row is enough. The zone of a block that lies inside of a row's range says whether the
    /// block has a match, so a walk that ends there takes O(log n) for every row.
    pub(crate) fn index(
        &self,
        matches: Matches<'_>,
        exists_only: bool,
        built: impl FnOnce(&Test<'_>) -> Result<bool>,
    ) -> Result<Option<f64>> {
        let [test] = matches.tests else {
            return Ok(None);
        };
        if exists_only || !test.op.is_inequality() {
            return Ok(None);
        }
        let (n, m) = (matches.build.len() as f64, matches.ranges.rows() as f64);
        let build = match built(test)? {
            true => 0.0,
            false => self.build * n,
        };
        Ok(Some(self.begin + build + self.count * m))
    }

    /// Whether a walk over the zone maps is expected to cost more than `other`. `leaf_tests` says how many leaves it is
    /// expected to test; it is only asked where the walk could cost that much at all. A leaf that one test leaves undecided
    /// mostly has keys for the next one too, so each test counts.
    pub(crate) fn walk_exceeds(
        &self,
        other: f64,
        matches: Matches<'_>,
        leaf_tests: impl FnOnce() -> Result<f64>,
    ) -> Result<bool> {
        let (n, m) = (matches.build.len() as f64, matches.ranges.rows() as f64);
        let leaf = self.leaf_test * matches.tests.len() as f64;
        let most = (n / BLOCK as f64).ceil() * m;
        Ok(most * leaf > other && leaf_tests()? * leaf > other)
    }
}

/// Positions of a block, as many as a plane has bits in a word.
pub(crate) const BLOCK: usize = 64;

/// Bits of a digit.
pub(crate) const DIGIT_BITS: u32 = 2;

/// Fewer bits are not worth a tree; on a GPU one block of threads makes the levels of so many.
pub(crate) const LEAST_BITS: u32 = 12;
