//! Aggregates that DataFusion found in order: their accumulators take the first row, or the last one, in place of comparing. No node requires
//! that order.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

type Plan = Arc<dyn ExecutionPlan>;

/// Whether a node aggregates rows by functions that may rely on their order: one by a key of a function's.
pub(crate) fn aggregates_in_order(node: &Plan) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    let Some(aggregate) = aggregate.filter(|aggregate| reads_rows(aggregate)) else {
        return false;
    };
    let input = aggregate.input();
    let Some(ordering) = input.output_ordering() else {
        return false;
    };
    let equal = input.equivalence_properties().eq_group();
    let normal = |expr: &Arc<dyn PhysicalExpr>| equal.normalize_expr(Arc::clone(expr));
    let keys: Vec<_> = ordering.iter().map(|key| normal(&key.expr)).collect();
    let functions = aggregate.aggr_expr().iter();
    let mut orders = functions.flat_map(|function| function.order_bys());
    orders.any(|by| keys.contains(&normal(&by.expr)))
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
