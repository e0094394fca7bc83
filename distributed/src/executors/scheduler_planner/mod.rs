//! [`SchedulerPlanner`]: DataFusion's planner, for plans that Ballista cuts into stages and divides among tasks.
//!
//! Ballista's static planner cuts them, not its adaptive one, which gives other rows than one process for some queries.

mod broadcasts;
mod exchanges;
mod joins;
mod nodes;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{Distribution, LexOrdering, OrderingRequirements};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::output_requirements::{
    OutputRequirementExec, OutputRequirements,
};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

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
        let planned = planned
            .transform_down(exchanges::without_interleaving)?
            .data;
        let planned = planned.transform_up(nodes::that_arrive_as_planned)?.data;
        let config = session.config_options();
        let most_bytes = broadcasts::most_bytes(config);
        let order = order_of_all(&planned);
        // What is known of sides is that of the plan that Ballista gets, with borders.
        let divisible = planned
            .transform_up(joins::divisible)?
            .transform_data(|plan| plan.transform_up(joins::unordered))?
            .transform_data(|plan| {
                plan.transform_up(|node| broadcasts::exchanged_unless_short(node, most_bytes))
            })?
            .transform_data(|plan| plan.transform_up(exchanges::as_of_stages))?;
        let planned = match divisible.transformed {
            true => exchanged(divisible.data, order, config)?,
            false => divisible.data,
        };
        let planned = planned.transform_up(nodes::ended_by_limit)?.data;
        // Last, as the rule would take these exchanges for needless.
        let planned = planned.transform_up(joins::with_sides_made_once)?.data;
        Ok(planned.transform_up(joins::with_inputs_made_once)?.data)
    }
}

/// The order of a query's rows, if it has one.
fn order_of_all(plan: &Plan) -> Option<LexOrdering> {
    let is_one = plan.output_partitioning().partition_count() == 1;
    plan.output_ordering().filter(|_| is_one).cloned()
}

/// A plan with the exchanges and the sorts that its nodes need.
fn exchanged(plan: Plan, order: Option<LexOrdering>, config: &ConfigOptions) -> Result<Plan> {
    let rule = EnsureRequirements::new();
    let planned = match order {
        None => rule.optimize(plan, config)?,
        Some(order) => {
            let order = Some(OrderingRequirements::from(order));
            let one = Distribution::SinglePartition;
            let ordered = OutputRequirementExec::new(plan, order, one, None);
            let planned = rule.optimize(Arc::new(ordered), config)?;
            OutputRequirements::new_remove_mode().optimize(planned, config)?
        }
    };
    TaskBorderExec::without(planned, Border::Unknown)
}
