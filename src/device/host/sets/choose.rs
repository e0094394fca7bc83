//! The rule that chooses a technique if `bowtie.set_strategy` does not. In: a profile of both sides. Out: a technique.
//!
//! | where | technique | why |
//! |---|---|---|
//! | at most 2²⁰ pairs of sets, with a sum of both sides' mean sizes of 4096 elements or more | `intersect` | few pairs, each worth several threads |
//! | equal keys after which no more pairs than sets remain | `intersect` | an index would hardly be used |
//! | containment | `rarest` | the rarest element of a set has few postings |
//! | a universe of at most 4096 elements, a mean set of a sixteenth of it or more, and a least overlap of mean sets below nine tenths | `bitmap` | postings would be longer than rows of bits |
//! | a mean set of 32 to 256 elements and a hundredth of the universe or more, and a least overlap of mean sets of two fifths to nine tenths | `signature` | prefixes have frequent elements, hence many candidates; signatures are not full |
//! | a least overlap of mean sets of two fifths or more | `prefix` | prefixes are short, and their elements rare |
//! | otherwise | `inverted_index` | counts overlaps, at a cost that does not depend on the threshold |

use crate::device::host::sets::techniques::binary_matrix::BinaryMatrix;
use crate::device::set_profile::{LOW_OVERLAP, SetProfile, nearest};
use crate::ir::set_predicate::{SetTechnique, SetTest};

/// The share of common elements in two average sets from which prefixes are shorter than rows of bits.
const HIGH_OVERLAP: f64 = 0.9;

/// Mean set sizes that signatures can tell apart; and the share of the universe (one in `FREQUENT`) from which prefixes
/// have frequent elements.
const SIGNED: std::ops::RangeInclusive<u64> = 32..=256;
const FREQUENT: u64 = 100;

/// The most bytes of rows of bits.
const MOST_BITS: u64 = 1 << 32;

/// Properties of both sides that the rule depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profile {
    pub sets: SetProfile,
    /// The number of equal-sized groups that would leave as many pairs. Only rows of the same group match.
    pub groups: u64,
}

/// The technique for `test`: `wanted`, or the nearest one that supports the test and the sets; without `wanted`, the
/// one estimated best.
pub(crate) fn choose(
    wanted: Option<SetTechnique>,
    test: SetTest,
    profile: &Profile,
) -> SetTechnique {
    let row = BinaryMatrix::words_for(profile.sets.universe as usize) as u64 * 8;
    let bits_fit = profile.sets.indexed.saturating_mul(row) <= MOST_BITS;
    match wanted {
        None => best(test, profile),
        Some(wanted) => nearest(wanted, test, bits_fit),
    }
}

fn best(test: SetTest, Profile { sets, groups }: &Profile) -> SetTechnique {
    if sets.has_few_long_pairs() {
        return SetTechnique::Intersect;
    }
    if *groups > 1 && sets.pairs() / groups <= sets.indexed + sets.probe {
        return SetTechnique::Intersect;
    }
    if test.is_containment() {
        return SetTechnique::Rarest;
    }
    let share = sets.minimum_share(test);
    if sets.is_dense() && share < HIGH_OVERLAP {
        return SetTechnique::Bitmap;
    }
    if share < LOW_OVERLAP {
        return SetTechnique::InvertedIndex;
    }
    let mean = sets.mean();
    let frequent = mean * FREQUENT >= sets.universe && SIGNED.contains(&mean);
    if frequent && share < HIGH_OVERLAP {
        SetTechnique::Signature
    } else {
        SetTechnique::Prefix
    }
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
        universe: 50_000,
    };

    fn jaccard(threshold: f64) -> SetTest {
        let predicate = SetPredicate::degree(SetMeasure::Jaccard, threshold, false);
        predicate.unwrap().seen_from(Side::Left)
    }

    #[test]
    fn the_rule() {
        let contains = SetPredicate::Contains(Side::Right).seen_from(Side::Left);
        let few = SetProfile {
            indexed: 100,
            probe: 100,
            mean_indexed: 1_000_000,
            mean_probe: 1_000_000,
            universe: 10_000_000,
        };
        let keyed = |groups| Profile {
            groups,
            sets: USUAL,
        };
        let alone = |sets| Profile { groups: 1, sets };
        let dense = SetProfile {
            universe: 100,
            ..USUAL
        };
        // The profile of DBLP.
        let frequent = SetProfile {
            mean_indexed: 88,
            mean_probe: 88,
            universe: 7_205,
            ..USUAL
        };
        for (test, profile, technique) in [
            (jaccard(0.1), alone(frequent), SetTechnique::InvertedIndex),
            (jaccard(0.5), alone(frequent), SetTechnique::Signature),
            (jaccard(0.7), alone(frequent), SetTechnique::Signature),
            (jaccard(0.9), alone(frequent), SetTechnique::Prefix),
            (contains, alone(frequent), SetTechnique::Rarest),
            (contains, alone(USUAL), SetTechnique::Rarest),
            (contains, alone(few), SetTechnique::Intersect),
            (contains, keyed(50_000), SetTechnique::Intersect),
            (contains, keyed(1_000), SetTechnique::Rarest),
            (jaccard(0.9), alone(USUAL), SetTechnique::Prefix),
            (jaccard(0.1), alone(USUAL), SetTechnique::InvertedIndex),
            (jaccard(0.3), alone(USUAL), SetTechnique::Prefix),
            (jaccard(0.5), alone(dense), SetTechnique::Bitmap),
            (jaccard(0.9), alone(dense), SetTechnique::Prefix),
            (jaccard(0.1), alone(few), SetTechnique::Intersect),
        ] {
            assert_eq!(
                choose(None, test, &profile),
                technique,
                "{test:?} {profile:?}"
            );
        }
    }

    /// What stands in `techniques/published/`.
    #[test]
    fn the_matrix_is_for_the_option() {
        for sets in of_all_sizes() {
            for threshold in [0.1, 0.5, 0.9] {
                let profile = Profile { groups: 1, sets };
                let best = best(jaccard(threshold), &profile);
                assert_ne!(best, SetTechnique::Matrix, "{sets:?}");
            }
        }
    }

    #[test]
    fn what_cannot_serve_is_replaced_by_the_nearest() {
        let wide = SetProfile {
            universe: 1 << 30,
            ..USUAL
        };
        let of = |wanted, sets| choose(Some(wanted), jaccard(0.5), &Profile { groups: 1, sets });
        assert_eq!(of(SetTechnique::Rarest, USUAL), SetTechnique::Prefix);
        assert_eq!(of(SetTechnique::Matrix, wide), SetTechnique::Signature);
        assert_eq!(of(SetTechnique::Bitmap, USUAL), SetTechnique::Bitmap);
    }
}
