//! [`SchedulerPlanner`]: DataFusion's planner, for joins that Ballista divides among several tasks.
//!
//! Each task of a join without an equality reads one side whole, the left one, and a part of the other. Rows of the left side that have no match in one
//! task may have one in another, so no task may give them out as unmatched. Ballista looks after that for hash joins alone.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{JoinType, LogicalPlan};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
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
/// preserved, there is one task.
fn divisible(node: Plan) -> Result<Transformed<Plan>> {
    use JoinType::*;
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
            let left = TaskBorderExec::above(left, Border::KeepsSide);
            let join = replace_children_if_necessary(node, vec![left, right])?;
            Ok(Transformed::yes(join))
        }
        Left | LeftSemi | LeftAnti | LeftMark => {
            let right = TaskBorderExec::above(right, Border::KeepsSide);
            let join = replace_children_if_necessary(Arc::clone(&node), vec![left, right])?;
            let Some(join) = join.downcast_ref::<NestedLoopJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            Ok(Transformed::yes(join.swap_inputs()?))
        }
    }
}
