//! [`GroupOutput`]: emits the finished groups of a run. In: batches on the device or on the host. Out: chunks; those on
//! the host are reserved in DataFusion's memory pool.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use futures::{StreamExt, stream};

use crate::device::batches::batch::DeviceBatch;
use crate::exec::blocking::blocking;
use crate::exec::chunk::staged_chunk::StagedChunk;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::metrics::DeviceMetrics;

/// A batch of finished groups.
pub(crate) enum Finished {
    OnDevice(DeviceBatch),
    OnHost(RecordBatch),
}

/// A run that has read all rows, and makes its groups batch by batch.
pub(crate) trait FinishedRun: Send + 'static {
    /// The next groups; `None` at the end.
    fn next_groups(&mut self) -> crate::error::Result<Option<Finished>>;
}

/// Emits groups, and reserves those on the host in the memory pool before.
pub(crate) struct GroupOutput {
    name: String,
    pool: Arc<dyn MemoryPool>,
    /// Groups that the pool refused. The reader was told of memory pressure.
    waiting: Option<RecordBatch>,
    metrics: DeviceMetrics,
}

impl GroupOutput {
    pub(crate) fn new(name: &str, pool: &Arc<dyn MemoryPool>, metrics: DeviceMetrics) -> Self {
        Self {
            name: format!("{name}[output]"),
            pool: Arc::clone(pool),
            waiting: None,
            metrics,
        }
    }

    /// All groups of a run.
    pub(crate) fn stream(self, run: impl FinishedRun) -> DeviceStream {
        let next = |(mut output, run): (Self, _)| async move {
            let (run, chunk) = output.next(run).await?;
            if chunk.is_none() {
                output.metrics.baseline.done();
            }
            Ok(chunk.map(|chunk| (chunk, (output, run))))
        };
        stream::try_unfold((self, run), next).boxed()
    }

    /// The next groups of a run; `None` at the end.
    pub(crate) async fn next<R: FinishedRun>(
        &mut self,
        run: R,
    ) -> Result<(R, Option<DeviceChunk>)> {
        let (run, chunk) = match self.waiting.take() {
            Some(groups) => (run, self.staged(groups, true)?),
            None => {
                let (run, groups) = blocking(&self.metrics, run, R::next_groups).await?;
                let chunk = match groups {
                    None => return Ok((run, None)),
                    Some(Finished::OnDevice(batch)) => DeviceChunk::Resident(batch),
                    Some(Finished::OnHost(groups)) => self.staged(groups, false)?,
                };
                (run, chunk)
            }
        };
        self.metrics.baseline.record_output(chunk.rows());
        Ok((run, Some(chunk)))
    }

    /// A staged chunk of `groups`, or the signal of memory pressure if the pool refuses them for the first time. Fails
    /// if the pool refuses them `again`.
    fn staged(&mut self, groups: RecordBatch, again: bool) -> Result<DeviceChunk> {
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
