//! [`SchedulerPlanner`]: DataFusion's planner, for joins that Ballista divides among several tasks.
//!
//! Each task of a join without an equality reads one side whole, the left one, and a part of the other. Rows of the left side that have no match in one
//! task may have one in another, so no task may give them out as unmatched. Ballista looks after that for hash joins alone. And where a side is limited
//! or numbered, each task that reads it whole would make other rows of it: such a join has one task.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{JoinType, LogicalPlan};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion_bowtie::ExchangeByRanges;

use crate::executors::task_border::{Border, TaskBorderExec};

type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub(super) struct SchedulerPlanner;

#[async_trait]
impl QueryPlanner for SchedulerPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Plan> {
        let planner = DefaultPhysicalPlanner::default();
        let planned = planner.create_physical_plan(plan, session).await?;
        let limits = planned.transform_up(without_largest_limit)?;
        let planned = limits.data;
        // Ballista's adaptive planner has optimizer rules of its own in place of the session's.
        let config = session.config_options();
        let by_ranges = ExchangeByRanges.optimize(Arc::clone(&planned), config)?;
        let is_by_ranges = !Arc::ptr_eq(&planned, &by_ranges);
        let divisible = by_ranges.transform_up(divisible)?;
        match is_by_ranges || divisible.transformed {
            true => EnsureRequirements::new().optimize(divisible.data, config),
            false => Ok(divisible.data),
        }
    }
}

/// A join whose tasks give the right rows together. Its preserved side becomes the right one, which is divided, and stays that; where both are
/// preserved, or tasks would make other rows of one of them, there is one task.
fn divisible(node: Plan) -> Result<Transformed<Plan>> {
    use JoinType::*;
    let tests_all_pairs = node.is::<NestedLoopJoinExec>() || node.is::<CrossJoinExec>();
    if let ([left, right], true) = (&node.children()[..], tests_all_pairs)
        && [left, right]
            .into_iter()
            .any(|side| differs_among_tasks(side))
    {
        // The other side may become the left one.
        let right = TaskBorderExec::above(Arc::clone(right), Border::OneTask);
        let sides = vec![Arc::clone(left), right];
        return Ok(Transformed::yes(replace_children_if_necessary(
            node, sides,
        )?));
    }
    let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else {
        return Ok(Transformed::no(node));
    };
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    match join.join_type() {
        Inner => Ok(Transformed::no(node)),
        Full => {
            let right = TaskBorderExec::above(right, Border::OneTask);
            let join = replace_children_if_necessary(node, vec![left, right])?;
            Ok(Transformed::yes(join))
        }
        Right | RightSemi | RightAnti | RightMark => {
            let sides = [left, right].map(|side| TaskBorderExec::above(side, Border::KeepsSide));
            let join = replace_children_if_necessary(node, sides.to_vec())?;
            Ok(Transformed::yes(join))
        }
        Left | LeftSemi | LeftAnti | LeftMark => {
            let sides = [left, right].map(|side| TaskBorderExec::above(side, Border::KeepsSide));
            let join = replace_children_if_necessary(Arc::clone(&node), sides.to_vec())?;
            let Some(join) = join.downcast_ref::<NestedLoopJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            Ok(Transformed::yes(join.swap_inputs()?))
        }
    }
}

/// An `OFFSET` without a limit: that of the plan that arrived is the largest number, which DataFusion's message of a merge would cut off.
fn without_largest_limit(node: Plan) -> Result<Transformed<Plan>> {
    let is_largest = node.fetch().is_some_and(|rows| rows >= i64::MAX as usize);
    let limited = node.downcast_ref::<GlobalLimitExec>();
    let without: Option<Plan> = match limited {
        _ if !is_largest => None,
        Some(limit) => {
            let input = Arc::clone(limit.input());
            Some(Arc::new(GlobalLimitExec::new(input, limit.skip(), None)))
        }
        None => node.with_fetch(None),
    };
    Ok(without.map_or_else(|| Transformed::no(node), Transformed::yes))
}

/// Whether tasks that execute a side would not see the same rows: some of several partitions, or numbered as they come. What is exchanged by hash is
/// there once.
fn differs_among_tasks(side: &Plan) -> bool {
    let exchange = side.downcast_ref::<RepartitionExec>();
    if exchange.is_some_and(|exchange| matches!(exchange.partitioning(), Partitioning::Hash(..))) {
        return false;
    }
    let is_limited = side.fetch().is_some() || side.is::<GlobalLimitExec>();
    let is_numbered = side.is::<WindowAggExec>() || side.is::<BoundedWindowAggExec>();
    let is_one = side.output_partitioning().partition_count() == 1;
    let inputs = side.children();
    let of_all = is_one && !inputs.is_empty() && (is_limited || is_numbered);
    of_all || inputs.into_iter().any(differs_among_tasks)
}
