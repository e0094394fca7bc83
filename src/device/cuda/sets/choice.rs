//! Which technique serves the sets at hand on a GPU, when nobody says.
//!
//! | where | technique | why |
//! |---|---|---|
//! | at most 2²⁰ pairs of sets of 4096 elements or more on average, both sides together | `intersect` | few pairs, each worth several blocks |
//! | containment | `rarest` | the rarest element of a set leads to few others |
//! | a universe of at most 4096 elements of which the average set has a sixteenth or more | `matrix` | lists would be longer than rows of bits |
//! | sets of average size share less than two fifths of their elements | `inverted_index` | overlaps are counted, whatever the threshold |
//! | anything else | `prefix` | prefixes are short, and their elements rare |
//!
//! Measured on an H200, self joins of 10⁵ sets, in ms:
//!
//! | mean set | predicate | prefix | inverted index | signature |
//! |---|---|---|---|---|
//! | 10 | Jaccard 0.9, 0.7, 0.5 | 0.1, 0.3, 1.2 | 3.2, 7.5, 11 | 2.6 (0.8), 6.2 (0.5) |
//! | 10 | overlap of 5 | 4.4 | 12 | 24 |
//! | 50 | Jaccard 0.9, 0.7, 0.5 | 1.8, 12, 45 | 39, 88, 95 | 8.2 (0.8), 21 (0.5) |
//! | 50 | overlap of 5 | 2190 | 103 | |
//!
//! Containment in the same sets takes 0.2 ms and 0.4 ms from the rarest element, at 15 to 25 G candidates a second, and 4.5 ms and
//! 1.4 ms by tiles of signatures, at 1 to 4 T pairs a second.
//!
//! Where tiles are faster, as at Jaccard 0.5 of 50 elements, they are so by half; where frequent elements fill signatures they take
//! 20 to 300 times as long (`docs/benchmarks.md`: clones of DBLP, ENRON, LIVEJOURNAL). So nobody but the user asks for them.

use super::bits::words_for;
use crate::spec::{SetTechnique, SetTest};

/// Pairs of sets that are few, and elements of a set that are many.
const FEW_PAIRS: u64 = 1 << 20;
const MANY_ELEMENTS: u64 = 1 << 12;

/// A dense set has one of so many elements of a universe that is small.
const DENSE: u64 = 16;
const SMALL_UNIVERSE: u64 = 1 << 12;

/// The share of average sets that an overlap must be.
const LOW_OVERLAP: f64 = 0.4;

/// The share of the room that rows of bits may take.
const ROOM_SHARE: u64 = 4;

/// What the choice goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Profile {
    pub indexed: u64,
    pub searching: u64,
    /// Elements of an average set of each side.
    pub mean_indexed: u64,
    pub mean_searching: u64,
    /// Different elements of the indexed side.
    pub universe: u64,
    /// Bytes that may be leased.
    pub room: u64,
}

/// The technique for `test` on such sets: `wanted`, or the nearest that can serve them, or the one that should be best.
pub(super) fn choose(
    wanted: Option<SetTechnique>,
    test: SetTest,
    profile: &Profile,
) -> SetTechnique {
    let row = words_for(profile.universe as usize) as u64 * 4;
    let sets = profile.indexed.saturating_add(profile.searching);
    let bits_fit = sets.saturating_mul(row) <= profile.room / ROOM_SHARE;
    match wanted.unwrap_or_else(|| best(test, profile)) {
        // Only what contains another set has its rarest element.
        SetTechnique::Rarest if !test.is_containment() => SetTechnique::Prefix,
        // A universe too large for a bit an element has hashed ones.
        SetTechnique::Bitmap | SetTechnique::Matrix if !bits_fit => SetTechnique::Signature,
        technique => technique,
    }
}

fn best(test: SetTest, profile: &Profile) -> SetTechnique {
    let pairs = profile.indexed.saturating_mul(profile.searching);
    let (searching, indexed) = (profile.mean_searching.max(1), profile.mean_indexed.max(1));
    if pairs <= FEW_PAIRS && searching + indexed >= MANY_ELEMENTS {
        return SetTechnique::Intersect;
    }
    if test.is_containment() {
        return SetTechnique::Rarest;
    }
    let mean = indexed.min(searching);
    if profile.universe <= SMALL_UNIVERSE && mean * DENSE >= profile.universe {
        return SetTechnique::Matrix;
    }
    let share = match test.least_overlap(mean, mean) {
        Some(least) => least as f64 / mean as f64,
        None => 1.0,
    };
    if share < LOW_OVERLAP {
        return SetTechnique::InvertedIndex;
    }
    SetTechnique::Prefix
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{SetMeasure, SetPredicate, Side};

    const USUAL: Profile = Profile {
        indexed: 100_000,
        searching: 100_000,
        mean_indexed: 10,
        mean_searching: 10,
        universe: 50_000,
        room: 1 << 30,
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
            mean_searching: 50,
            ..USUAL
        };
        let longest = Profile {
            mean_indexed: 800,
            mean_searching: 800,
            ..USUAL
        };
        let few = Profile {
            indexed: 100,
            searching: 100,
            mean_indexed: 1_000_000,
            mean_searching: 1_000_000,
            universe: 10_000_000,
            room: 1 << 30,
        };
        let dense = Profile {
            universe: 100,
            ..USUAL
        };
        use SetTechnique::*;
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
            assert_eq!(chosen, technique, "{test:?} {profile:?}");
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
        let small = Profile {
            universe: 1000,
            ..USUAL
        };
        assert_eq!(of(SetTechnique::Bitmap, &small), SetTechnique::Bitmap);
    }
}
