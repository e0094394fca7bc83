//! [`side_of_unique_keys`]: whether equal keys leave one row of a side, so that a hash join tests an inequality beside them on few pairs.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateOutputMode};

use crate::ir::side::Side;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::statistics::origin::{below, join_type};

/// A side of which each combination of keys has one row at most, as the plan says: the keys hold the groups of an aggregation.
///
/// Constraints of tables are not read: scans that read some columns report those of DataFusion 55 for the wrong columns.
pub(crate) fn side_of_unique_keys(source: &JoinSource) -> Option<Side> {
    let keys = |side: Side| {
        let keys = source.on.iter().map(move |(left, right)| match side {
            Side::Left => left,
            Side::Right => right,
        });
        let columns = keys.filter_map(|key| key.downcast_ref::<Column>());
        columns.map(Column::index).collect()
    };
    let sides = [(Side::Left, &source.left), (Side::Right, &source.right)];
    let unique = sides
        .into_iter()
        .find(|(side, plan)| are_unique(plan, keys(*side)));
    unique.map(|(side, _)| side)
}

/// Whether no two rows of `plan` have the same values in all of `columns`.
fn are_unique(mut plan: &Arc<dyn ExecutionPlan>, mut columns: BTreeSet<usize>) -> bool {
    loop {
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            let groups = aggregate.group_expr();
            let mut keys = 0..groups.expr().len();
            let is_final = aggregate.mode().output_mode() == AggregateOutputMode::Final;
            return is_final
                && !groups.has_grouping_set()
                && keys.all(|key| columns.contains(&key));
        }
        if repeats_rows(plan) {
            return false;
        }
        let below: Vec<_> = columns.iter().filter_map(|c| below(plan, *c)).collect();
        let Some((input, _)) = below.first() else {
            return false;
        };
        plan = *input;
        columns = below.into_iter().map(|(_, column)| column).collect();
    }
}

/// Whether a row of an input may be in several rows of the node: in those of a join, unless it is a semi or an anti join.
fn repeats_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    use JoinType::*;
    let kind = join_type(plan);
    kind.is_some_and(|kind| matches!(kind, Inner | Left | Right | Full))
}
