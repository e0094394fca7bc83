//! Chooses the technique of a set join on a GPU, unless the option names one. A profile of both sides enters.
//!
//! | condition | technique | reason |
//! |---|---|---|
//! | at most 2²⁰ pairs of sets of 4096 elements or more on average, both sides together | `intersect` | few pairs, each worth several blocks |
//! | containment | `rarest` | the rarest element of a set is in few others |
//! | 2²⁶ pairs or more, a universe of at most 65,536 elements | `prefix`, `inverted_index` or `matrix` | by [their costs](super::costs) |
//! | else, a universe of at most 4096 elements of which the average set has a sixteenth or more | `matrix` | lists would be longer than rows of bits |
//! | sets of average size must share less than two fifths of their elements | `inverted_index` | its cost does not depend on the threshold |
//! | anything else | `prefix` | prefixes are short, and their elements rare |
//!
//! Containment by the rarest element takes 0.2 ms in 10⁵ sets of 10 elements on an H200, and 0.4 ms in sets of 50, at
//! 15 to 25 G candidates a second. By tiles of signatures it takes 4.5 ms and 1.4 ms, at 1 to 4 T pairs a second.
//!
//! `signature` is used only if the option names it, or if rows of bits do not fit. Where they were measured, tiles of
//! signatures take 1.3 to 8.1 times as long as the best technique (`docs/benchmarks/cuda/sets-techniques.csv`), and far
//! longer by forecast where frequent elements fill signatures.

use crate::device::cuda::sets::techniques::bit_rows::words_for;
use crate::ir::set_predicate::{SetTechnique, SetTest};

/// `intersect`: pairs of sets, at most, and elements of an average set of each side, both together, at least.
const FEW_PAIRS: u64 = 1 << 20;
const MANY_ELEMENTS: u64 = 1 << 12;

/// `matrix`: a dense set has one in `DENSE` elements of the universe, at least, and a small universe has this many, at
/// most.
const DENSE: u64 = 16;
const SMALL_UNIVERSE: u64 = 1 << 12;

/// Below this share of common elements in two average sets `inverted_index` is chosen: prefixes would be long.
const LOW_OVERLAP: f64 = 0.4;

/// Pairs, at least, and elements of the universe, at most, for which costs are estimated.
const MANY_PAIRS: u64 = 1 << 26;
const COUNTED_UNIVERSE: u64 = 1 << 16;

/// Rows of bits may take one `MEMORY_SHARE`th of the free memory.
const MEMORY_SHARE: u64 = 4;

/// What the choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profile {
    /// Sets of the indexed side, and rows of the probe side.
    pub indexed: u64,
    pub probe: u64,
    /// Elements of an average set of each side.
    pub mean_indexed: u64,
    pub mean_probe: u64,
    /// Distinct elements of the indexed side.
    pub universe: u64,
    /// Free bytes of the memory budget.
    pub available: u64,
}

/// Probe sets whose rows of bits must fit together, at most.
const MOST_PROBE_SETS: u64 = 1 << 20;

impl Profile {
    fn pairs(&self) -> u64 {
        self.indexed.saturating_mul(self.probe)
    }

    /// Whether rows of bits of both sides fit.
    pub(crate) fn bits_fit(&self) -> bool {
        let row = words_for(self.universe as usize) as u64 * 4;
        // More probe sets are cut into join tiles.
        let sets = self.indexed.saturating_add(self.probe.min(MOST_PROBE_SETS));
        sets.saturating_mul(row) <= self.available / MEMORY_SHARE
    }

    /// Elements of an average set of the side with the smaller ones, at least 1.
    pub(crate) fn mean(&self) -> u64 {
        self.mean_indexed.min(self.mean_probe).max(1)
    }

    /// The share of their elements that two average sets must have in common, 1 for containment.
    pub(crate) fn least_share(&self, test: SetTest) -> f64 {
        let mean = self.mean();
        let least = test.least_overlap(mean, mean);
        least.map_or(1.0, |least| least as f64 / mean as f64)
    }
}

/// The technique for `test`: `wanted` or, if it cannot serve, the nearest that can; without `wanted` the best by rule.
/// `None` if [costs](super::costs) are to decide.
pub(crate) fn choose(
    wanted: Option<SetTechnique>,
    test: SetTest,
    profile: &Profile,
) -> Option<SetTechnique> {
    Some(match wanted.or_else(|| best(test, profile))? {
        // Only a set that contains another one must have its rarest element.
        SetTechnique::Rarest if !test.is_containment() => SetTechnique::Prefix,
        // A universe too large for one bit per element has hashed bits.
        SetTechnique::Bitmap | SetTechnique::Matrix if !profile.bits_fit() => {
            SetTechnique::Signature
        }
        technique => technique,
    })
}

