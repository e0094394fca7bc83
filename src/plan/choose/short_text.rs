//! [`is_short`], [`has_few_values`]: whether a key of text is grouped as a number.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::exec::scan::table::Table;

type Plan = Arc<dyn ExecutionPlan>;

/// Text of up to this mean length: a GPU groups text of up to seven bytes as numbers.
const SHORT: u64 = 7;

/// Whether the text of `key`, an expression over the rows of `plan`, comes from a table in memory whose first values are short.
pub(crate) fn is_short(plan: &Plan, key: &Arc<dyn PhysicalExpr>) -> bool {
    let column = key.downcast_ref::<Column>();
    let length = column.and_then(|column| text_length(plan, column.index()));
    length.is_some_and(|length| length <= SHORT)
}

/// The mean length of the first values of a column of text, where it comes from a table in memory as it is.
fn text_length(plan: &Plan, column: usize) -> Option<u64> {
    let (table, column) = source(plan, column)?;
    table.text_length(column)
}

/// Whether the text of `key` comes from a table whose values repeat, as far as is known, so that a store keeps codes of it.
pub(crate) fn has_few_values(plan: &Plan, key: &Arc<dyn PhysicalExpr>) -> bool {
    let column = key.downcast_ref::<Column>();
    let source = column.and_then(|column| source(plan, column.index()));
    source.is_some_and(|(table, column)| table.repeats(column))
}

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

/// The input, and its column that column `column` of the output is.
fn below(plan: &Plan, column: usize) -> Option<(&Plan, usize)> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let projection = join.projection.as_deref();
        return of_side(
            [join.left(), join.right()],
            *join.join_type(),
            projection,
            column,
        );
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let projection = join.projection().as_deref();
        return of_side(
            [join.left(), join.right()],
            *join.join_type(),
            projection,
            column,
        );
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
