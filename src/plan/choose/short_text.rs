//! [`is_short`]: whether a key of text is grouped as a number.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::exec::scan::table::Table;

/// Text of up to this mean length: a GPU groups text of up to seven bytes as numbers.
const SHORT: u64 = 7;

/// Whether the text of `key`, an expression over the rows of `plan`, comes from a table in memory whose first values are short.
pub(crate) fn is_short(plan: &Arc<dyn ExecutionPlan>, key: &Arc<dyn PhysicalExpr>) -> bool {
    let length = key
        .downcast_ref::<Column>()
        .and_then(|column| text_length(plan, column.index()));
    length.is_some_and(|length| length <= SHORT)
}

/// The mean length of the first values of a column of text, where it comes from a table in memory as it is.
pub(crate) fn text_length(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<u64> {
    if let Some(table) = Table::of(plan) {
        return table.text_length(column);
    }
    let below = match plan.downcast_ref::<ProjectionExec>() {
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
    text_length(input, below)
}
