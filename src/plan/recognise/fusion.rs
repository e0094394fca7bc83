//! Whether a GPU runs an aggregation by groups faster above an equi-join than fused with it.
//!
//! A fused node materialises no join rows. But DataFusion's accumulators merge the states of the grouped side's matched rows, on one
//! thread, some 75 ns each, and again for each chunk of the right side where the left one is grouped. Above the join a GPU groups the
//! join's rows, some 15 million in a millisecond, and the groups may stay resident.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::physical_plan::ExecutionPlan;

use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::spec::join_aggregate::{GroupSide, JoinAggregateSpec};

/// Rows of the grouped side, below which their states take less time than a second node.
const FEW_ROWS: f64 = 65_536.0;

/// Join rows for each row of both sides, above which it is faster to materialise none.
const MOST_PAIRS_OF_A_ROW: f64 = 4.0;

/// Whether a GPU does better with two nodes, an aggregation above a join, than with `fused`. One node is better where the rows of scans
/// are not known (what joins of these have [`StatisticsCache::rows_about`] tells), and where arguments have no fixed width, as a GPU
/// folds no text above a join.
pub(crate) fn prefers_separate_nodes(
    fused: &JoinAggregateSpec,
    join: &Arc<dyn ExecutionPlan>,
    sides: &JoinSource,
    statistics: &StatisticsCache,
) -> bool {
    let (GroupSide::Side(side), Strategy::Equi(_)) =
        (fused.group_side, fused.join.theta.strategy())
    else {
        return false;
    };
    let rows = |plan| statistics.rows_about(plan);
    let (Some(left), Some(right)) = (rows(&sides.left), rows(&sides.right)) else {
        return false;
    };
    let grouped = match side {
        Side::Left => left,
        Side::Right => right,
    };
    let has_many_pairs = |pairs| pairs > MOST_PAIRS_OF_A_ROW * (left + right);
    if grouped < FEW_ROWS || rows(join).is_none_or(has_many_pairs) {
        return false;
    }
    let mut arguments = fused.aggregates.iter().filter_map(|a| a.argument);
    arguments.all(|(side, column)| {
        let data_type = fused.join.input(side).data_type(column);
        data_type.primitive_width().is_some() || *data_type == DataType::Boolean
    })
}
