//! [`Collected`]: the rows of a plan that several executions read. In: a plan. Out: its batches, for each reader.

use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, TryStreamExt};

/// Rows that are read once, and kept until the last reader is gone. Their memory is reserved in the pool.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Whoever waits for the rows reads on, so that a reader that goes takes none away.
    reading: OnceLock<Shared<BoxFuture<'static, Read>>>,
}

type Read = Result<Arc<Rows>, Arc<DataFusionError>>;

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
        let reading = self.reading.get_or_init(|| {
            let read = read(Arc::clone(plan), Arc::clone(context));
            read.map(|rows| rows.map(Arc::new).map_err(Arc::new))
                .boxed()
                .shared()
        });
        match reading.clone().await {
            Ok(rows) => Ok(rows.batches.clone()),
            Err(error) => Err(DataFusionError::Shared(error)),
        }
    }
}

async fn read(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Rows> {
    let held = MemoryConsumer::new("BowtieStage[collected]").register(context.memory_pool());
    let mut batches = vec![];
    let mut rows = execute_stream(plan, context)?;
    while let Some(batch) = rows.try_next().await? {
        held.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    Ok(Rows {
        batches,
        _held: held,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::physical_plan::Partitioning;
    use datafusion::physical_plan::repartition::RepartitionExec;

    use super::*;

    #[tokio::test]
    async fn a_reader_that_goes_takes_nothing_away() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let schema = batch.schema();
        let rows = MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None).unwrap();
        // It can be executed once.
        let exchange = RepartitionExec::try_new(rows, Partitioning::RoundRobinBatch(2)).unwrap();
        let plan: Arc<dyn ExecutionPlan> = Arc::new(exchange);
        let context = Arc::new(TaskContext::default());
        let collected = Collected::default();
        let first = collected.batches(&plan, &context).now_or_never();
        assert!(first.is_none(), "it did not wait");
        let batches = collected.batches(&plan, &context).await.unwrap();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 100);
    }
}
