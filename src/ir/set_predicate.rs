//! Set joins: the predicates on two lists as sets of their elements.
//!
//! A predicate is equivalent to a least overlap for the sizes of two sets (\[B\]'s *equivalent overlap*, table 4.1),
//! which also bounds the sizes that may match. No separate formula decides: [`SetMeasure::degree`] is the expression
//! that the SQL function evaluates for two rows, and the least overlap is the least for which it passes the threshold.
//! A join therefore finds exactly the matches for which DataFusion's filter is true, to the last bit. As `p / q` in
//! floats is the float nearest to the fraction, and the threshold is the float nearest to its digits, 7 of 10 passes
//! 0.7.

use std::fmt;

use crate::ir::side::Side;

/// The similarity of two sets, by the numbers of their distinct elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SetMeasure {
    /// `|a ∩ b| / |a ∪ b|`.
    Jaccard,
    /// `2 |a ∩ b| / (|a| + |b|)`.
    Dice,
    /// `|a ∩ b| / √(|a| |b|)`.
    Cosine,
    /// `|a ∩ b| / min(|a|, |b|)`, the degree of containment (\[B\] 6.1.2).
    Containment,
}

/// The value of a function of two sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SetValue {
    /// The number of common elements.
    Overlap,
    Degree(SetMeasure),
}

impl SetMeasure {
    /// The degree of two sets of `a` and `b` elements that share `overlap`: 0 to 1. It is 1 for equal sets, including
    /// empty ones; the empty set is contained in every set.
    ///
    /// It does not decrease as the overlap grows, nor increase as a set grows with the same overlap.
    pub(crate) fn degree(self, overlap: u64, a: u64, b: u64) -> f64 {
        let contained = self == Self::Containment;
        if (a == 0 && b == 0) || (contained && a.min(b) == 0) {
            return 1.0;
        }
        if overlap == 0 {
            return 0.0;
        }
        let shared = overlap as f64;
        match self {
            Self::Jaccard => shared / (a + b - overlap) as f64,
            Self::Dice => 2.0 * shared / (a + b) as f64,
            Self::Cosine => shared / (a as f64 * b as f64).sqrt(),
            Self::Containment => shared / a.min(b) as f64,
        }
    }

    /// The approximate overlap at which sets of `a` and `b` elements have `degree`.
    fn overlap_of(self, degree: f64, a: f64, b: f64) -> f64 {
        match self {
            Self::Jaccard => degree / (1.0 + degree) * (a + b),
            Self::Dice => degree * (a + b) / 2.0,
            Self::Cosine => degree * (a * b).sqrt(),
            Self::Containment => degree * a.min(b),
        }
    }
}

/// A condition on a left and a right set. It never holds for two non-empty sets without a common element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SetPredicate {
    /// The set of this side has every element of the other one.
    Contains(Side),
    /// The sets share at least this number of elements: one or more.
    Overlap(u64),
    /// The degree is at least the threshold; with `above`, greater.
    Degree {
        measure: SetMeasure,
        threshold: f64,
        above: bool,
    },
}

impl SetPredicate {
    /// `None` if sets without a common element would match.
    pub(crate) fn degree(measure: SetMeasure, threshold: f64, above: bool) -> Option<Self> {
        let predicate = Self::Degree {
            measure,
            threshold,
            above,
        };
        (threshold.is_finite() && !predicate.holds(0, 1, 1)).then_some(predicate)
    }

    /// Whether it holds for sets of `left` and `right` elements that share `overlap`.
    pub(crate) fn holds(&self, overlap: u64, left: u64, right: u64) -> bool {
        match *self {
            Self::Contains(Side::Left) => overlap >= right,
            Self::Contains(Side::Right) => overlap >= left,
            Self::Overlap(least) => overlap >= least,
            Self::Degree {
                measure,
                threshold,
                above,
            } => {
                let degree = measure.degree(overlap, left, right);
                match above {
                    true => degree > threshold,
                    false => degree >= threshold,
                }
            }
        }
    }

    /// The least overlap for which it holds, if there is one (\[B\]'s equivalent overlap).
    pub(crate) fn least_overlap(&self, left: u64, right: u64) -> Option<u64> {
        let most = left.min(right);
        let guess = match *self {
            Self::Contains(Side::Left) => right as f64,
            Self::Contains(Side::Right) => left as f64,
            Self::Overlap(least) => least as f64,
            Self::Degree {
                measure, threshold, ..
            } => measure.overlap_of(threshold, left as f64, right as f64),
        };
        // The guess differs by the rounding of floats at most: a step or two.
        let mut overlap = (guess.ceil().max(0.0) as u64).min(most);
        while overlap > 0 && self.holds(overlap - 1, left, right) {
            overlap -= 1;
        }
        while overlap < most && !self.holds(overlap, left, right) {
            overlap += 1;
        }
        self.holds(overlap, left, right).then_some(overlap)
    }

