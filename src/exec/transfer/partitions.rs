//! Reads all partitions of a plan concurrently. In: a DataFusion plan. Out: a stream of its batches, with key
//! expressions evaluated on the task that read them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::common::exec_err;
use datafusion::common::runtime::JoinSet;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, SendableRecordBatchStream,
};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::mpsc;

use crate::error::panics::message_of;
use crate::exec::transfer::evaluator::{Evaluated, Evaluator};

/// The most batches that a partition sends together, if they are ready: the reader is woken once for all of them.
const TOGETHER: usize = 4;
/// The number of messages of each partition that may wait for the reader. It is small, since nobody has reserved their
/// memory.
const WAITING: usize = 2;
/// The most messages of all partitions that may wait.
const MOST_WAITING: usize = 64;

/// Executes a partition of a plan. Its batches end with an error where the plan panics.
pub(crate) fn without_panics(
    plan: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let name = plan.name().to_owned();
    // A stream that has panicked is not polled again.
    let caught = AssertUnwindSafe(plan.execute(partition, context)?).catch_unwind();
    let batches = caught.map(move |batch| {
        batch.unwrap_or_else(|panic| {
            let message = message_of(panic.as_ref());
            exec_err!("{name} panicked while bowtie read its rows: {message}")
        })
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(
        plan.schema(),
        batches,
    )))
}

/// The evaluated batches of all partitions of `input`, in any order. There is a task for each partition, which ends
/// with the stream. A panic of `input` is an error of the query, as it is where DataFusion reads it in a task.
pub(crate) fn evaluated(
    input: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    evaluator: &Evaluator,
    metrics: &BaselineMetrics,
) -> Result<BoxStream<'static, Result<Evaluated>>> {
    let partition = |partition| {
        let batches = without_panics(input, partition, Arc::clone(context))?;
        let (evaluator, elapsed) = (evaluator.clone(), metrics.elapsed_compute().clone());
        Ok::<_, DataFusionError>(batches.map(move |batch| {
            let _timer = elapsed.timer();
            evaluator.evaluate(&batch?)
        }))
    };
    let partitions = input.output_partitioning().partition_count();
    match partitions {
        0 => return Ok(stream::empty().boxed()),
        1 => return Ok(partition(0)?.boxed()),
        _ => {}
    }
    // With less capacity than the partitions need, all of them would wait while the reader's thread is busy.
    let (sender, receiver) = mpsc::channel((WAITING * partitions).min(MOST_WAITING));
    let mut tasks = JoinSet::new();
    for i in 0..partitions {
        let (mut batches, sender) = (partition(i)?, sender.clone());
        tasks.spawn(async move {
            while let Some(first) = batches.next().await {
                let mut together = vec![first];
                // A stream ends after an error.
                while together.len() < TOGETHER && together.last().is_some_and(Result::is_ok) {
                    match batches.next().now_or_never() {
                        Some(Some(next)) => together.push(next),
                        // A stream that has ended says so again when it is polled next.
                        Some(None) | None => break,
                    }
                }
                let failed = together.last().is_some_and(Result::is_err);
                // The reader is gone, or the stream has failed and ends.
                if sender.send(together).await.is_err() || failed {
                    return;
                }
                // A reader that the send has woken is scheduled next on this same thread. Without the yield it would
                // wait until this task has read, and perhaps filtered, another round of batches.
                tokio::task::yield_now().await;
            }
        });
    }
    let merged = stream::unfold((receiver, tasks), |(mut receiver, mut tasks)| async move {
        if let Some(batches) = receiver.recv().await {
            return Some((stream::iter(batches), (receiver, tasks)));
        }
        // All senders were dropped. A task that panicked sent no error.
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok(()) => {}
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(error) => {
                    let error = DataFusionError::ExecutionJoin(Box::new(error));
                    return Some((stream::iter(vec![Err(error)]), (receiver, tasks)));
                }
            }
        }
        None
    });
    Ok(merged.flatten().boxed())
}
