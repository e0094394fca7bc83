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
use crate::ir::set_predicate::{SetTechnique, SetTest};

/// The most pairs that are few.
const FEW_PAIRS: u64 = 1 << 20;

/// The least sum of mean set sizes that is long.
const MANY_ELEMENTS: u64 = 1 << 12;

/// The most elements of a small universe.
const SMALL_UNIVERSE: u64 = 1 << 12;

/// Sets are dense if the mean set has at least this share of the universe: numerator, denominator.
const DENSE: (u64, u64) = (1, 16);

/// The least overlap of mean sets, as a share of their size, from which prefixes are short; and from which they are
/// shorter than rows of bits.
const HIGH_OVERLAP: f64 = 0.4;
const VERY_HIGH_OVERLAP: f64 = 0.9;

/// Mean set sizes that signatures can tell apart; and the share of the universe (one in `FREQUENT`) from which prefixes
/// have frequent elements.
const SIGNED: std::ops::RangeInclusive<u64> = 32..=256;
const FREQUENT: u64 = 100;

/// The most bytes of rows of bits.
const MOST_BITS: u64 = 1 << 32;

/// Properties of both sides that the rule depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profile {
    pub indexed: u64,
    pub probe: u64,
    /// The mean set size of each side.
    pub mean_indexed: u64,
    pub mean_probe: u64,
    /// Distinct elements of the indexed side.
    pub universe: u64,
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
    let row = BinaryMatrix::words_for(profile.universe as usize) as u64 * 8;
    let bits_fit = profile.indexed.saturating_mul(row) <= MOST_BITS;
    match wanted {
        None => best(test, profile),
        // Only a containing set always has the rarest element of the other.
        Some(SetTechnique::Rarest) if !test.is_containment() => SetTechnique::Prefix,
        // If the universe is too large for one bit an element, elements are hashed to bits.
        Some(SetTechnique::Bitmap | SetTechnique::Matrix) if !bits_fit => SetTechnique::Signature,
        Some(wanted) => wanted,
    }
}

fn best(test: SetTest, profile: &Profile) -> SetTechnique {
    let pairs = profile.indexed.saturating_mul(profile.probe);
    let (mean_probe, mean_indexed) = (profile.mean_probe.max(1), profile.mean_indexed.max(1));
    if pairs <= FEW_PAIRS && mean_probe + mean_indexed >= MANY_ELEMENTS {
        return SetTechnique::Intersect;
    }
    if profile.groups > 1 && pairs / profile.groups <= profile.indexed + profile.probe {
        return SetTechnique::Intersect;
    }
    if test.is_containment() {
        return SetTechnique::Rarest;
    }
    let mean = mean_indexed.min(mean_probe);
    let share = match test.least_overlap(mean, mean) {
        Some(least) => least as f64 / mean as f64,
        None => 1.0,
    };
    let (part, whole) = DENSE;
    let dense = profile.universe <= SMALL_UNIVERSE && mean * whole >= profile.universe * part;
    if dense && share < VERY_HIGH_OVERLAP {
        return SetTechnique::Bitmap;
    }
    if share < HIGH_OVERLAP {
        return SetTechnique::InvertedIndex;
    }
    let frequent = mean * FREQUENT >= profile.universe && SIGNED.contains(&mean);
    match frequent && share < VERY_HIGH_OVERLAP {
        true => SetTechnique::Signature,
        false => SetTechnique::Prefix,
    }
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
        universe: 50_000,
        groups: 1,
    };

    fn jaccard(threshold: f64) -> SetTest {
        let predicate = SetPredicate::degree(SetMeasure::Jaccard, threshold, false);
        predicate.unwrap().seen_from(Side::Left)
    }

    #[test]
    fn the_rule() {
        let contains = SetPredicate::Contains(Side::Right).seen_from(Side::Left);
        let few = Profile {
            indexed: 100,
            probe: 100,
            mean_indexed: 1_000_000,
            mean_probe: 1_000_000,
            universe: 10_000_000,
            groups: 1,
        };
        let keyed = |groups| Profile { groups, ..USUAL };
        let dense = Profile {
            universe: 100,
            ..USUAL
        };
        // The profile of DBLP.
        let frequent = Profile {
            mean_indexed: 88,
            mean_probe: 88,
            universe: 7_205,
            ..USUAL
        };
        for (test, profile, technique) in [
            (jaccard(0.1), frequent, SetTechnique::InvertedIndex),
            (jaccard(0.5), frequent, SetTechnique::Signature),
            (jaccard(0.7), frequent, SetTechnique::Signature),
            (jaccard(0.9), frequent, SetTechnique::Prefix),
            (contains, frequent, SetTechnique::Rarest),
            (contains, USUAL, SetTechnique::Rarest),
            (contains, few, SetTechnique::Intersect),
            (contains, keyed(50_000), SetTechnique::Intersect),
            (contains, keyed(1_000), SetTechnique::Rarest),
            (jaccard(0.9), USUAL, SetTechnique::Prefix),
            (jaccard(0.1), USUAL, SetTechnique::InvertedIndex),
            (jaccard(0.3), USUAL, SetTechnique::Prefix),
            (jaccard(0.5), dense, SetTechnique::Bitmap),
            (jaccard(0.9), dense, SetTechnique::Prefix),
            (jaccard(0.1), few, SetTechnique::Intersect),
        ] {
            assert_eq!(
                choose(None, test, &profile),
                technique,
                "{test:?} {profile:?}"
            );
        }
    }

    #[test]
    fn what_cannot_serve_is_replaced_by_the_nearest() {
        let wide = Profile {
            universe: 1 << 30,
            ..USUAL
        };
        let of = |wanted, profile| choose(Some(wanted), jaccard(0.5), profile);
        assert_eq!(of(SetTechnique::Rarest, &USUAL), SetTechnique::Prefix);
        assert_eq!(of(SetTechnique::Matrix, &wide), SetTechnique::Signature);
        assert_eq!(of(SetTechnique::Bitmap, &USUAL), SetTechnique::Bitmap);
    }
}
