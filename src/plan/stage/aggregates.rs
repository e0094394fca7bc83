//! Aggregates that DataFusion found in order: their accumulators take the first row, or the last one, in place of comparing. No node requires
//! that order.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};

type Plan = Arc<dyn ExecutionPlan>;

/// Whether a node aggregates rows by functions that may rely on their order. The order of any function may follow from that of the rows, by
/// equalities and monotonic functions.
pub(crate) fn aggregates_in_order(node: &Plan) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|aggregate| {
        let mut functions = aggregate.aggr_expr().iter();
        reads_rows(aggregate) && functions.any(|function| !function.order_bys().is_empty())
    })
}

/// The same aggregation, of rows in any order.
pub(crate) fn in_any_order(aggregate: &AggregateExec) -> Result<Plan> {
    if !reads_rows(aggregate) {
        return Ok(Arc::new(aggregate.clone()));
    }
    let functions = aggregate.aggr_expr().iter().map(|function| {
        let benefits = function.order_sensitivity().is_beneficial();
        let other = match benefits && !function.order_bys().is_empty() {
            true => Arc::clone(function).with_beneficial_ordering(false)?,
            false => None,
        };
        Ok(other.map_or_else(|| Arc::clone(function), Arc::new))
    });
    let functions: Vec<Arc<AggregateFunctionExpr>> = functions.collect::<Result<_>>()?;
    Ok(Arc::new(aggregate.with_new_aggr_exprs(functions)))
}

/// States are merged by the keys that they have with them.
fn reads_rows(aggregate: &AggregateExec) -> bool {
    aggregate.mode().input_mode() == AggregateInputMode::Raw
}
