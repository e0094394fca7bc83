//! [`Collected`]: the rows of a plan that several executions read. In: a plan. Out: its batches, for each reader.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;
use tokio::sync::OnceCell;

/// Rows that are read once, by whoever needs them first, and kept until the last reader is gone. Their memory is reserved in the pool.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    rows: OnceCell<Result<Rows, Arc<DataFusionError>>>,
}

#[derive(Debug)]
struct Rows {
    batches: Vec<RecordBatch>,
    _held: MemoryReservation,
}

impl Collected {
    /// The batches of all partitions of `plan`.
    pub(crate) async fn batches(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<RecordBatch>> {
        let read = || async { read(plan, context).await.map_err(Arc::new) };
        match self.rows.get_or_init(read).await {
            Ok(rows) => Ok(rows.batches.clone()),
            Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }
}

async fn read(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Rows> {
    let held = MemoryConsumer::new("BowtieStage[collected]").register(context.memory_pool());
    let mut batches = vec![];
    let mut rows = execute_stream(Arc::clone(plan), Arc::clone(context))?;
    while let Some(batch) = rows.try_next().await? {
        held.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    Ok(Rows {
        batches,
        _held: held,
    })
}