    /// The predicate with the side whose sets are indexed; the sets of the other side probe.
    pub(crate) fn seen_from(self, indexed: Side) -> SetTest {
        SetTest {
            predicate: self,
            indexed,
        }
    }
}

/// A predicate on a probe set and an indexed set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SetTest {
    pub predicate: SetPredicate,
    pub indexed: Side,
}

impl SetTest {
    fn sides(&self, probe: u64, indexed: u64) -> (u64, u64) {
        match self.indexed {
            Side::Left => (indexed, probe),
            Side::Right => (probe, indexed),
        }
    }

    /// Whether the indexed set must contain the probe set.
    pub(crate) fn indexed_contains(&self) -> bool {
        self.predicate == SetPredicate::Contains(self.indexed)
    }

    /// Whether one of the sets must contain the other.
    pub(crate) fn is_containment(&self) -> bool {
        matches!(self.predicate, SetPredicate::Contains(_))
    }

    /// Whether the predicate holds for sets of these sizes that share `overlap` elements.
    pub(crate) fn holds(&self, overlap: u64, probe: u64, indexed: u64) -> bool {
        let (left, right) = self.sides(probe, indexed);
        self.predicate.holds(overlap, left, right)
    }

    /// The least overlap of two sets of these sizes; `None` if no overlap suffices.
    pub(crate) fn least_overlap(&self, probe: u64, indexed: u64) -> Option<u64> {
        let (left, right) = self.sides(probe, indexed);
        self.predicate.least_overlap(left, right)
    }

    /// Whether a probe set and an indexed set of these sizes can match at all.
    pub(crate) fn may_hold(&self, probe: u64, indexed: u64) -> bool {
        self.holds(probe.min(indexed), probe, indexed)
    }

    /// The prefix length of an indexed set of `size`: every matching probe set has one of its first elements (\[B\]
    /// 4.1.2). The rarest elements come first.
    pub(crate) fn indexed_prefix(&self, size: u64) -> u64 {
        // A smaller probe set needs a smaller overlap, so the least size that may match decides.
        let (mut low, mut high) = (1, size);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.may_hold(middle, size) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        // If only larger sets match, such as those that contain it, the least overlap is the same for all of them.
        let least = match self.may_hold(low, size) {
            true => self.least_overlap(low, size),
            false => self.least_overlap(u64::from(u32::MAX), size),
        };
        least.map_or(0, |least| size + 1 - least.max(1).min(size))
    }

    /// The prefix length of a probe set, for candidates of at least `least_size` elements.
    pub(crate) fn probe_prefix(&self, size: u64, least_size: u64) -> u64 {
        match self.least_overlap(size, least_size) {
            Some(least) => size + 1 - least.max(1).min(size),
            None => size,
        }
    }
}

/// The algorithms of set joins. Names in parentheses are those of \[B\].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SetTechnique {
    /// An inverted index on prefixes with length and positional filters, then verification (PPJoin; \[B\] 4.1.2).
    Prefix,
    /// A static inverted index with overlap counts and the length filter alone (sf-gSSJoin; \[B\] 5.1.1).
    InvertedIndex,
    /// Hashed signatures reject pairs, the rest is verified (the bitmap filter; \[B\] 4.1.2).
    Signature,
    /// One bit for each element of a small universe, pair by pair (BI, naive; \[B\] 6.2.1).
    Bitmap,
    /// The product of both sides' binary matrices, by blocks (MM; \[B\] 6.2.2).
    Matrix,
    /// Overlaps in frequent elements as a matrix product, in rare ones from postings, or from the sets that are left (MMJoin; \[B\] 6.3.1).
    MmJoin,
    /// Containment: candidates by the rarest element of the contained set, a signature, then verification. No technique
    /// of \[B\].
    Rarest,
    /// Pair by pair, long pairs by several threads (IP-OBS; \[B\] 6.2.1).
    Intersect,
}

impl SetTechnique {
    pub(crate) const ALL: [Self; 8] = [
        Self::Prefix,
        Self::InvertedIndex,
        Self::Signature,
        Self::Bitmap,
        Self::Matrix,
        Self::MmJoin,
        Self::Rarest,
        Self::Intersect,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::InvertedIndex => "inverted_index",
            Self::Signature => "signature",
            Self::Bitmap => "bitmap",
            Self::Matrix => "matrix",
            Self::MmJoin => "mmjoin",
            Self::Rarest => "rarest",
            Self::Intersect => "intersect",
        }
    }
}

impl fmt::Display for SetTechnique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The set predicate of a join: on two list columns, or on a list column and a column of elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SetSpec {
    pub predicate: SetPredicate,
    /// By index in each side's input.
    pub left: usize,
    pub right: usize,
}

