//! Sessions with bowtie.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::*;
use datafusion_bowtie::{BowtieRuntime, BowtieSessionExt, BowtieStageRule};

use crate::support::borders::CutPlans;

/// How a session's plans are offloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// By `with_bowtie`.
    Early,
    /// As a worker does, in plans that are distributed and ordered already.
    Stages,
    /// The same, of plans that are cut at their exchanges.
    CutStages,
}

impl Rule {
    /// That of BOWTIE_TEST_RULE: `stages`, `cut`, or `with_bowtie`'s.
    pub(crate) fn of_tests() -> Self {
        match std::env::var("BOWTIE_TEST_RULE").as_deref() {
            Ok("stages") => Self::Stages,
            Ok("cut") => Self::CutStages,
            Ok(other) => panic!("BOWTIE_TEST_RULE = {other}"),
            Err(_) => Self::Early,
        }
    }

    /// `state` with bowtie.
    pub(crate) fn added_to(
        self,
        state: SessionStateBuilder,
        runtime: Arc<BowtieRuntime>,
    ) -> SessionStateBuilder {
        let stages = Arc::new(BowtieStageRule::new(Arc::clone(&runtime)));
        match self {
            Self::Early => state.with_bowtie_runtime(runtime).unwrap(),
            Self::Stages => state
                .with_bowtie_coordinator_runtime(runtime)
                .unwrap()
                .with_physical_optimizer_rule(stages),
            Self::CutStages => state
                .with_bowtie_coordinator_runtime(runtime)
                .unwrap()
                .with_physical_optimizer_rule(Arc::new(CutPlans))
                .with_physical_optimizer_rule(stages),
        }
    }
}

/// A session with bowtie and default options.
pub(crate) fn session() -> SessionContext {
    session_by(Rule::of_tests())
}

/// The same, whose plans are offloaded by `rule`.
pub(crate) fn session_by(rule: Rule) -> SessionContext {
    let state = SessionStateBuilder::new().with_default_features();
    let state = rule.added_to(state, BowtieRuntime::shared());
    on_device(SessionContext::new_with_state(state.build()))
}

/// The device that the tests run on: BOWTIE_TEST_DEVICE, or the CPU backend.
pub(crate) fn device() -> String {
    std::env::var("BOWTIE_TEST_DEVICE").unwrap_or_else(|_| "host".into())
}

/// The columns of tables that stay on the device, where a test does not say: BOWTIE_TEST_CACHE, or none. Many tests are about uploads.
pub(crate) fn cache() -> String {
    std::env::var("BOWTIE_TEST_CACHE").unwrap_or_else(|_| "off".into())
}

fn on_device(ctx: SessionContext) -> SessionContext {
    set(&ctx, "bowtie.device", &device());
    set(&ctx, "bowtie.cache", &cache());
    ctx
}

/// A session with bowtie whose host memory is counted by `pool`.
pub(crate) fn session_in(pool: Arc<dyn MemoryPool>) -> SessionContext {
    session_on(pool, BowtieRuntime::shared())
}

/// The same, whose device memory is counted by `bowtie`.
pub(crate) fn session_on(pool: Arc<dyn MemoryPool>, bowtie: Arc<BowtieRuntime>) -> SessionContext {
    session_of(RuntimeEnvBuilder::new().with_memory_pool(pool), bowtie)
}

/// The same, which may not spill.
pub(crate) fn session_without_files(pool: Arc<dyn MemoryPool>) -> SessionContext {
    let disabled = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool);
    let runtime = runtime.with_disk_manager_builder(disabled);
    session_of(runtime, BowtieRuntime::shared())
}

/// The same, which spills to files in `directory`.
pub(crate) fn session_with_files_in(pool: Arc<dyn MemoryPool>, directory: &Path) -> SessionContext {
    let mode = DiskManagerMode::Directories(vec![directory.to_path_buf()]);
    let files = DiskManagerBuilder::default().with_mode(mode);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool);
    let runtime = runtime.with_disk_manager_builder(files);
    session_of(runtime, BowtieRuntime::shared())
}

/// A session with bowtie in a runtime of its own.
fn session_of(runtime: RuntimeEnvBuilder, bowtie: Arc<BowtieRuntime>) -> SessionContext {
    let runtime = runtime.build_arc();
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_runtime_env(runtime.unwrap());
    let state = Rule::of_tests().added_to(state, bowtie);
    on_device(SessionContext::new_with_state(state.build()))
}

/// `SET key = value`, without planning a statement.
pub(crate) fn set(ctx: &SessionContext, key: &str, value: &str) {
    let state = ctx.state_ref();
    let mut state = state.write();
    let options = state.config_mut().options_mut();
    options.set(key, value).unwrap();
}
