//! By which strategy a join runs, and which of its sides is the build side.

use datafusion::common::JoinType;

use crate::device::profile::DeviceProfile;
use crate::ir::set_predicate::{SetPredicate, SetSpec, SetTechnique};
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::options::BowtieOptions;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::statistics::statistics_cache::RowEstimate;
use crate::spec::join::{ColumnComparison, MatchMethod};

/// The side whose sets are indexed: the left one, which is gathered as a whole, unless only its rows' flags are needed.
pub(crate) fn indexed_side(source: &JoinSource) -> Side {
    match source.kind {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => Side::Right,
        _ => Side::Left,
    }
}

/// The technique of the options, or the one that stands in for it on every device. Which one a device replaces by its rows is not known yet.
pub(crate) fn technique(options: &BowtieOptions, set: &SetSpec) -> Option<SetTechnique> {
    options.set_strategy.0.map(|wanted| match set.predicate {
        SetPredicate::Contains(_) => wanted,
        // Only a set that contains the other one has its rarest element.
        SetPredicate::Overlap(_) | SetPredicate::Degree { .. } => match wanted {
            SetTechnique::Rarest => SetTechnique::Prefix,
            wanted => wanted,
        },
    })
}

/// Whether the left side has fewer rows than the right one, which is a single chunk. With a high fan-out each probe row repeats its values
/// in a slice of output, so that a shorter probe side writes less.
fn left_is_shorter((left, right): (RowEstimate, RowEstimate)) -> bool {
    // No device has shorter chunks, when memory allows.
    let one_chunk = *DeviceProfile::of_host(1).streamed_rows.start();
    match (left.rows(), right.rows()) {
        (Some(left), Some(right)) => left < right && right <= one_chunk,
        _ => false,
    }
}

/// The method and the build side for a condition. Where `bowtie.theta_strategy` names one that does not suit it, the natural one stands
/// in, as for the other families.
pub(crate) fn method(
    options: &BowtieOptions,
    source: &JoinSource,
    comparisons: &[ColumnComparison],
    rows: (RowEstimate, RowEstimate),
) -> (MatchMethod, Side) {
    // Only all pairs of equal keys can be tested in place of an equi-join.
    let theta = options.theta_strategy.0;
    if comparisons.is_empty() && !source.on.is_empty() && theta != Some(Strategy::Tiles) {
        // DataFusion has made the shorter side the left one.
        return (MatchMethod::Equi(options.equi_join_strategy.0), Side::Left);
    }
    let ranges: Vec<&ColumnComparison> = comparisons.iter().filter(|c| c.op.is_range()).collect();
    let one_column = |side: Side| {
        ranges
            .iter()
            .all(|c| c.column(side) == ranges[0].column(side))
    };
    // Flags and counts are cheapest on the probe side.
    let probe = match source.kind {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => Side::Left,
        JoinType::Inner if source.on.is_empty() && left_is_shorter(rows) => Side::Left,
        _ => Side::Right,
    };
    let range_side = match ranges.is_empty() {
        true => None,
        false => [probe.other(), probe]
            .into_iter()
            .find(|side| one_column(*side)),
    };
    let natural = match (range_side, ranges.is_empty()) {
        (Some(_), _) => Strategy::Range,
        (None, true) => Strategy::Tiles,
        (None, false) => Strategy::Dominance,
    };
    let suits = |strategy: Strategy| match strategy {
        Strategy::Range => range_side.is_some(),
        Strategy::Dominance => ranges.len() >= 2,
        _ => true,
    };
    let chosen = theta.filter(|s| suits(*s)).unwrap_or(natural);
    match (chosen, range_side) {
        (Strategy::Range, Some(side)) => (MatchMethod::Range(None), side),
        (Strategy::Dominance, _) => (MatchMethod::Dominance, probe.other()),
        _ => (MatchMethod::Tiles, probe.other()),
    }
}
