//! Exchanges by keys that DataFusion's rule leaves out of a plan, and would add to a stage of it, where less is known.
//!
//! Ballista lets the rule look at each stage again. An exchange that it adds then is in no stage of its own: tasks see other rows of it.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use crate::executors::task_border::{Border, TaskBorderExec};

type Plan = Arc<dyn ExecutionPlan>;

/// A union in the place of one that gives out partitions by keys, which the rule makes of it again: with other inputs it could not be.
pub(super) fn without_interleaving(node: Plan) -> Result<Transformed<Plan>> {
    let Some(interleaved) = node.downcast_ref::<InterleaveExec>() else {
        return Ok(Transformed::no(node));
    };
    Ok(Transformed::yes(UnionExec::try_new(
        interleaved.inputs().clone(),
    )?))
}

/// A plan before its exchanges by keys, which are planned anew: with what a stage knows of its inputs.
pub(super) fn as_of_stages(node: Plan) -> Result<Transformed<Plan>> {
    if let Some(exchange) = node.downcast_ref::<RepartitionExec>() {
        let input = Arc::clone(exchange.input());
        return Ok(Transformed::yes(TaskBorderExec::above(
            input,
            Border::Unknown,
        )));
    }
    let required = node.input_distribution_requirements();
    let by_keys = required
        .per_child_distributions()
        .all(|required| matches!(required, Distribution::KeyPartitioned(_)));
    let inputs = node.children();
    let are_single = inputs
        .iter()
        .all(|input| input.output_partitioning().partition_count() == 1);
    if inputs.is_empty() || !by_keys || !are_single {
        return Ok(Transformed::no(node));
    }
    // However few rows they have.
    let inputs = inputs.into_iter().map(Arc::clone);
    let inputs = inputs.map(|input| TaskBorderExec::above(input, Border::Unknown));
    let inputs = inputs.collect();
    Ok(Transformed::yes(replace_children_if_necessary(
        node, inputs,
    )?))
}
