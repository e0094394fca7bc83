//! The layout of a wavelet tree, and when counting by it is faster than a walk: common to both devices.

use crate::device::data::matches::{Matches, Test};
use crate::error::Result;

/// How the ranks of `n` keys are split into digits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) n: usize,
    /// The bits of a rank.
    pub(crate) bits: u32,
    /// The low bits of a rank that are in no level: 7 or 8.
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

    /// The number of levels.
    pub(crate) fn levels(&self) -> u32 {
        (self.bits - self.low_bits) / DIGIT_BITS
    }

    /// The number of bits below the digit of a level.
    pub(crate) fn shift(&self, level: u32) -> u32 {
        self.bits - (level + 1) * DIGIT_BITS
    }

    /// The number of blocks in a level.
    pub(crate) fn blocks(&self) -> usize {
        self.n.div_ceil(BLOCK)
    }
}

/// The costs of a walk over zone maps and of a wavelet tree, measured on one machine. Only their ratios matter.
#[derive(Debug)]
pub(crate) struct Costs {
    /// One probe key compared with a leaf.
    pub(crate) leaf_test: f64,
    /// The fixed cost of a tree.
    pub(crate) begin: f64,
    /// The build of the tree, for each build position.
    pub(crate) build: f64,
    /// A count, for each probe position.
    pub(crate) count: f64,
}

impl Costs {
    /// The cost of counting by a wavelet tree; `None` if it cannot be used.
    ///
    /// It is not used for existence. There the zone of a block within a row's range tells whether the block has a
    /// match, so a walk that stops at the first match takes O(log n) for every row.
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

    /// Whether a walk over the zone maps is estimated to cost more than `other`. `leaf_tests` estimates the number of
    /// leaf tests; it is called only if the walk could cost that much at all. A leaf that one test leaves undecided
    /// mostly has keys for the next test, too, so every test counts.
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

/// Positions of a block: one bit each in the word of a plane.
pub(crate) const BLOCK: usize = 64;

/// The bits of a digit.
pub(crate) const DIGIT_BITS: u32 = 2;

/// The least number of bits of a rank: a tree of fewer gains nothing. On a GPU one thread block builds the levels of
/// this number of bits.
pub(crate) const LEAST_BITS: u32 = 12;
