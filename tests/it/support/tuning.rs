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
    pub batch_size: usize,
    pub partitions: usize,
}

pub(crate) const BATCH_SIZES: [usize; 7] = [1, 2, 7, 49, 50, 51, 8192];

/// A chunk of one row makes a tile of every pair, which is slow. So most short chunks have a few rows.
const CHUNK_ROWS: [&str; 5] = ["auto", "7", "auto", "16", "1 or 5"];

/// The factor by which short chunks are longer on a GPU: odd, so that they do not end with a word of a bitmap.
const LONGER_ON_GPU: usize = 7;

/// One in so many short chunks has one row.
const SHORTEST: usize = 6;

/// Device memory and target partitions.
const MACHINES: [(&str, usize); 4] = [("auto", 1), ("1MB", 4), ("auto", 4), ("1MB", 1)];

/// All values of `bowtie.group_strategy`.
pub(crate) const GROUP_STRATEGIES: [&str; 6] = [
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
            // Each of them is combined with each machine.
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

    /// On a GPU, where a chunk of any size takes dozens of launches, short chunks are longer. The walk over chunks is the same code for
    /// all devices.
    fn chunk_rows(&self) -> String {
        match (self.chunk_rows.parse::<usize>(), device().as_str()) {
            (Ok(rows), device) if device != "host" => (LONGER_ON_GPU * rows).to_string(),
            _ => self.chunk_rows.to_string(),
        }
    }

    pub fn apply(&self, ctx: &SessionContext) {
        set(ctx, "bowtie.theta_strategy", self.strategy);
        set(ctx, "bowtie.group_strategy", self.group_strategy);
        set(ctx, "bowtie.chunk_rows", &self.chunk_rows());
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
