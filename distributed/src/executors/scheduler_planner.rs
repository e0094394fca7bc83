//! [`SchedulerPlanner`]: DataFusion's planner, for joins that Ballista runs in several tasks.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{JoinType, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

#[derive(Debug)]
pub(super) struct SchedulerPlanner;

#[async_trait]
impl QueryPlanner for SchedulerPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::default();
        let planned = planner.create_physical_plan(plan, session).await?;
        planned.transform_up(preserving_probe_side).data()
    }
}

/// A join without an equality reads one side whole in each task, and so may not give out the rows of that side that have no match in a task.
fn preserving_probe_side(
    node: Arc<dyn ExecutionPlan>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    use JoinType::*;
    let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else {
        return Ok(Transformed::no(node));
    };
    match join.join_type() {
        Left | LeftSemi | LeftAnti | LeftMark => Ok(Transformed::yes(join.swap_inputs()?)),
        _ => Ok(Transformed::no(node)),
    }
}
