//! Runs the blocking steps of an operator (device work, file I/O) on Tokio's blocking threads, never on a worker
//! thread.

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};

use crate::exec::metrics::DeviceMetrics;

/// Runs `step` on `run` on a blocking thread and returns both. The time counts as the node's `elapsed_compute`. Where
/// the step fails, `run` is dropped.
pub(crate) async fn blocking<R: Send + 'static, T: Send + 'static>(
    metrics: &DeviceMetrics,
    mut run: R,
    step: impl FnOnce(&mut R) -> crate::error::Result<T> + Send + 'static,
) -> Result<(R, T)> {
    let timer = metrics.baseline.elapsed_compute().timer();
    let (run, made) = SpawnedTask::spawn_blocking(move || {
        let made = step(&mut run);
        (run, made)
    })
    .join_unwind()
    .await
    .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
    timer.done();
    Ok((run, made?))
}

/// Runs `work` on a blocking thread, without a metric.
pub(crate) async fn blocking_task<T: Send + 'static>(
    work: impl FnOnce() -> crate::error::Result<T> + Send + 'static,
) -> Result<T> {
    let done = SpawnedTask::spawn_blocking(work).join_unwind().await;
    Ok(done.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??)
}
