//! [`StagedChunk`]: rows on the host on their way to the device.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;

/// A chunk that waits on the host, counted in DataFusion's memory pool until it is dropped.
#[derive(Debug)]
pub(crate) struct StagedChunk {
    /// The columns of the plan below, then the evaluated expressions.
    pub(crate) batch: RecordBatch,
    /// Evaluated columns that have no value on some row, and why; they are NULL then.
    pub(crate) failures: Vec<(usize, Arc<DataFusionError>)>,
    pub(crate) reservation: Arc<MemoryReservation>,
}

impl StagedChunk {
    pub(crate) fn rows(&self) -> usize {
        self.batch.num_rows()
    }
}
