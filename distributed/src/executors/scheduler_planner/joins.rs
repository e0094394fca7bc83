//! Joins without an equality, of which each task reads one side whole, the left one, and a part of the other.
//!
//! Rows of the left side that have no match in one task may have one in another, so no task may give them out as unmatched: the preserved side is the
//! right one. And all tasks must read the same rows of the left side: what is limited, or numbered as rows come, is made once, in a stage of its own.
//! Ballista looks after both for hash joins alone.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use crate::executors::task_border::{Border, TaskBorderExec};

type Plan = Arc<dyn ExecutionPlan>;

/// A join that preserves rows of the right side alone; where both sides are preserved, one task reads both.
pub(super) fn divisible(node: Plan) -> Result<Transformed<Plan>> {
    use JoinType::*;
    let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else {
        return Ok(Transformed::no(node));
    };
    match join.join_type() {
        Inner | Right | RightSemi | RightAnti | RightMark => Ok(Transformed::no(node)),
        Left | LeftSemi | LeftAnti | LeftMark => Ok(Transformed::yes(join.swap_inputs()?)),
        Full => {
            let left = Arc::clone(join.left());
            let right = TaskBorderExec::above(Arc::clone(join.right()), Border::OneTask);
            let join = replace_children_if_necessary(node, vec![left, right])?;
            Ok(Transformed::yes(join))
        }
    }
}

/// A join whose tasks read the same rows of the left side: below a merge, also of one partition, Ballista has a stage, which makes them.
pub(super) fn with_sides_made_once(node: Plan) -> Result<Transformed<Plan>> {
    let tests_all_pairs = node.is::<NestedLoopJoinExec>() || node.is::<CrossJoinExec>();
    let ([left, right], true) = (&node.children()[..], tests_all_pairs) else {
        return Ok(Transformed::no(node));
    };
    if !differs_among_tasks(left) {
        return Ok(Transformed::no(node));
    }
    let left = CoalescePartitionsExec::new(Arc::clone(left));
    let sides = vec![Arc::new(left) as Plan, Arc::clone(right)];
    Ok(Transformed::yes(replace_children_if_necessary(
        node, sides,
    )?))
}

/// Whether tasks that execute a side could see other rows of it: some of those of several partitions, or numbers and sums that depend on the order in
/// which these come. What is exchanged by hash is there once.
fn differs_among_tasks(side: &Plan) -> bool {
    let exchange = side.downcast_ref::<RepartitionExec>();
    if exchange.is_some_and(|exchange| matches!(exchange.partitioning(), Partitioning::Hash(..))) {
        return false;
    }
    let is_limited = side.fetch().is_some() || side.is::<GlobalLimitExec>();
    let is_numbered = side.is::<WindowAggExec>() || side.is::<BoundedWindowAggExec>();
    let has_floats = || {
        let schema = side.schema();
        let mut types = schema.fields().iter().map(|field| field.data_type());
        types.any(|data_type| data_type.is_floating())
    };
    let is_rounded = side.is::<AggregateExec>() && has_floats();
    let is_one = side.output_partitioning().partition_count() == 1;
    let inputs = side.children();
    let of_all = is_one && !inputs.is_empty() && (is_limited || is_numbered || is_rounded);
    of_all || inputs.into_iter().any(differs_among_tasks)
}
