//! [`BowtieEngine`]: Ballista's engine, which gets stages whose nodes are offloaded.

use std::sync::Arc;

use ballista_core::JobId;
use ballista_core::execution_plans::RuntimeStatsExec;
use ballista_core::utils::collect_plan_metrics;
use ballista_executor::execution_engine::{
    DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::config::ExtensionOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};
use datafusion::prelude::SessionConfig;
use datafusion_bowtie::{BowtieOptions, BowtieStageRule};
use tokio::sync::watch;

use crate::executors::place::Place;
use crate::executors::stoppable::{StoppableExec, StoppableStage};
use crate::executors::task_border::TaskBorderExec;
use crate::options::options_over;

type Plan = Arc<dyn ExecutionPlan>;

pub(super) struct BowtieEngine {
    rule: BowtieStageRule,
    /// The executor's own options.
    own: BowtieOptions,
    place: Place,
    inner: DefaultExecutionEngine,
}

impl BowtieEngine {
    pub(super) fn new(own: BowtieOptions, place: Place, inner: DefaultExecutionEngine) -> Self {
        Self {
            rule: BowtieStageRule::default(),
            own,
            place,
            inner,
        }
    }

    /// A stage under the options of a client's session.
    fn offloaded(&self, stage: Plan, session: &SessionConfig) -> Result<Plan> {
        let mut config = ConfigOptions::clone(session.options());
        let set = config.extensions.get::<BowtieOptions>();
        let set = set.map(ExtensionOptions::entries).unwrap_or_default();
        let set = set
            .iter()
            .filter_map(|entry| Some((entry.key.as_str(), entry.value.as_deref()?)));
        let options = options_over(&self.own, set)?;
        config.extensions.insert(options);
        // A task has some of a stage's partitions.
        let partitions = stage.output_partitioning().partition_count();
        config.execution.target_partitions = partitions.max(1);
        self.rule.optimize(stage, &config)
    }
}

impl ExecutionEngine for BowtieEngine {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        partitions: Vec<usize>,
        plan: Plan,
        work_dir: &str,
        session: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        // Below the writer of its rows.
        let input = match plan.children()[..] {
            [input] if !plan.exists(|node| Ok(reports_on_partitions(node)))? => Arc::clone(input),
            _ => {
                let inner = &self.inner;
                return inner.create_query_stage_exec(
                    job, stage, task, partitions, plan, work_dir, session,
                );
            }
        };
        let nodes = collect_plan_metrics(plan.as_ref()).len();
        // An error that is returned here would reach the executor's log alone.
        let input = TaskBorderExec::removed(input)?;
        let (input, failure) = match self.offloaded(Arc::clone(&input), session) {
            Ok(offloaded) => (offloaded, None),
            Err(error) => (input, Some(Arc::new(error))),
        };
        let stop = Arc::new(watch::Sender::new(false));
        let stoppable = Arc::new(StoppableExec::new(input, Arc::clone(&stop)));
        let plan = replace_children_if_necessary(plan, vec![stoppable])?;
        let inner = self
            .inner
            .create_query_stage_exec(job, stage, task, partitions, plan, work_dir, session)?;
        Ok(Arc::new(StoppableStage {
            inner,
            stop,
            failure,
            nodes,
            place: self.place.clone(),
        }))
    }
}

/// Nodes that report to the scheduler on the rows of each partition, which must stay where they are.
fn reports_on_partitions(node: &Plan) -> bool {
    node.is::<RuntimeStatsExec>() || node.name() == "PartitionedBoundedWindowAggExec"
}
