//! [`SchedulerPlanner`]: DataFusion's planner, for plans that Ballista cuts into stages and divides among tasks.
//!
//! Ballista's planner of that name cuts them, not its adaptive one, which gives other rows than one process for some queries.

mod broadcasts;
mod exchanges;
mod joins;
mod nodes;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

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
        let planned = planned.transform_up(nodes::that_arrive_as_planned)?.data;
        let config = session.config_options();
        let most_bytes = broadcasts::most_bytes(config);
        let divisible = planned
            .transform_up(|node| broadcasts::that_stay(node, most_bytes))?
            .transform_data(|plan| plan.transform_up(exchanges::as_in_a_stage))?
            .transform_data(|plan| plan.transform_up(joins::divisible))?;
        let planned = match divisible.transformed {
            true => EnsureRequirements::new().optimize(divisible.data, config)?,
            false => divisible.data,
        };
        // Last, as a rule would take these exchanges for needless.
        Ok(planned.transform_up(joins::with_sides_made_once)?.data)
    }
}