fn best(test: SetTest, profile: &Profile) -> Option<SetTechnique> {
    let elements = profile.mean_probe.max(1) + profile.mean_indexed.max(1);
    if profile.pairs() <= FEW_PAIRS && elements >= MANY_ELEMENTS {
        return Some(SetTechnique::Intersect);
    }
    if test.is_containment() {
        return Some(SetTechnique::Rarest);
    }
    if profile.pairs() >= MANY_PAIRS && profile.universe <= COUNTED_UNIVERSE {
        return None;
    }
    if profile.universe <= SMALL_UNIVERSE && profile.mean() * DENSE >= profile.universe {
        return Some(SetTechnique::Matrix);
    }
    Some(match profile.least_share(test) < LOW_OVERLAP {
        true => SetTechnique::InvertedIndex,
        false => SetTechnique::Prefix,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::set_predicate::{SetMeasure, SetPredicate};
    use crate::ir::side::Side;

    const USUAL: Profile = Profile {
        indexed: 100_000,
        probe: 100_000,
        mean_indexed: 10,
        mean_probe: 10,
        universe: 500_000,
        available: 1 << 30,
    };

    fn jaccard(threshold: f64) -> SetTest {
        let predicate = SetPredicate::degree(SetMeasure::Jaccard, threshold, false);
        predicate.unwrap().seen_from(Side::Left)
    }

    #[test]
    fn the_rule() {
        let contains = SetPredicate::Contains(Side::Right).seen_from(Side::Left);
        let overlap = SetPredicate::Overlap(5).seen_from(Side::Left);
        let longer = Profile {
            mean_indexed: 50,
            mean_probe: 50,
            ..USUAL
        };
        let longest = Profile {
            mean_indexed: 800,
            mean_probe: 800,
            ..USUAL
        };
        let few = Profile {
            indexed: 100,
            probe: 100,
            mean_indexed: 1_000_000,
            mean_probe: 1_000_000,
            universe: 10_000_000,
            available: 1 << 30,
        };
        let dense = Profile {
            indexed: 5_000,
            probe: 5_000,
            universe: 100,
            ..USUAL
        };
        let counted = Profile {
            universe: 50_000,
            ..USUAL
        };
        use crate::ir::set_predicate::SetTechnique::*;
        for (test, profile, technique) in [
            (contains, USUAL, Rarest),
            (contains, dense, Rarest),
            (contains, few, Intersect),
            (jaccard(0.9), USUAL, Prefix),
            (jaccard(0.5), USUAL, Prefix),
            (overlap, USUAL, Prefix),
            (jaccard(0.1), USUAL, InvertedIndex),
            (overlap, longer, InvertedIndex),
            (jaccard(0.9), longer, Prefix),
            (jaccard(0.5), longer, Prefix),
            (jaccard(0.5), longest, Prefix),
            (contains, longest, Rarest),
            (jaccard(0.9), dense, Matrix),
            (jaccard(0.1), few, Intersect),
        ] {
            let chosen = choose(None, test, &profile);
            assert_eq!(chosen, Some(technique), "{test:?} {profile:?}");
        }
        assert_eq!(choose(None, jaccard(0.5), &counted), None);
        assert_eq!(choose(None, contains, &counted), Some(Rarest));
        assert_eq!(choose(Some(Bitmap), overlap, &dense), Some(Bitmap));
    }

    #[test]
    fn what_cannot_serve_is_replaced_by_the_nearest() {
        let wide = Profile {
            universe: 1 << 30,
            ..USUAL
        };
        let of = |wanted, profile| choose(Some(wanted), jaccard(0.5), profile);
        assert_eq!(of(SetTechnique::Rarest, &USUAL), Some(SetTechnique::Prefix));
        assert_eq!(
            of(SetTechnique::Matrix, &wide),
            Some(SetTechnique::Signature)
        );
        let small = Profile {
            universe: 1000,
            ..USUAL
        };
        assert_eq!(of(SetTechnique::Bitmap, &small), Some(SetTechnique::Bitmap));
    }
}