impl SetSpec {
    pub(crate) fn column(&self, side: Side) -> usize {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURES: [SetMeasure; 4] = [
        SetMeasure::Jaccard,
        SetMeasure::Dice,
        SetMeasure::Cosine,
        SetMeasure::Containment,
    ];

    fn predicates() -> Vec<SetPredicate> {
        let thresholds = [0.1, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0, 1.0 / 3.0, 1.1];
        let degrees = MEASURES.into_iter().flat_map(|measure| {
            let of = move |threshold| {
                [false, true].map(|above| SetPredicate::degree(measure, threshold, above))
            };
            thresholds.into_iter().flat_map(of).flatten()
        });
        let rest = [
            SetPredicate::Contains(Side::Left),
            SetPredicate::Contains(Side::Right),
            SetPredicate::Overlap(1),
            SetPredicate::Overlap(3),
        ];
        degrees.chain(rest).collect()
    }

    #[test]
    fn thresholds_are_met_as_their_digits_say() {
        let at = |measure, threshold| SetPredicate::degree(measure, threshold, false).unwrap();
        // 7 of 10.
        assert_eq!(at(SetMeasure::Jaccard, 0.7).least_overlap(10, 7), Some(7));
        assert_eq!(at(SetMeasure::Dice, 0.7).least_overlap(10, 10), Some(7));
        assert_eq!(at(SetMeasure::Cosine, 0.7).least_overlap(10, 10), Some(7));
        assert_eq!(
            at(SetMeasure::Containment, 0.7).least_overlap(10, 50),
            Some(7)
        );
        assert_eq!(at(SetMeasure::Jaccard, 0.7).least_overlap(17, 17), Some(14));
        assert_eq!(at(SetMeasure::Jaccard, 0.7).least_overlap(10, 6), None);
        let above = SetPredicate::degree(SetMeasure::Containment, 0.7, true).unwrap();
        assert_eq!(above.least_overlap(10, 50), Some(8));
        // The degree of every fraction passes the float nearest to it.
        for q in 1..200 {
            for p in 1..=q {
                let threshold = p as f64 / q as f64;
                let least = at(SetMeasure::Containment, threshold).least_overlap(q, 2 * q);
                assert_eq!(least, Some(p));
            }
        }
    }

    #[test]
    fn the_least_overlap_is_the_first_for_which_it_holds() {
        for predicate in predicates() {
            for left in 0..24 {
                for right in 0..24 {
                    let most = left.min(right);
                    let first = (0..=most).find(|o| predicate.holds(*o, left, right));
                    assert_eq!(
                        predicate.least_overlap(left, right),
                        first,
                        "{predicate:?} {left} {right}"
                    );
                    let from = first.unwrap_or(most + 1);
                    assert!((from..=most).all(|o| predicate.holds(o, left, right)));
                }
            }
        }
    }

    /// Matching sizes are contiguous, and prefixes are long enough for all of them.
    #[test]
    fn sizes_and_prefixes() {
        for predicate in predicates() {
            for indexed in [Side::Left, Side::Right] {
                let test = predicate.seen_from(indexed);
                for size in 1..24u64 {
                    let others: Vec<u64> = (1..60).filter(|o| test.may_hold(size, *o)).collect();
                    assert!(others.windows(2).all(|pair| pair[0] + 1 == pair[1]));
                    if let Some(least) = others.first() {
                        let prefix = test.probe_prefix(size, *least);
                        for other in &others {
                            let needed = test.least_overlap(size, *other).unwrap();
                            assert!(prefix >= size + 1 - needed, "{test:?} {size} {other}");
                        }
                    }
                    for other in (1..60).filter(|o| test.may_hold(*o, size)) {
                        let needed = test.least_overlap(other, size).unwrap();
                        assert!(
                            test.indexed_prefix(size) >= size + 1 - needed,
                            "{test:?} {size} {other}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn empty_sets() {
        for measure in MEASURES {
            assert_eq!(measure.degree(0, 0, 0), 1.0);
            let beside = if measure == SetMeasure::Containment {
                1.0
            } else {
                0.0
            };
            assert_eq!(measure.degree(0, 0, 5), beside);
            assert_eq!(measure.degree(0, 5, 5), 0.0);
            assert_eq!(measure.degree(5, 5, 5), 1.0);
        }
    }

    /// A predicate that sets without a common element satisfy is rejected.
    #[test]
    fn thresholds_that_everything_meets() {
        for measure in MEASURES {
            assert!(SetPredicate::degree(measure, 0.0, false).is_none());
            assert!(SetPredicate::degree(measure, -1.0, true).is_none());
            assert!(SetPredicate::degree(measure, f64::NAN, false).is_none());
            assert!(SetPredicate::degree(measure, 0.0, true).is_some());
        }
    }
}
