//! Where the values of a node's columns come from.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::exec::scan::table::Table;

type Plan = Arc<dyn ExecutionPlan>;

/// The table and its column whose values column `column` of the output has as they are.
pub(crate) fn source(plan: &Plan, column: usize) -> Option<(Table, usize)> {
    let (mut plan, mut column) = (plan, column);
    loop {
        if let Some(table) = Table::of(plan) {
            return Some((table, column));
        }
        (plan, column) = below(plan, column)?;
    }
}

/// The sides, the type and the projection of a join.
type Join<'a> = ([&'a Plan; 2], JoinType, Option<&'a [usize]>);

fn join(plan: &Plan) -> Option<Join<'_>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let projection = join.projection.as_deref();
        return Some(([join.left(), join.right()], *join.join_type(), projection));
    }
    let join = plan.downcast_ref::<NestedLoopJoinExec>()?;
    let projection = join.projection().as_deref();
    Some(([join.left(), join.right()], *join.join_type(), projection))
}

/// The type of a hash or nested-loop join.
pub(crate) fn join_type(plan: &Plan) -> Option<JoinType> {
    join(plan).map(|(_, kind, _)| kind)
}

/// The input, and its column that column `column` of the output is.
pub(crate) fn below(plan: &Plan, column: usize) -> Option<(&Plan, usize)> {
    if let Some((sides, kind, projection)) = join(plan) {
        return of_side(sides, kind, projection, column);
    }
    let column = match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => {
            let expression = &projection.expr().get(column)?.expr;
            expression.downcast_ref::<Column>()?.index()
        }
        None => match plan.downcast_ref::<FilterExec>() {
            Some(filter) => match filter.projection() {
                Some(columns) => *columns.get(column)?,
                None => column,
            },
            None if plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() => column,
            None => return None,
        },
    };
    let [input] = plan.children()[..] else {
        return None;
    };
    Some((input, column))
}

/// The same for a join with these sides.
fn of_side<'a>(
    [left, right]: [&'a Plan; 2],
    kind: JoinType,
    projection: Option<&[usize]>,
    column: usize,
) -> Option<(&'a Plan, usize)> {
    let column = match projection {
        Some(columns) => *columns.get(column)?,
        None => column,
    };
    let of_left = left.schema().fields().len();
    match kind {
        JoinType::LeftSemi | JoinType::LeftAnti => Some((left, column)),
        JoinType::RightSemi | JoinType::RightAnti => Some((right, column)),
        JoinType::LeftMark | JoinType::RightMark => None,
        _ if column < of_left => Some((left, column)),
        _ => Some((right, column - of_left)),
    }
}
