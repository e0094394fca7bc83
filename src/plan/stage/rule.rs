//! [`BowtieStageRule`]: offloading in a plan that is distributed and ordered already.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::options::{BowtieOptions, Offload};
use crate::plan::entrance::{Entrance, keeps_schema};
use crate::plan::rule::BowtieRule;
use crate::plan::stage::pipeline::{Needs, Stage};
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::runtime::process::BowtieRuntime;
use crate::runtime::session_devices::SessionDevices;

/// Offloads the nodes of a plan that somebody else has cut to stages: a physical optimizer rule for a *worker*, to be run on a stage before it
/// is executed.
///
/// Each node becomes one node, with the same schema, partitions and order, and as many children: `BowtieStageExec` where a pipeline of device
/// nodes begins, `BowtieFusedExec` below it. To others a node stays of DataFusion's type (`downcast_ref::<HashJoinExec>()` finds it), so that a
/// stage that is sent on is DataFusion's plan again. Rows are in the partitions in which they were, except where these have no meaning.
///
/// `bowtie.*` options are read from the session's configuration, as by `with_bowtie`, whose rule this one replaces: a session has one of them.
///
/// ```
/// use std::sync::Arc;
/// use datafusion::prelude::*;
/// use datafusion::physical_optimizer::PhysicalOptimizerRule;
/// use datafusion_bowtie::BowtieStageRule;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let ctx = SessionContext::new();
/// let pairs = ctx.sql("SELECT count(*) FROM (VALUES (1), (2)) r(a) JOIN (VALUES (2), (3)) s(b) ON r.a < s.b").await?;
/// let stage = pairs.create_physical_plan().await?;
/// let offloaded = BowtieStageRule::default().optimize(stage, ctx.state().config_options())?;
/// # datafusion::physical_plan::collect(offloaded, ctx.task_ctx()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BowtieStageRule(BowtieRule);

impl Default for BowtieStageRule {
    /// On the devices of the process's shared runtime.
    fn default() -> Self {
        Self::new(BowtieRuntime::shared())
    }
}

impl BowtieStageRule {
    pub(crate) const NAME: &'static str = "bowtie_stages";

    /// On the devices of a runtime.
    pub fn new(runtime: Arc<BowtieRuntime>) -> Self {
        let devices = Arc::new(SessionDevices::of(runtime));
        Self(BowtieRule::new(devices))
    }
}

impl PhysicalOptimizerRule for BowtieStageRule {
    /// # Errors
    /// As bowtie's rule: if `bowtie.device` names a device that is not there, or, under `bowtie.strict`, if a node cannot be offloaded.
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = BowtieOptions::of(config);
        if options.offload == Offload::Off {
            return Ok(plan);
        }
        let entrance = Entrance {
            rule: Self::NAME,
            options: &options,
        };
        let offloaded = entrance.enter(|| {
            let stage = Stage {
                rule: &self.0,
                config,
                statistics: StatisticsCache::default(),
            };
            let offloaded = stage.planned(&plan, &Needs::all())?;
            keeps_schema(&plan, &offloaded)?;
            Ok(offloaded)
        })?;
        Ok(offloaded.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}
