//! Which technique serves the sets at hand, when nobody says.
//!
//! | where | technique | why |
//! |---|---|---|
//! | at most 2²⁰ pairs of sets of 4096 elements or more on average, both sides together | `intersect` | few pairs, each worth several threads |
//! | equal keys that leave no more pairs than there are sets | `intersect` | an index would be asked for next to nothing |
//! | containment | `rarest` | the rarest element of a set leads to few others |
//! | a universe of at most 4096 elements of which the average set has a sixteenth or more, and sets of average size must share less than nine tenths | `bitmap` | postings would be longer than rows of bits |
//! | an average set of 32 to 256 elements, a hundredth of the universe or more, and sets of average size must share two fifths to nine tenths | `signature` | prefixes have frequent elements, and so many candidates; signatures are not full |
//! | sets of average size must share two fifths of their elements or more | `prefix` | prefixes are short, and their elements rare |
//! | anything else | `inverted_index` | overlaps are counted, whatever the threshold |

use crate::device::host::sets::techniques::binary_matrix::BinaryMatrix;
use crate::ir::set_predicate::{SetTechnique, SetTest};

/// Pairs of sets that are few.
const FEW_PAIRS: u64 = 1 << 20;

/// Elements of a set that are many.
const MANY_ELEMENTS: u64 = 1 << 12;

/// Elements of a small universe.
const SMALL_UNIVERSE: u64 = 1 << 12;

/// A dense set has so many elements of a universe of this.
const DENSE: (u64, u64) = (1, 16);

/// The shares of average sets that an overlap must be to make prefixes short, and to make them shorter than rows of bits.
const HIGH_OVERLAP: f64 = 0.4;
const VERY_HIGH_OVERLAP: f64 = 0.9;

/// Elements of average sets whose signatures tell them apart, and of what part of the universe they are where prefixes have frequent ones.
const SIGNED: std::ops::RangeInclusive<u64> = 32..=256;
const FREQUENT: u64 = 100;

/// Bytes of rows of bits that are made at most.
const MOST_BITS: u64 = 1 << 32;

/// What the choice goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profile {
    pub indexed: u64,
    pub probe: u64,
    /// Elements of an average set of each side.
    pub mean_indexed: u64,
    pub mean_probe: u64,
    /// Different elements of the indexed side.
    pub universe: u64,
    /// Groups of equal size that would leave as many pairs: only rows of one group match.
    pub groups: u64,
}

/// The technique for `test` on such sets: `wanted`, or the nearest that can serve them, or the one that should be best.
pub(crate) fn choose(
    wanted: Option<SetTechnique>,
    test: SetTest,
    profile: &Profile,
) -> SetTechnique {
    let row = BinaryMatrix::words_for(profile.universe as usize) as u64 * 8;
    let bits_fit = profile.indexed.saturating_mul(row) <= MOST_BITS;
    match wanted {
        None => best(test, profile),
        // Only what contains another set has its rarest element.
        Some(SetTechnique::Rarest) if !test.is_containment() => SetTechnique::Prefix,
        // A universe too large for a bit an element has hashed ones.
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
        // DBLP's.
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
