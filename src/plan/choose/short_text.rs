//! [`is_short`], [`has_few_values`]: whether a key of text is grouped as a number.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;

use crate::plan::statistics::origin::source;

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
