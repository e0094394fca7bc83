//! [`WholePlans`]: queries that the engine does not divide run in the coordinator's process, on its devices.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_bowtie::BowtieStageRule;
use datafusion_distributed::DistributedExec;

/// Plans as `inner` does, and offloads what stays whole: queries of one worker, of few bytes, and of tables that only this process has.
#[derive(Debug)]
pub(super) struct WholePlans {
    pub(super) inner: Arc<dyn QueryPlanner + Send + Sync>,
    pub(super) rule: BowtieStageRule,
}

#[async_trait]
impl QueryPlanner for WholePlans {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.inner.create_physical_plan(plan, session).await?;
        match plan.exists(|node| Ok(node.is::<DistributedExec>()))? {
            true => Ok(plan),
            false => self.rule.optimize(plan, session.config_options()),
        }
    }
}
