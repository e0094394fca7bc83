//! Exchanges that DataFusion's rule leaves out where few rows come.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use crate::executors::task_border::{Border, TaskBorderExec};

type Plan = Arc<dyn ExecutionPlan>;

/// A node whose inputs of one partition are exchanged by its keys however few rows they have. Ballista lets DataFusion's rule look at each stage again,
/// where their number is not known: the exchanges that it adds then are in no stage of their own, and each task makes all rows of them.
pub(super) fn as_in_a_stage(node: Plan) -> Result<Transformed<Plan>> {
    let inputs = node.children();
    let required = node.input_distribution_requirements();
    let by_keys = required
        .per_child_distributions()
        .all(|required| matches!(required, Distribution::KeyPartitioned(_)));
    let are_single = inputs
        .iter()
        .all(|input| input.output_partitioning().partition_count() == 1);
    if inputs.is_empty() || !by_keys || !are_single {
        return Ok(Transformed::no(node));
    }
    let inputs = inputs.into_iter().map(Arc::clone);
    let inputs = inputs.map(|input| TaskBorderExec::above(input, Border::RowsUnknown));
    let inputs = inputs.collect();
    Ok(Transformed::yes(replace_children_if_necessary(
        node, inputs,
    )?))
}
