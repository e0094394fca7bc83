//! The predicate of a set join, and the structures that kernels take by value (`kernels/sets/set.cuh`,
//! `kernels/sets/set_verify.cuh`).

use crate::device::cuda::runtime::arguments::{Structure, U64};
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::ir::set_predicate::{SetMeasure, SetPredicate, SetTest};

/// A predicate as kernels take it: the fraction `p / q` filters candidates, the threshold decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measure {
    kind: u32,
    strict: u32,
    p: u32,
    q: u32,
    threshold: f64,
}

const CONTAINED: u32 = 0;
const CONTAINS: u32 = 1;
const OVERLAP: u32 = 2;

/// The denominator `q` of a fraction that approximates a threshold.
const FRACTION: u32 = 1 << 30;

impl Measure {
    /// The predicate of `test`, as seen from the indexed side.
    pub(crate) fn of(test: SetTest) -> Self {
        let exact = |kind, p| Self {
            kind,
            strict: 0,
            p,
            q: 1,
            threshold: 0.0,
        };
        match test.predicate {
            SetPredicate::Contains(side) if side == test.indexed => exact(CONTAINED, 0),
            SetPredicate::Contains(_) => exact(CONTAINS, 0),
            SetPredicate::Overlap(least) => {
                exact(OVERLAP, u32::try_from(least).unwrap_or(u32::MAX))
            }
            SetPredicate::Degree {
                measure,
                threshold,
                above,
            } => {
                // One `FRACTION`th less than the threshold: degrees are rounded by far less than that.
                let parts = (threshold * f64::from(FRACTION)).floor() - 1.0;
                Self {
                    kind: match measure {
                        SetMeasure::Jaccard => 3,
                        SetMeasure::Dice => 4,
                        SetMeasure::Cosine => 5,
                        SetMeasure::Containment => 6,
                    },
                    strict: u32::from(above),
                    p: parts.clamp(0.0, f64::from(FRACTION)) as u32,
                    q: FRACTION,
                    threshold,
                }
            }
        }
    }

    /// The `Measure` of the kernels.
    pub(crate) fn structure(&self) -> Structure<3> {
        Structure([
            U64::from((self.kind, self.strict)),
            U64::from((self.p, self.q)),
            U64::from(self.threshold.to_bits()),
        ])
    }

    /// Whether the probe set must be contained in the indexed one.
    pub(crate) fn is_contained(&self) -> bool {
        self.kind == CONTAINED
    }

    /// Whether the probe set must contain the indexed one.
    pub(crate) fn is_contains(&self) -> bool {
        self.kind == CONTAINS
    }
}

/// The output of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// Number of matches by probe position.
    pub(crate) counts: &'a Memory,
    /// Number of matches by indexed position, if wanted.
    pub(crate) indexed: Option<&'a Memory>,
    /// The buffer for pairs, if wanted, and the number of pairs that it holds.
    pub(crate) pairs: Option<Part<'a>>,
    pub(crate) capacity: u64,
    /// Two totals of 64 bits: pairs, and verified candidates.
    pub(crate) totals: &'a Memory,
    /// For how many equal sets each set of the probe side and of the indexed side counts, if not for one.
    pub(crate) weights: [Option<&'a Memory>; 2],
}

/// The half of the pairs that is tested in a self join: each pair once, as a set with those behind it in order, or with
/// those before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Half {
    /// Whether a set is tested with itself and those behind it.
    later: bool,
    /// Whether only sets of equal size match in both directions: see `host/sets/self_join.rs`.
    of_one_size: bool,
}

impl Half {
    /// The half for a predicate.
    pub(crate) fn of(measure: &Measure) -> Self {
        Self {
            later: !measure.is_contains(),
            of_one_size: measure.is_contained() || measure.is_contains(),
        }
    }

    /// The code of the half for `set_matches_windows`: 0 for all pairs, 1 for later sets, 2 for earlier ones.
    pub(crate) fn of_windows(half: Option<Self>) -> u32 {
        half.map_or(0, |half| if half.later { 1 } else { 2 })
    }

    /// When a match holds in the other direction too: `Mirror` of `kernels/sets/set_verify.cuh`.
    fn mirror(half: Option<Self>) -> u32 {
        half.map_or(0, |half| if half.of_one_size { 2 } else { 1 })
    }
}

/// `Join` of `kernels/sets/set_verify.cuh`.
pub(crate) type Join = Structure<19>;

/// The `Join` of the kernels: sets, predicate and output, for launches that begin at probe set `first`.
pub(crate) fn join(
    (measure, half): (&Measure, Option<Half>),
    probe: &Sets,
    first: usize,
    indexed: &Sets,
    to: &Target<'_>,
) -> Join {
    let [s0, s1, s2, s3] = probe.structure_from(first).0;
    let [i0, i1, i2, i3] = indexed.structure().0;
    let [m0, m1, m2] = measure.structure().0;
    let [of_probe, of_indexed] = to.weights;
    Structure([
        s0,
        s1,
        s2,
        s3,
        i0,
        i1,
        i2,
        i3,
        m0,
        m1,
        m2,
        to.counts.into(),
        to.indexed.into(),
        to.pairs.map_or(U64::ZERO, U64::from),
        to.capacity.into(),
        to.totals.into(),
        of_indexed.into(),
        of_probe.into(),
        U64::from((Half::mirror(half), u32::from(indexed.by_group.is_some()))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::side::Side;

    #[test]
    fn filters_are_a_little_below_the_threshold() {
        for threshold in [1e-12, 0.1, 0.3, 1.0 / 3.0, 0.7, 1.0, 1.5, 1e300] {
            for above in [false, true] {
                let predicate = SetPredicate::degree(SetMeasure::Jaccard, threshold, above);
                let measure = Measure::of(predicate.unwrap().seen_from(Side::Left));
                let fraction = f64::from(measure.p) / f64::from(measure.q);
                let least = threshold.min(1.0);
                assert!(fraction <= threshold && fraction > least - 3e-9);
                assert!(fraction < threshold || threshold > 1.0);
            }
        }
        let contains = SetPredicate::Contains(Side::Left);
        assert!(Measure::of(contains.seen_from(Side::Left)).is_contained());
        assert!(Measure::of(contains.seen_from(Side::Right)).is_contains());
    }
}
