//! [`SetProfile`]: what the choice of a technique for a set join depends on, on every device. `sets/choose.rs` of each device has the rule.

use crate::ir::set_predicate::{SetTechnique, SetTest};

/// The most pairs that are few.
const FEW_PAIRS: u64 = 1 << 20;

/// The minimum of elements of an average set of each side, both together, that are many.
const MANY_ELEMENTS: u64 = 1 << 12;

/// The most elements of a small universe, and one in how many of them a dense set has at least.
const SMALL_UNIVERSE: u64 = 1 << 12;
const DENSE: u64 = 16;

/// Below this share of common elements in two average sets prefixes are long.
pub(crate) const LOW_OVERLAP: f64 = 0.4;

/// Both sides of a set join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetProfile {
    /// Sets of the indexed side, and rows of the probe side.
    pub indexed: u64,
    pub probe: u64,
    /// Elements of an average set of each side.
    pub mean_indexed: u64,
    pub mean_probe: u64,
    /// Distinct elements of the indexed side.
    pub universe: u64,
}

impl SetProfile {
    pub(crate) fn pairs(&self) -> u64 {
        self.indexed.saturating_mul(self.probe)
    }

    /// Elements of an average set of the side with the smaller ones, at least 1.
    pub(crate) fn mean(&self) -> u64 {
        self.mean_indexed.min(self.mean_probe).max(1)
    }

    /// The share of their elements that two average sets must have in common, 1 for containment.
    pub(crate) fn minimum_share(&self, test: SetTest) -> f64 {
        let mean = self.mean();
        let minimum = test.least_overlap(mean, mean);
        minimum.map_or(1.0, |minimum| minimum as f64 / mean as f64)
    }

    /// Whether there are few pairs, each of which is worth several threads or blocks.
    pub(crate) fn has_few_long_pairs(&self) -> bool {
        let elements = self.mean_probe.max(1) + self.mean_indexed.max(1);
        self.pairs() <= FEW_PAIRS && elements >= MANY_ELEMENTS
    }

    /// Whether lists of the sets of an element would be longer than rows of bits.
    pub(crate) fn is_dense(&self) -> bool {
        self.universe <= SMALL_UNIVERSE && self.mean() * DENSE >= self.universe
    }
}

/// Sides of all magnitudes, for tests of the rules.
#[cfg(test)]
pub(crate) fn of_all_sizes() -> impl Iterator<Item = SetProfile> {
    let magnitudes = || (0..8).map(|power| 10_u64.pow(power));
    magnitudes().flat_map(move |sets| {
        magnitudes().flat_map(move |mean| {
            magnitudes().map(move |universe| SetProfile {
                indexed: sets,
                probe: sets,
                mean_indexed: mean,
                mean_probe: mean,
                universe,
            })
        })
    })
}

/// `wanted` or, if it cannot serve, the nearest technique that can. `bits_fit`: whether rows of a bit per element fit memory.
pub(crate) fn nearest(wanted: SetTechnique, test: SetTest, bits_fit: bool) -> SetTechnique {
    match wanted {
        // Only a set that contains another one must have its rarest element.
        SetTechnique::Rarest if !test.is_containment() => SetTechnique::Prefix,
        // A universe too large for one bit per element has hashed bits.
        SetTechnique::Bitmap | SetTechnique::Matrix | SetTechnique::MmJoin if !bits_fit => {
            SetTechnique::Signature
        }
        wanted => wanted,
    }
}
