//! Whether an aggregation by groups does better above an equi-join than as one node with it.
//!
//! As one node they make no pairs. But the states of the grouped side's matched rows are merged by DataFusion's accumulators, on
//! one thread, some 75 ns each, and again for each chunk of the right side where the left one is grouped. Above the join a GPU groups
//! the pairs, some 15 M of them in a millisecond, and the groups may stay there.

use arrow::datatypes::DataType;

use crate::error::Decline;
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::options::BowtieOptions;
use crate::plan::choose::statistics::StatisticsCache;
use crate::plan::recognise::aggregate::group_above_join;
use crate::plan::recognise::aggregate_source::GroupSource;
use crate::plan::recognise::join_aggregate::AggregateSource;
use crate::plan::recognise::source::JoinSource;
use crate::spec::join::JoinSpec;
use crate::spec::join_aggregate::{GroupSide, JoinAggregateSpec};

/// Rows of the grouped side, of which so few take less time than more nodes do.
const FEW_ROWS: f64 = 65_536.0;

/// Pairs for each row of both sides from which it is better to make none.
const MOST_PAIRS_OF_A_ROW: f64 = 4.0;

/// Why the two are not one node, where they do better apart. They are one where nobody knows how many rows scans have (what joins of
/// these have [`StatisticsCache::rows_about`] tells), and where arguments have no width, of which a GPU folds text alone.
pub(crate) fn apart(
    source: &GroupSource<'_>,
    above: &AggregateSource<'_>,
    options: &BowtieOptions,
    join: JoinSpec,
    fused: &JoinAggregateSpec,
    sides: &JoinSource,
    known: &StatisticsCache,
) -> Option<Decline> {
    let (GroupSide::Side(side), Strategy::Equi(_)) = (fused.group_side, join.theta.strategy) else {
        return None;
    };
    let (left, right) = (
        known.rows_about(&sides.left)?,
        known.rows_about(&sides.right)?,
    );
    let grouped = match side {
        Side::Left => left,
        Side::Right => right,
    };
    let pairs = known.rows_about(above.join)?;
    if grouped < FEW_ROWS || pairs > MOST_PAIRS_OF_A_ROW * (left + right) {
        return None;
    }
    let arguments = fused.aggregates.iter().filter_map(|a| a.argument);
    let have_width = arguments.into_iter().all(|(side, column)| {
        let data_type = fused.join.input(side).data_type(column);
        data_type.primitive_width().is_some() || *data_type == DataType::Boolean
    });
    (have_width && group_above_join(source, above, options, join).is_ok())
        .then(|| Decline("many rows are grouped, which a GPU does sooner by pairs".into()))
}
