//! Joins without an equality, of which each task reads one side whole, the left one, and a part of the other.
//!
//! Rows of the left side that have no match in one task may have one in another, so no task may give them out as unmatched: the preserved side is the
//! right one. And all tasks must read the same rows of the left side: what is limited, or numbered as rows come, is made once, in a stage of its own.
//! Ballista looks after both for hash joins alone.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr_common::physical_expr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, replace_children_if_necessary,
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
    let is_of_pairs = node.is::<NestedLoopJoinExec>() || node.is::<CrossJoinExec>();
    let ([left, right], true) = (&node.children()[..], is_of_pairs) else {
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

/// Whether tasks that execute a side could see other rows of it: some of those of several partitions, or numbers, groups and sums that depend on the
/// order in which these come, or random values. What is exchanged by hash is there once.
fn differs_among_tasks(side: &Plan) -> bool {
    let exchange = side.downcast_ref::<RepartitionExec>();
    if exchange.is_some_and(|exchange| matches!(exchange.partitioning(), Partitioning::Hash(..))) {
        return false;
    }
    let is_limited = side.fetch().is_some() || side.is::<GlobalLimitExec>();
    let is_numbered = side.is::<WindowAggExec>() || side.is::<BoundedWindowAggExec>();
    let is_one = side.output_partitioning().partition_count() == 1;
    let inputs = side.children();
    let is_aggregated = side.is::<AggregateExec>();
    // A file may be read with random values beside its own.
    let is_of_all = (is_limited || is_numbered || is_aggregated) && !inputs.is_empty();
    let is_of_all = is_one && (is_of_all || is_volatile(side));
    is_of_all || inputs.into_iter().any(differs_among_tasks)
}

fn is_volatile(node: &Plan) -> bool {
    let mut volatile = false;
    let mut find = |expression: &Arc<dyn PhysicalExpr>| {
        volatile |= physical_expr::is_volatile(expression);
        Ok(TreeNodeRecursion::Continue)
    };
    node.apply_expressions(&mut find).is_err() || volatile
}

/// A join on whose order no node above relies: when Ballista knows how many rows its sides have, it may swap these.
pub(super) fn unordered(node: Plan) -> Result<Transformed<Plan>> {
    let may_be_swapped =
        node.is::<HashJoinExec>() || node.is::<NestedLoopJoinExec>() || node.is::<CrossJoinExec>();
    Ok(match may_be_swapped && node.output_ordering().is_some() {
        true => Transformed::yes(TaskBorderExec::above(node, Border::Unordered)),
        false => Transformed::no(node),
    })
}

/// A union whose inputs of one partition with a join without an equality have stages of their own: one that Ballista swaps is there in all tasks.
pub(super) fn with_inputs_made_once(node: Plan) -> Result<Transformed<Plan>> {
    let inputs = node.children();
    let is_made_anew =
        |input: &Plan| input.output_partitioning().partition_count() == 1 && tests_all_pairs(input);
    if !node.is::<UnionExec>() || !inputs.iter().any(|input| is_made_anew(input)) {
        return Ok(Transformed::no(node));
    }
    let inputs = inputs.into_iter().map(|input| match is_made_anew(input) {
        true => Arc::new(CoalescePartitionsExec::new(Arc::clone(input))) as Plan,
        false => Arc::clone(input),
    });
    let inputs = inputs.collect();
    Ok(Transformed::yes(replace_children_if_necessary(
        node, inputs,
    )?))
}

/// Whether there is a join without an equality in a plan.
fn tests_all_pairs(plan: &Plan) -> bool {
    plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.children().into_iter().any(tests_all_pairs)
}
