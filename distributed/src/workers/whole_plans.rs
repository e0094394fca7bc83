//! [`WholePlans`]: plans for the devices of the workers, and for those of the coordinator's process, which executes the heads of plans and what the
//! engine does not divide.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::config::ExtensionOptions;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_bowtie::{BowtieOptions, BowtieStageRule, DeviceChoice};
use datafusion_distributed::DistributedExec;

use crate::options::options_over;
use crate::workers::gpus::{Gpus, with_broadcasts};
use crate::workers::{head, scans};

/// Plans as `inner` does, and offloads what stays in this process: heads of divided plans, and queries of one worker, of few bytes, and of tables
/// that only this process has.
#[derive(Debug)]
pub(super) struct WholePlans {
    pub(super) inner: Arc<dyn QueryPlanner + Send + Sync>,
    pub(super) rule: BowtieStageRule,
    /// The options of this process, unless the session sets others.
    pub(super) own: BowtieOptions,
    pub(super) gpus: Gpus,
}

impl WholePlans {
    /// The session with options for the devices of the workers.
    async fn for_workers(&self, session: &dyn Session) -> Option<SessionState> {
        let state = session.as_any().downcast_ref::<SessionState>()?;
        let options = with_broadcasts(state.config_options())?;
        if !self.gpus.are_everywhere().await {
            return None;
        }
        let mut state = state.clone();
        *state.config_mut().options_mut() = options;
        Some(state)
    }
}

#[async_trait]
impl QueryPlanner for WholePlans {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = with_own_options(session.config_options(), &self.own)?;
        let of_head = with_own_device(&config, &self.own);
        if let Some(for_workers) = self.for_workers(session).await {
            let planned = self.inner.create_physical_plan(plan, &for_workers).await?;
            if is_divided(&planned)? {
                let planned = scans::without_compressed(planned)?;
                return head::offloaded(planned, &self.rule, &of_head);
            }
        }
        let planned = self.inner.create_physical_plan(plan, session).await?;
        match is_divided(&planned)? {
            true => {
                let planned = scans::without_compressed(planned)?;
                head::offloaded(planned, &self.rule, &of_head)
            }
            false => self.rule.optimize(planned, &config),
        }
    }
}

fn is_divided(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.is::<DistributedExec>()))
}

fn with_own_options(config: &ConfigOptions, own: &BowtieOptions) -> Result<ConfigOptions> {
    let mut config = config.clone();
    let session = config.extensions.get::<BowtieOptions>();
    let session = session.map(|session| session.entries()).unwrap_or_default();
    let set = session
        .iter()
        .filter_map(|entry| Some((entry.key.as_str(), entry.value.as_deref()?)));
    let options = options_over(own, set)?;
    config.extensions.insert(options);
    Ok(config)
}

/// The options for the head of a divided plan: the GPU that a session sets is one of the workers'.
fn with_own_device(config: &ConfigOptions, own: &BowtieOptions) -> ConfigOptions {
    let mut config = config.clone();
    if let Some(set) = config.extensions.get_mut::<BowtieOptions>()
        && set.device != DeviceChoice::Host
    {
        set.device = own.device;
    }
    config
}
