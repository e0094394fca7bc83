//! datafusion-distributed with bowtie.
//!
//! ```text
//! coordinator: SQL ─► DataFusion's plan ─► stages ─► worker: BowtieStageRule ─► a task's rows ─► other workers, coordinator
//! ```

mod channels;
mod gpus;
mod head;
mod scans;
mod tasks;
mod whole_plans;

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion_bowtie::{BowtieOptions, BowtieSessionExt, BowtieStageRule};
use datafusion_distributed::{
    DistributedExt, SessionStateBuilderExt, Worker, WorkerPlanRewriteEvent,
    WorkerPlanRewriteEventResponse, WorkerQueryContext,
};
use http::HeaderMap;
use url::Url;

use crate::options::options_over;
use crate::workers::channels::Channels;
use crate::workers::gpus::Gpus;
use crate::workers::tasks::{TaskCounts, Workers, task_on_worker};
use crate::workers::whole_plans::WholePlans;

/// What datafusion-distributed puts before the name of an option in a request's headers.
const OPTION: &str = "x-datafusion-distributed-config-bowtie.";

/// A worker whose stages run on the devices of its process. `own`: its options, unless a session sets others.
///
/// `into_worker_server()` makes a service for tonic of it.
pub fn worker(runtime: Arc<RuntimeEnv>, own: BowtieOptions) -> Worker {
    let (rule, channels) = (Arc::new(BowtieStageRule::default()), Channels::default());
    let version = gpus::version(&own);
    let build = move |query: WorkerQueryContext| {
        let session = session(query, &own, &rule, &channels);
        async move { session }
    };
    Worker::from_session_builder(build)
        .with_runtime_env(runtime)
        .with_version(version)
}

/// The session of a worker's task.
fn session(
    query: WorkerQueryContext,
    own: &BowtieOptions,
    rule: &Arc<BowtieStageRule>,
    channels: &Channels,
) -> Result<SessionState> {
    let options = options_of(&query.headers, own)?;
    let rule = Arc::clone(rule);
    let offload = move |stage: WorkerPlanRewriteEvent<'_>| {
        let plan = rule.optimize(stage.plan, stage.session_config.options())?;
        Ok(WorkerPlanRewriteEventResponse::new(plan))
    };
    let session = query
        .builder
        .with_bowtie_coordinator()?
        .with_distributed_option_extension(options)
        .with_distributed_channel_resolver(channels.clone())
        .with_distributed_worker_plan_rewrite_handler(offload);
    Ok(session.build())
}

/// The options in a request's headers. The engine's own reader expects names without the prefix, which those of bowtie's entries have.
fn options_of(headers: &HeaderMap, own: &BowtieOptions) -> Result<BowtieOptions> {
    let mut set = vec![];
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix(OPTION) {
            let value = value.to_str();
            let value = value.map_err(|error| DataFusionError::External(Box::new(error)))?;
            set.push((name, value));
        }
    }
    options_over(own, set)
}

/// Adds to a session what hands its queries' stages to `workers`. Call it after anything else that replaces functions, rules or options.
///
/// Stages need a worker for each task: the workers that are given, at their addresses `http://host:port`. The stages at the heads of plans, and queries
/// that the engine does not divide, run in this process, on its own devices: `own` are its options, unless the session sets others. What the session sets reaches all
/// workers. Where these all have a GPU, sides of equi-joins of up to `bowtie.broadcast_rows` rows are sent to all of them, unless the session sets
/// `datafusion.optimizer.hash_join_single_partition_threshold` or `…_rows`.
pub fn coordinator(
    session: SessionStateBuilder,
    workers: Vec<Url>,
    own: BowtieOptions,
) -> Result<SessionStateBuilder> {
    let channels = Channels::default();
    let mut session = session
        .with_bowtie_coordinator()?
        .with_distributed_planner();
    let planner = session.query_planner().take();
    *session.query_planner() = planner.map(|inner| {
        Arc::new(WholePlans {
            inner,
            rule: BowtieStageRule::default(),
            own,
            gpus: Gpus::new(workers.clone(), channels.clone()),
        }) as Arc<dyn QueryPlanner + Send + Sync>
    });
    let config = session.config().get_or_insert_default();
    let set = config.options().extensions.get::<BowtieOptions>();
    let set = set.cloned().unwrap_or_default();
    Ok(session
        .with_distributed_option_extension(set)
        .with_distributed_worker_resolver(Workers(workers))
        .with_distributed_channel_resolver(channels)
        .with_distributed_desired_task_count_handler(TaskCounts)
        .with_distributed_scale_up_leaf_node_handler(scans::of_tasks)
        .with_distributed_route_tasks_handler(task_on_worker))
}
