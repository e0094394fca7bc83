//! Whether an aggregation by groups does better above an equi-join than as one node with it.
//!
//! As one node they make no pairs. But the states of the grouped side's matched rows are merged by DataFusion's accumulators, on
//! one thread, some 75 ns each, and again for each chunk of the right side where the left one is grouped: 450 ms of TPC-H's query
//! 13 at scale factor 10. Above the join the device groups the pairs, 15 M of them in 1 ms, and its groups may stay there.

use super::aggregate::AggregateSource;
use super::choose::Estimate;
use super::group::{GroupSource, group_above_join};
use crate::error::Decline;
use crate::options::BowtieOptions;
use crate::spec::{GroupSide, JoinAggregateSpec, JoinSpec, Side, Strategy};

/// Rows of the grouped side, of which so few take less time than more nodes do.
const FEW_ROWS: u64 = 1 << 16;

/// Why the two are not one node, where they do better apart.
pub(super) fn apart(
    source: &GroupSource<'_>,
    above: &AggregateSource<'_>,
    options: &BowtieOptions,
    join: JoinSpec,
    fused: &JoinAggregateSpec,
    (left, right): (Estimate, Estimate),
) -> Option<Decline> {
    let (GroupSide::Side(side), Strategy::Equi(_)) = (fused.group_side, join.theta.strategy) else {
        return None;
    };
    let rows = match side {
        Side::Left => left.rows(),
        Side::Right => right.rows(),
    };
    let few = rows.is_some_and(|rows| rows < FEW_ROWS);
    (!few && group_above_join(source, above, options, join).is_ok())
        .then(|| Decline("many rows are grouped, which the device does sooner by pairs".into()))
}
