//! [`BowtieQueryPlanner`]: plans queries as the session's planner does, over snapshots of tables in memory.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner as _};

use crate::options::{BowtieOptions, CacheSize, Offload};
use crate::plan::entrance::Entrance;
use crate::plan::snapshots::scans::with_snapshots;
use crate::runtime::planning::Planning;
use crate::runtime::process::BowtieRuntime;

#[derive(Debug)]
pub(crate) struct BowtieQueryPlanner {
    pub(crate) runtime: Arc<BowtieRuntime>,
    /// The planner that the session had; `None`: DataFusion's default.
    pub(crate) inner: Option<Arc<dyn QueryPlanner + Send + Sync>>,
}

impl BowtieQueryPlanner {
    async fn planned(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match &self.inner {
            Some(planner) => planner.create_physical_plan(plan, session).await,
            None => {
                let planner = DefaultPhysicalPlanner::default();
                planner.create_physical_plan(plan, session).await
            }
        }
    }
}

#[async_trait]
impl QueryPlanner for BowtieQueryPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = BowtieOptions::of(session.config_options());
        let snapshots = match options.offload {
            Offload::Off => None,
            _ if options.cache == CacheSize::Off => None,
            // A planner of another's may look for the tables themselves.
            _ if self.inner.is_some() => None,
            _ => {
                let entrance = Entrance {
                    rule: "bowtie_snapshots",
                    options: &options,
                };
                let snapshots =
                    entrance.enter(|| with_snapshots(plan, self.runtime.snapshots()))?;
                snapshots.unwrap_or(None)
            }
        };
        let plan = snapshots.as_ref().unwrap_or(plan);
        let planning = Planning {
            pool: session.runtime_env().memory_pool.memory_limit(),
            // DataFusion plans the query below, and puts its AnalyzeExec above when all rules are done.
            is_analyzed: matches!(plan, LogicalPlan::Analyze(_)),
        };
        planning.run(self.planned(plan, session)).await
    }
}
