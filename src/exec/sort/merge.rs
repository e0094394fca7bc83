//! [`Merge`]: merges sorted runs on the host, by DataFusion's merge. In: runs. Out: staged chunks in order.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

use crate::exec::chunk::sizes::batch_bytes;
use crate::exec::chunk::staged_chunk::StagedChunk;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::memory::spill::Spilling;
use crate::exec::sort::run_writer::Run;
use crate::spec::sort::SortSpec;

/// What runs are merged by.
pub(crate) struct Merge {
    pub(crate) spec: Arc<SortSpec>,
    /// Of the runs.
    pub(crate) schema: SchemaRef,
    pub(crate) spilling: Option<Spilling>,
    pub(crate) pool: Arc<dyn MemoryPool>,
    pub(crate) batch_size: usize,
}

impl Merge {
    /// The rows of all runs, in order.
    pub(crate) fn stream(self, runs: Vec<Run>) -> Result<DeviceStream> {
        let (mut streams, mut files) = (vec![], vec![]);
        for run in runs {
            match run {
                Run::InFile(file) => files.push(file),
                Run::InMemory(batches, reservation) => {
                    let batches = stream::iter(batches).map(move |batch| {
                        let _held = &reservation;
                        Ok(batch)
                    });
                    let schema = Arc::clone(&self.schema);
                    let batches = RecordBatchStreamAdapter::new(schema, batches);
                    streams.push(Box::pin(batches) as SendableRecordBatchStream);
                }
            }
        }
        if streams.is_empty() && files.is_empty() {
            return Ok(stream::empty().boxed());
        }
        let keys = self.spec.keys.iter().map(|key| {
            let name = self.schema.field(key.column).name();
            let column = Column::new(name, key.column);
            PhysicalSortExpr::new(Arc::new(column), key.options)
        });
        let ordering = LexOrdering::new(keys);
        let ordering = ordering
            .ok_or_else(|| DataFusionError::Internal("bowtie: a sort without keys".into()))?;
        let consumer = MemoryConsumer::new("BowtieSort[merge]");
        let mut merge = StreamingMergeBuilder::new()
            .with_streams(streams)
            .with_sorted_spill_files(files)
            .with_schema(Arc::clone(&self.schema))
            .with_expressions(&ordering)
            // The sort's own metrics count its rows.
            .with_metrics(BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0))
            .with_batch_size(self.batch_size)
            .with_fetch(self.spec.fetch)
            .with_reservation(consumer.register(&self.pool));
        if let Some(spilling) = &self.spilling {
            merge = merge.with_spill_manager(spilling.manager(&self.schema));
        }
        let merged = merge.build()?;
        let chunks = merged.map_ok(move |batch| self.staged(&batch));
        Ok(chunks
            .and_then(std::future::ready)
            .map_ok(DeviceChunk::Staged)
            .boxed())
    }

    /// The columns of the output.
    fn staged(&self, batch: &RecordBatch) -> Result<StagedChunk> {
        let columns: Vec<usize> = (0..self.spec.schema.fields().len()).collect();
        let batch = batch.project(&columns)?;
        let reservation = MemoryConsumer::new("BowtieSort[output]").register(&self.pool);
        // The merge reserved the batches that it copied these rows from: where the pool has no room for both, one batch goes
        // unreserved to its reader.
        let _ = reservation.try_grow(batch_bytes(&batch));
        Ok(StagedChunk::of(&batch, reservation))
    }
}
