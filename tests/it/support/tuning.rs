//! Options that must not change the rows of a query.

use datafusion::prelude::*;

use crate::support::session::{device, set};

/// The options that tests vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tuning {
    pub strategy: &'static str,
    pub group_strategy: &'static str,
    pub chunk_rows: &'static str,
    pub device_memory: &'static str,
    /// `None`: as the session has it.
    pub cache: Option<&'static str>,
    pub batch_size: usize,
    pub partitions: usize,
}

pub(crate) const BATCH_SIZES: [usize; 7] = [1, 2, 7, 49, 50, 51, 8192];

/// Rows of a chunk, on the host and on a GPU. A chunk of one row makes a tile of every pair, which is slow, so most short chunks have a
/// few rows. On a GPU, where a chunk of any size takes dozens of launches, they have seven times as many: an odd factor, so that they do not
/// end with a word of a bitmap. The walk over chunks is the same code for all devices.
const CHUNK_ROWS: [(&str, &str); 5] = [
    ("auto", "auto"),
    ("7", "49"),
    ("auto", "auto"),
    ("16", "112"),
    ("5", "35"),
];
const ONE_ROW: (&str, &str) = ("1", "7");

/// Of the tunings with the shortest chunks, one in so many has chunks of one row.
const SHORTEST: usize = 6;

/// Device memory and target partitions.
const MACHINES: [(&str, usize); 4] = [("auto", 1), ("1MB", 4), ("auto", 4), ("1MB", 1)];

/// Columns of tables that stay on the device: none, all of a test's tables, and so few that they evict one another.
const CACHES: [&str; 3] = ["off", "1GB", "1MB"];

/// All values of `bowtie.group_strategy`.
pub(crate) const GROUP_STRATEGIES: [&str; 7] = [
    "auto",
    "hash_shared",
    "hash_global",
    "partition",
    "sort",
    "sort_dict",
    "runs",
];

impl Tuning {
    /// How many tunings there are, strategies aside.
    pub const COUNT: usize = BATCH_SIZES.len() * CHUNK_ROWS.len() * MACHINES.len();

    pub const PLAIN: Self = Self {
        strategy: "auto",
        group_strategy: "auto",
        chunk_rows: "auto",
        device_memory: "auto",
        cache: None,
        batch_size: 8192,
        partitions: 1,
    };

    /// Tuning `n`. The numbers of values are coprime, so any `COUNT` consecutive `n` are the full product, and any 35
    /// hold every pair of batch size and chunk size.
    pub fn nth(n: usize) -> Self {
        let (device_memory, partitions) = MACHINES[n % MACHINES.len()];
        let at = n % CHUNK_ROWS.len();
        let is_shortest =
            at == CHUNK_ROWS.len() - 1 && (n / CHUNK_ROWS.len()).is_multiple_of(SHORTEST);
        let (on_host, on_gpu) = match is_shortest {
            true => ONE_ROW,
            false => CHUNK_ROWS[at],
        };
        let chunk_rows = match device().as_str() {
            "host" => on_host,
            _ => on_gpu,
        };
        Self {
            strategy: "auto",
            // Each of them is combined with each machine.
            group_strategy: GROUP_STRATEGIES[n / MACHINES.len() % GROUP_STRATEGIES.len()],
            chunk_rows,
            device_memory,
            cache: Some(CACHES[n % CACHES.len()]),
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
        if let Some(cache) = self.cache {
            set(ctx, "bowtie.cache", cache);
        }
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
