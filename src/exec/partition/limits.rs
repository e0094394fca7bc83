//! [`Limits`]: what copies of rows may take, and how many there are of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};

use crate::device::primitives::device::Device;
use crate::exec::input::chunk::InputChunk;
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::transfer::chunk_limits::ChunkLimits;
use crate::runtime::host_memory::default_host_budget;

/// Parts at most: of a longer input they have several chunks.
const MOST_SPLITS: u32 = 256;
/// The same where each of them may have a file that is open.
const MOST_FILES: u32 = 64;
/// The share of the memory pool, or of what the host device would take, that chunks may take beside it while their rows are copied to
/// parts.
const SHARE_OF_COPIES: usize = 8;
/// A round takes at most so much of what the host device would, where no pool says what there is.
const SHARE_OF_ROUND: u64 = 2;

/// What parts of a node's inputs are made with.
pub(crate) struct Limits {
    pub spilling: Option<Spilling>,
    pub device: Arc<dyn Device>,
    pub reservation: Arc<MemoryReservation>,
    /// Chunks that are copied at the same time, if they are not long.
    threads: usize,
    /// Bytes of the memory pool, if it has a limit.
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
            reservation: Arc::new(MemoryConsumer::new("BowtieParts").register(pool)),
            threads: context.session_config().target_partitions(),
            pool: match pool.memory_limit() {
                MemoryLimit::Infinite => None,
                MemoryLimit::Finite(limit) => Some(limit),
                MemoryLimit::Unknown => Some(0),
            },
            metrics: metrics.clone(),
        }
    }

    /// Whether rows of these columns have room, or can be taken to files, where each piece of a dictionary would be one with all of its
    /// values.
    pub(crate) fn may_gather(&self, schema: &Schema) -> bool {
        let mut fields = schema.fields().iter();
        let is_dictionary =
            |field: &FieldRef| matches!(field.data_type(), DataType::Dictionary(..));
        match self.pool {
            None => true,
            Some(_) => self.spilling.is_some() && !fields.any(is_dictionary),
        }
    }

    pub(crate) fn most_partitions(&self) -> u32 {
        match self.pool {
            None => MOST_SPLITS,
            Some(_) => MOST_FILES,
        }
    }

    /// Rows of a round at most, such as those of a chunk.
    pub(crate) fn round_rows(&self, such: Option<&InputChunk>) -> Result<usize> {
        let (None, Some(such)) = (self.pool, such) else {
            return Ok(usize::MAX);
        };
        let row_bytes = such.bytes()?.div_ceil(such.rows().max(1) as u64).max(1);
        let rows = default_host_budget() / SHARE_OF_ROUND / row_bytes;
        Ok(usize::try_from(rows).unwrap_or(usize::MAX))
    }

    pub(crate) fn tasks(&self, limits: &ChunkLimits) -> usize {
        let all = self.pool.unwrap_or(default_host_budget() as usize);
        let most = all / SHARE_OF_COPIES / limits.bytes.max(1);
        self.threads.min(most).max(1)
    }
}
