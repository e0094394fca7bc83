//! Chooses the technique of a set join on a GPU, unless the option names one. A profile of both sides enters.
//!
//! | condition | technique | reason |
//! |---|---|---|
//! | at most 2²⁰ pairs of sets of 4096 elements or more on average, both sides together | `intersect` | few pairs, each worth several blocks |
//! | containment | `rarest` | the rarest element of a set is in few others |
//! | 2²⁶ pairs or more, a universe of at most 65,536 elements | `prefix`, `inverted_index`, `matrix` or `mmjoin` | by [their costs](super::costs) |
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
use crate::device::cuda::sets::techniques::mmjoin::MOST_HEAVY;
use crate::device::set_profile::{LOW_OVERLAP, SetProfile, nearest};
use crate::ir::set_predicate::{SetTechnique, SetTest};

/// Pairs, at least, and elements of the universe, at most, for which costs are estimated.
const MANY_PAIRS: u64 = 1 << 26;
const COUNTED_UNIVERSE: u64 = 1 << 16;

/// Rows of bits may take one `MEMORY_SHARE`th of the free memory.
const MEMORY_SHARE: u64 = 4;

/// What the choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profile {
    pub sets: SetProfile,
    /// Free bytes of the memory budget.
    pub available: u64,
}

/// Bytes of a set beside its row: what `mmjoin` keeps of its light elements.
const BESIDE: u64 = 20;

/// Probe sets whose rows of bits must fit together, at most.
const MOST_PROBE_SETS: u64 = 1 << 20;

impl Profile {
    /// Whether rows of bits of both sides fit.
    pub(crate) fn bits_fit(&self) -> bool {
        self.rows_fit(self.sets.universe as usize)
    }

    /// The same for rows of this number of elements, and some bytes beside.
    pub(crate) fn rows_fit(&self, elements: usize) -> bool {
        let row = words_for(elements) as u64 * 4 + BESIDE;
        // More probe sets are cut into join tiles.
        let probe = self.sets.probe.min(MOST_PROBE_SETS);
        let sets = self.sets.indexed.saturating_add(probe);
        sets.saturating_mul(row) <= self.available / MEMORY_SHARE
    }
}

/// The technique for `test`: `wanted` or, if it cannot serve, the nearest that can; without `wanted` the best by rule.
/// `None` if [costs](super::costs) are to decide.
pub(crate) fn choose(
    wanted: Option<SetTechnique>,
    test: SetTest,
    profile: &Profile,
) -> Option<SetTechnique> {
    let wanted = wanted.or_else(|| best(test, &profile.sets))?;
    let elements = match wanted {
        SetTechnique::MmJoin => MOST_HEAVY.min(profile.sets.universe as usize),
        _ => profile.sets.universe as usize,
    };
    Some(nearest(wanted, test, profile.rows_fit(elements)))
}

fn best(test: SetTest, sets: &SetProfile) -> Option<SetTechnique> {
    if sets.has_few_long_pairs() {
        return Some(SetTechnique::Intersect);
    }
    if test.is_containment() {
        return Some(SetTechnique::Rarest);
    }
    if sets.pairs() >= MANY_PAIRS && sets.universe <= COUNTED_UNIVERSE {
        return None;
    }
    if sets.is_dense() {
        return Some(SetTechnique::Matrix);
    }
    Some(if sets.minimum_share(test) < LOW_OVERLAP {
        SetTechnique::InvertedIndex
    } else {
        SetTechnique::Prefix
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::set_profile::of_all_sizes;
    use crate::ir::set_predicate::{SetMeasure, SetPredicate};
    use crate::ir::side::Side;

    const USUAL: SetProfile = SetProfile {
        indexed: 100_000,
        probe: 100_000,
        mean_indexed: 10,
        mean_probe: 10,
        universe: 500_000,
    };

    fn roomy(sets: SetProfile) -> Profile {
        Profile {
            sets,
            available: 1 << 30,
        }
    }

    fn jaccard(threshold: f64) -> SetTest {
        let predicate = SetPredicate::degree(SetMeasure::Jaccard, threshold, false);
        predicate.unwrap().seen_from(Side::Left)
    }

    #[test]
    fn the_rule() {
        let contains = SetPredicate::Contains(Side::Right).seen_from(Side::Left);
        let overlap = SetPredicate::Overlap(5).seen_from(Side::Left);
        let longer = SetProfile {
            mean_indexed: 50,
            mean_probe: 50,
            ..USUAL
        };
        let longest = SetProfile {
            mean_indexed: 800,
            mean_probe: 800,
            ..USUAL
        };
        let few = SetProfile {
            indexed: 100,
            probe: 100,
            mean_indexed: 1_000_000,
            mean_probe: 1_000_000,
            universe: 10_000_000,
        };
        let dense = SetProfile {
            indexed: 5_000,
            probe: 5_000,
            universe: 100,
            ..USUAL
        };
        let counted = SetProfile {
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
            let chosen = choose(None, test, &roomy(profile));
            assert_eq!(chosen, Some(technique), "{test:?} {profile:?}");
        }
        assert_eq!(choose(None, jaccard(0.5), &roomy(counted)), None);
        assert_eq!(choose(None, contains, &roomy(counted)), Some(Rarest));
        assert_eq!(choose(Some(Bitmap), overlap, &roomy(dense)), Some(Bitmap));
    }

    /// What stands in `techniques/published/`.
    #[test]
    fn signatures_are_for_the_option_or_where_bits_do_not_fit() {
        for sets in of_all_sizes() {
            for threshold in [0.1, 0.5, 0.9] {
                let best = best(jaccard(threshold), &sets);
                assert_ne!(best, Some(SetTechnique::Signature), "{sets:?}");
            }
        }
    }

    #[test]
    fn what_cannot_serve_is_replaced_by_the_nearest() {
        let wide = SetProfile {
            universe: 1 << 30,
            ..USUAL
        };
        let of = |wanted, sets| choose(Some(wanted), jaccard(0.5), &roomy(sets));
        assert_eq!(of(SetTechnique::Rarest, USUAL), Some(SetTechnique::Prefix));
        assert_eq!(
            of(SetTechnique::Matrix, wide),
            Some(SetTechnique::Signature)
        );
        let small = SetProfile {
            universe: 1000,
            ..USUAL
        };
        assert_eq!(of(SetTechnique::Bitmap, small), Some(SetTechnique::Bitmap));
    }
}
