//! A predicate on sets, and what kernels are given by value (`kernels/sets/set.cuh`, `kernels/sets/set_verify.cuh`).

use crate::device::cuda::runtime::launch::{Arg, Structure};
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::ir::set_predicate::{SetMeasure, SetPredicate, SetTest};

/// A predicate as kernels take it: the threshold decides, `p / q` filters.
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

/// What `p / q` counts in where it stands for a threshold.
const FRACTION: u32 = 1 << 30;

impl Measure {
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
                // One part less: degrees are rounded by far less than that.
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

    pub(crate) fn structure(&self) -> Structure<3> {
        Structure([
            Arg::from((self.kind, self.strict)),
            Arg::from((self.p, self.q)),
            Arg::from(self.threshold.to_bits()),
        ])
    }

    /// Whether the searching set must lie in the indexed one.
    pub(crate) fn is_contained(&self) -> bool {
        self.kind == CONTAINED
    }

    /// The same the other way round.
    pub(crate) fn is_contains(&self) -> bool {
        self.kind == CONTAINS
    }
}

/// Where kernels hand out matches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// By searching position.
    pub(crate) counts: &'a Memory,
    /// By indexed position, where they are wanted.
    pub(crate) indexed: Option<&'a Memory>,
    /// Room for pairs, where they are wanted, and for how many.
    pub(crate) pairs: Option<Part<'a>>,
    pub(crate) capacity: u64,
    /// Pairs and verified candidates.
    pub(crate) totals: &'a Memory,
}

/// The pairs that are tested where both sides are the same sets: each once, as a set and those that stand behind it, or before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Half {
    later: bool,
    /// Whether only sets of one size match in both ways: see `host/sets/self_join.rs`.
    of_one_size: bool,
}

impl Half {
    pub(crate) fn of(measure: &Measure) -> Self {
        Self {
            later: !measure.is_contains(),
            of_one_size: measure.is_contained() || measure.is_contains(),
        }
    }

    /// Where windows begin or end: see `set_matches_windows`.
    pub(crate) fn of_windows(half: Option<Self>) -> u32 {
        half.map_or(0, |half| if half.later { 1 } else { 2 })
    }

    /// When a match is one the other way round, too: `Mirror` of `kernels/sets/set_verify.cuh`.
    fn mirror(half: Option<Self>) -> u32 {
        half.map_or(0, |half| if half.of_one_size { 2 } else { 1 })
    }
}

/// All that decides on pairs, for launches that begin with a searching set.
pub(crate) fn join(
    (measure, half): (&Measure, Option<Half>),
    probe: &Sets,
    first: usize,
    indexed: &Sets,
    to: &Target<'_>,
) -> Structure<17> {
    let [s0, s1, s2, s3] = probe.structure_from(first).0;
    let [i0, i1, i2, i3] = indexed.structure().0;
    let [m0, m1, m2] = measure.structure().0;
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
        to.pairs.map_or(Arg::from(0u64), Arg::from),
        to.capacity.into(),
        to.totals.into(),
        Arg::from((Half::mirror(half), u32::from(indexed.by_group.is_some()))),
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
