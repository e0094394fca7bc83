//! [`GroupOutput`]: finished groups on the host, on their way to who reads them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};

use crate::exec::chunk::DeviceChunk;
use crate::exec::transfer::staged_chunk::StagedChunk;

/// Reserves groups in DataFusion's memory pool as they come out.
pub(crate) struct GroupOutput {
    name: String,
    pool: Arc<dyn MemoryPool>,
    /// Groups for which the pool had no room; the reader was told so.
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

    /// Groups that are to be tried again.
    pub(crate) fn take_waiting(&mut self) -> Option<RecordBatch> {
        self.waiting.take()
    }

    /// A chunk of groups; a crowded one, the first time that there is no room for them.
    pub(crate) fn chunk(&mut self, groups: RecordBatch, again: bool) -> Result<DeviceChunk> {
        let reservation = MemoryConsumer::new(self.name.clone()).register(&self.pool);
        let reserved = reservation.try_grow(groups.get_array_memory_size());
        if !again && reserved.is_err() {
            self.waiting = Some(groups);
            return Ok(DeviceChunk::Staged(StagedChunk::memory_pressure(
                reservation,
            )));
        }
        reserved?;
        Ok(DeviceChunk::Staged(StagedChunk::of(&groups, reservation)))
    }
}
