//! Runs the blocking steps of an operator (device work, file I/O) on Tokio's blocking threads, never on a worker
//! thread. Tasks work for the node that starts them ([`Scope`]).

use std::future::Future;
use std::time::Instant;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};

use crate::device::trace::{self, Lane, Scope};
use crate::device::tracing_spans::Step;
use crate::error::BowtieError;
use crate::exec::metrics::DeviceMetrics;

/// Starts `work` on a blocking thread.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> SpawnedTask<T> {
    let scope = trace::current();
    let step = Step::of(scope.as_ref().map(|scope| scope.operator));
    SpawnedTask::spawn_blocking(move || {
        let begun = Instant::now();
        let entered = trace::enter(scope);
        let done = step.run(work);
        if let Some(Scope {
            trace: Some(trace),
            node,
            ..
        }) = trace::current()
        {
            trace.add_host(Lane::Host, "step", begun, begun.elapsed(), node);
        }
        drop(entered);
        done
    })
}

/// Starts a task.
pub(crate) fn spawn<F>(task: F) -> SpawnedTask<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    SpawnedTask::spawn(trace::in_scope(task))
}

/// The value of a task.
///
/// # Errors
/// If it was cancelled. A panic of the task goes on here.
pub(crate) async fn joined<T: Send + 'static>(task: SpawnedTask<T>) -> Result<T> {
    let done = task.join_unwind().await;
    done.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))
}

/// Runs `step` on `run` on a blocking thread and returns both. The time counts as the node's `elapsed_compute`. Where
/// the step fails, `run` is dropped.
pub(crate) async fn blocking<R: Send + 'static, T: Send + 'static>(
    metrics: &DeviceMetrics,
    mut run: R,
    step: impl FnOnce(&mut R) -> crate::error::Result<T> + Send + 'static,
) -> Result<(R, T)> {
    let timer = metrics.baseline.elapsed_compute().timer();
    let (run, made) = joined(spawn_blocking(move || {
        let made = step(&mut run);
        (run, made)
    }))
    .await?;
    timer.done();
    Ok((run, made.map_err(of_operator)?))
}

/// Runs `work` on a blocking thread, without a metric.
pub(crate) async fn blocking_task<T: Send + 'static>(
    work: impl FnOnce() -> crate::error::Result<T> + Send + 'static,
) -> Result<T> {
    let made = joined(spawn_blocking(work)).await?;
    Ok(made.map_err(of_operator)?)
}

/// The error of a step, which no one retries any more, with the name of the node that this thread works for.
fn of_operator(error: BowtieError) -> BowtieError {
    match trace::current() {
        Some(scope) => error.in_operator(scope.operator),
        None => error,
    }
}
