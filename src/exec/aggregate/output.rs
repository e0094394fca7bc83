//! [`GroupOutput`]: turns finished groups on the host into staged chunks, reserved in DataFusion's memory pool.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};

use crate::exec::chunk::DeviceChunk;
use crate::exec::transfer::staged_chunk::StagedChunk;

/// Reserves groups in the memory pool before they are emitted.
pub(crate) struct GroupOutput {
    name: String,
    pool: Arc<dyn MemoryPool>,
    /// Groups that the pool refused. The reader was told of memory pressure.
    waiting: Option<RecordBatch>,
}

impl GroupOutput {
    pub(crate) fn new(name: &str, pool: &Arc<dyn MemoryPool>) -> Self {
        Self {
            name: format!("{name}[output]"),
            pool: Arc::clone(pool),
            waiting: None,
        }
    }

    /// The refused groups, to be tried again.
    pub(crate) fn take_waiting(&mut self) -> Option<RecordBatch> {
        self.waiting.take()
    }

    /// A staged chunk of `groups`, or the signal of memory pressure if the pool refuses them for the first time. Fails
    /// if the pool refuses them `again`.
    pub(crate) fn chunk(&mut self, groups: RecordBatch, again: bool) -> Result<DeviceChunk> {
        let reservation = MemoryConsumer::new(self.name.clone()).register(&self.pool);
        let reserved = reservation.try_grow(groups.get_array_memory_size());
        if !again && reserved.is_err() {
            self.waiting = Some(groups);
            return Ok(DeviceChunk::MemoryPressure);
        }
        reserved?;
        Ok(DeviceChunk::Staged(StagedChunk::of(&groups, reservation)))
    }
}
