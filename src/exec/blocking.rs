//! [`blocking`]: steps of a run on threads that may block.

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};

use crate::exec::metrics::DeviceMetrics;

/// Does `step` of a run on a thread that may block.
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

/// Does `work` on a thread that may block.
pub(crate) async fn blocking_task<T: Send + 'static>(
    work: impl FnOnce() -> crate::error::Result<T> + Send + 'static,
) -> Result<T> {
    let done = SpawnedTask::spawn_blocking(work).join_unwind().await;
    Ok(done.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??)
}
