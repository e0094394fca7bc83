//! Sessions with bowtie, and the options that a test turns.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::*;
use datafusion_bowtie::BowtieSessionExt;

/// A session with bowtie and default options.
pub fn session() -> SessionContext {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie()
        .unwrap()
        .build();
    on_device(SessionContext::new_with_state(state))
}

/// The device that the tests run on: BOWTIE_TEST_DEVICE, or the host.
pub fn device() -> String {
    std::env::var("BOWTIE_TEST_DEVICE").unwrap_or_else(|_| "host".into())
}

fn on_device(ctx: SessionContext) -> SessionContext {
    set(&ctx, "bowtie.device", &device());
    ctx
}

/// A session with bowtie whose host memory is counted by `pool`.
pub fn session_in(pool: Arc<dyn MemoryPool>) -> SessionContext {
    session_of(RuntimeEnvBuilder::new().with_memory_pool(pool))
}

/// The same, which may not spill.
pub fn session_without_files(pool: Arc<dyn MemoryPool>) -> SessionContext {
    let disabled = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool);
    session_of(runtime.with_disk_manager_builder(disabled))
}

/// The same, which spills to files in `directory`.
pub fn session_with_files_in(pool: Arc<dyn MemoryPool>, directory: &Path) -> SessionContext {
    let mode = DiskManagerMode::Directories(vec![directory.to_path_buf()]);
    let files = DiskManagerBuilder::default().with_mode(mode);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool);
    session_of(runtime.with_disk_manager_builder(files))
}

/// A session with bowtie in a runtime of its own.
fn session_of(runtime: RuntimeEnvBuilder) -> SessionContext {
    let runtime = runtime.build_arc();
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_runtime_env(runtime.unwrap())
        .with_bowtie()
        .unwrap()
        .build();
    on_device(SessionContext::new_with_state(state))
}

/// `SET key = value`, without planning a statement.
pub fn set(ctx: &SessionContext, key: &str, value: &str) {
    let state = ctx.state_ref();
    let mut state = state.write();
    let options = state.config_mut().options_mut();
    options.set(key, value).unwrap();
}

/// Everything beside the query that must not change its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    pub strategy: &'static str,
    pub group_strategy: &'static str,
    pub chunk_rows: &'static str,
    pub device_memory: &'static str,
    pub batch_size: usize,
    pub partitions: usize,
}

pub const BATCH_SIZES: [usize; 7] = [1, 2, 7, 49, 50, 51, 8192];
/// A chunk of one row makes a tile of every pair: it is right to try, and slow. So most of the time, it has a few.
const CHUNK_ROWS: [&str; 5] = ["auto", "7", "auto", "16", "1 or 5"];
/// How often it has one row where it is short.
const SHORTEST: usize = 6;
/// Device memory and target partitions.
const MACHINES: [(&str, usize); 4] = [("auto", 1), ("1MB", 4), ("auto", 4), ("1MB", 1)];

/// How rows come to their groups.
pub const GROUP_STRATEGIES: [&str; 6] = [
    "auto",
    "hash_shared",
    "hash_global",
    "partition",
    "sort",
    "sort_dict",
];

impl Tuning {
    /// How many tunings there are, strategies aside.
    pub const COUNT: usize = BATCH_SIZES.len() * CHUNK_ROWS.len() * MACHINES.len();

    pub const PLAIN: Self = Self {
        strategy: "auto",
        group_strategy: "auto",
        chunk_rows: "auto",
        device_memory: "auto",
        batch_size: 8192,
        partitions: 1,
    };

    /// Tuning `n`. The numbers of values are coprime, so any `COUNT` consecutive `n` are the full product, and any 35
    /// hold every pair of batch size and chunk size.
    pub fn nth(n: usize) -> Self {
        let (device_memory, partitions) = MACHINES[n % MACHINES.len()];
        let chunk_rows = match CHUNK_ROWS[n % CHUNK_ROWS.len()] {
            "1 or 5" if (n / CHUNK_ROWS.len()).is_multiple_of(SHORTEST) => "1",
            "1 or 5" => "5",
            rows => rows,
        };
        Self {
            strategy: "auto",
            // Each of them meets each machine.
            group_strategy: GROUP_STRATEGIES[n / MACHINES.len() % GROUP_STRATEGIES.len()],
            chunk_rows,
            device_memory,
            batch_size: BATCH_SIZES[n % BATCH_SIZES.len()],
            partitions,
        }
    }

    pub fn with_strategy(self, strategy: &'static str) -> Self {
        Self { strategy, ..self }
    }

    pub fn apply(&self, ctx: &SessionContext) {
        set(ctx, "bowtie.theta_strategy", self.strategy);
        set(ctx, "bowtie.group_strategy", self.group_strategy);
        set(ctx, "bowtie.chunk_rows", self.chunk_rows);
        set(ctx, "bowtie.device_memory", self.device_memory);
        set(
            ctx,
            "datafusion.execution.batch_size",
            &self.batch_size.to_string(),
        );
        set(
            ctx,
            "datafusion.execution.target_partitions",
            &self.partitions.to_string(),
        );
    }
}
