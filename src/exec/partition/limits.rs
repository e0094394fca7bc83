//! [`Limits`]: how much memory partitioning may take, and how many partitions there may be.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};

use crate::device::primitives::device::Device;
use crate::exec::chunk::chunk_limits::ChunkLimits;
use crate::exec::input::chunk::InputChunk;
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::runtime::host_memory::default_host_budget;

/// The most partitions. A longer input has several chunks a partition.
const MOST_SPLITS: u32 = 256;
/// The same if each partition may have an open file.
const MOST_FILES: u32 = 64;
/// The share of the memory pool, or of the host's default budget without a pool limit, that chunks may take while their
/// rows are copied to partitions.
const SHARE_OF_COPIES: usize = 8;
/// The share of the host's default budget that a round may take without a pool limit.
const SHARE_OF_ROUND: u64 = 2;

/// The limits of a node that partitions its inputs, and what it partitions with.
pub(crate) struct Limits {
    pub spilling: Option<Spilling>,
    pub device: Arc<dyn Device>,
    /// An empty reservation, from which those of copies are made.
    pub reservation: Arc<MemoryReservation>,
    /// The most chunks that are copied concurrently, if they are not long.
    threads: usize,
    /// Bytes of the memory pool, if it has a limit; 0 if the limit is unknown.
    pool: Option<usize>,
    pub metrics: DeviceMetrics,
}

impl Limits {
    pub(crate) fn new(
        context: &TaskContext,
        device: &Arc<dyn Device>,
        spilling: Option<&Spilling>,
        metrics: &DeviceMetrics,
    ) -> Self {
        let pool = context.memory_pool();
        Self {
            spilling: spilling.cloned(),
            device: Arc::clone(device),
            reservation: Arc::new(MemoryConsumer::new("BowtiePartitions").register(pool)),
            threads: context.session_config().target_partitions(),
            pool: match pool.memory_limit() {
                MemoryLimit::Infinite => None,
                MemoryLimit::Finite(limit) => Some(limit),
                MemoryLimit::Unknown => Some(0),
            },
            metrics: metrics.clone(),
        }
    }

    /// Whether rows of these columns can be gathered: memory is unlimited, or rows can be spilled. Dictionaries are
    /// excluded then, since each piece of one would be written with all values.
    pub(crate) fn may_gather(&self, schema: &Schema) -> bool {
        let mut fields = schema.fields().iter();
        let is_dictionary =
            |field: &FieldRef| matches!(field.data_type(), DataType::Dictionary(..));
        match self.pool {
            None => true,
            Some(_) => self.spilling.is_some() && !fields.any(is_dictionary),
        }
    }

    /// The most partitions.
    pub(crate) fn most_partitions(&self) -> u32 {
        match self.pool {
            None => MOST_SPLITS,
            Some(_) => MOST_FILES,
        }
    }

    /// The most rows of a round, if rows are as wide as those of `such`.
    pub(crate) fn round_rows(&self, such: Option<&InputChunk>) -> Result<usize> {
        let (None, Some(such)) = (self.pool, such) else {
            return Ok(usize::MAX);
        };
        let row_bytes = such.bytes()?.div_ceil(such.rows().max(1) as u64).max(1);
        let rows = default_host_budget() / SHARE_OF_ROUND / row_bytes;
        Ok(usize::try_from(rows).unwrap_or(usize::MAX))
    }

    /// The number of chunks that are copied concurrently.
    pub(crate) fn tasks(&self, limits: &ChunkLimits) -> usize {
        let all = self.pool.unwrap_or(default_host_budget() as usize);
        let most = all / SHARE_OF_COPIES / limits.bytes.max(1);
        self.threads.min(most).max(1)
    }
}
