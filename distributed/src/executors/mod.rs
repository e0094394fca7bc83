//! Ballista with bowtie: its scheduler and its executors. [`client`](crate::client) has clients.
//!
//! ```text
//! client: SQL ─► scheduler: DataFusion's plan ─► stages ─► executor: BowtieStageRule ─► shuffle files ─► other executors, client
//! ```

mod connections;
mod engine;
mod gpus;
mod lost;
mod place;
mod scheduler_planner;
mod stoppable;
mod task_border;

use std::sync::Arc;
use std::time::Duration;

use ballista::prelude::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use ballista_core::utils::default_session_builder;
use ballista_executor::execution_engine::DefaultExecutionEngine;
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use datafusion::error::Result;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use datafusion_bowtie::{BowtieConfigExt, BowtieOptions, BowtieSessionExt};
use datafusion_proto::physical_plan::{ComposedPhysicalExtensionCodec, PhysicalExtensionCodec};

use crate::executors::connections::Connections;
use crate::executors::engine::BowtieEngine;
pub use crate::executors::lost::{Scheduler, start_scheduler};
use crate::executors::place::Place;
use crate::executors::scheduler_planner::SchedulerPlanner;
use crate::executors::task_border::TaskBorderCodec;
use crate::gpus::suffix;

/// A configuration that takes the `bowtie.*` options of clients.
fn configuration() -> SessionConfig {
    SessionConfig::new_with_ballista().with_bowtie_options(BowtieOptions::default())
}

/// The session that plans a client's query.
fn session(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> Result<SessionState> {
    let config = config.with_ballista_adaptive_query_planner(false);
    // Files are listed for each query: others may have come.
    let runtime = RuntimeEnvBuilder::from_runtime_env(&runtime)
        .with_object_list_cache_limit(0)
        .build_arc()?;
    let state = default_session_builder(config)?;
    let id = state.session_id().to_string();
    let session = SessionStateBuilder::new_from_existing(state)
        .with_session_id(id)
        .with_runtime_env(runtime)
        .with_bowtie_coordinator()?
        .with_query_planner(Arc::new(SchedulerPlanner));
    Ok(session.build())
}

/// The nodes of stages: Ballista's, and those of its scheduler with bowtie.
fn codec() -> Arc<dyn PhysicalExtensionCodec> {
    Arc::new(ComposedPhysicalExtensionCodec::new(vec![
        Arc::new(BallistaPhysicalExtensionCodec::default()),
        Arc::new(TaskBorderCodec),
    ]))
}

/// A scheduler for clients and executors with bowtie, with all other settings as they are: [`start_scheduler`] starts it.
pub fn scheduler(config: SchedulerConfig) -> SchedulerConfig {
    scheduler_with(config, Default::default())
}

/// As [`scheduler`], with a runtime of your own: it lists files in the runtime's object stores.
pub fn scheduler_with(config: SchedulerConfig, runtime: Arc<RuntimeEnv>) -> SchedulerConfig {
    let session = move |config| session(config, Arc::clone(&runtime));
    let mut config = config
        .with_task_distribution(TaskDistributionPolicy::RoundRobin)
        .with_override_config_producer(Arc::new(configuration))
        .with_override_session_builder(Arc::new(session));
    config.override_physical_codec = Some(codec());
    config
}

/// An executor whose stages run on the devices of its process, with all other settings as they are: `executor_process::start_executor_process`
/// starts it. `own`: its options, unless a client sets others.
///
/// # Errors
/// If its functions cannot be registered.
pub fn executor(
    mut config: ExecutorProcessConfig,
    own: BowtieOptions,
) -> Result<ExecutorProcessConfig> {
    let functions = BallistaFunctionRegistry::from(&session(configuration(), Default::default())?);
    let place = Place::of(&config);
    // One without an id is refused later.
    if !config.executor_id.trim().is_empty() {
        config.executor_id += suffix(&own);
    }
    let inner = match config.client_ttl {
        0 => DefaultExecutionEngine::new(),
        seconds => {
            let connections = Connections::idle_for(Duration::from_secs(seconds));
            DefaultExecutionEngine::with_client_pool(connections)
        }
    };
    config.override_config_producer = Some(Arc::new(configuration));
    config.override_function_registry = Some(Arc::new(functions));
    config.override_physical_codec = Some(codec());
    config.override_execution_engine = Some(Arc::new(BowtieEngine::new(own, place, inner)));
    Ok(config)
}
