//! [`Driver`]: one execution of a join, as a stream of chunks.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, stream};

use crate::device::primitives::device::Device;
use crate::exec::chunk::DeviceChunk;
use crate::exec::input::chunk::InputStream;
use crate::exec::input::prefetch::Prefetch;
use crate::exec::join::gather::{gather, needs_right_without_left};
use crate::exec::join::run::JoinRun;
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::partition::grace_join::Grace;
use crate::exec::partition::partitioner::blocking;
use crate::spec::join::JoinSpec;

/// Everything an execution holds between two steps.
pub(crate) struct Driver {
    pub(crate) left: Option<InputStream>,
    /// Until the left side is there.
    pub(crate) right: Option<InputStream>,
    pub(crate) ahead: Option<Prefetch>,
    /// Taken while a step runs.
    pub(crate) run: Option<JoinRun>,
    /// The step that runs while the pieces of the last one are read.
    pub(crate) step: Option<SpawnedTask<(JoinRun, crate::error::Result<Vec<DeviceChunk>>)>>,
    pub(crate) ready: VecDeque<DeviceChunk>,
    pub(crate) spec: Arc<JoinSpec>,
    pub(crate) grace: Arc<Grace>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) spilling: Option<Spilling>,
    pub(crate) metrics: DeviceMetrics,
    pub(crate) emitted: usize,
}

impl Driver {
    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<DeviceChunk>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                // The download cuts the last piece.
                let wanted = self
                    .spec
                    .fetch
                    .map_or(usize::MAX, |fetch| fetch - self.emitted);
                let rows = piece.rows().min(wanted);
                self.emitted += rows;
                self.metrics.baseline.record_output(rows);
                return Ok(Some(piece));
            }
            if self.spec.fetch.is_some_and(|fetch| self.emitted >= fetch) {
                (self.run, self.step) = (None, None);
                return Ok(None);
            }
            if let Some(step) = self.step.take() {
                let (run, made) = step
                    .join_unwind()
                    .await
                    .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
                self.ready.extend(made?);
                // The next step runs while this one's pieces are read, if there is room for both.
                let budget = self.device.budget();
                let room = budget.in_use_by_all() < budget.limit() / 2;
                let beside = room && !self.ready.is_empty();
                match beside && !run.is_done() && !run.wants_right() {
                    true => self.step = Some(self.start(run, JoinRun::step_beside)),
                    false => self.run = Some(run),
                }
                continue;
            }
            if self.left.is_some() {
                let left = gather(self.left.take(), self.spilling.as_ref()).await?;
                if left.is_empty() && !needs_right_without_left(self.spec.kind) {
                    return Ok(None);
                }
                let right = self.right.take().unwrap_or_else(|| stream::empty().boxed());
                let (left, right) = self.grace.sides(left, right).await?;
                let (device, metrics) = (Arc::clone(&self.device), self.metrics.clone());
                let (spec, spilling) = (Arc::clone(&self.spec), self.spilling.clone());
                let of_run = metrics.clone();
                let new = move || JoinRun::new(device, spec, left, spilling, of_run);
                let run = blocking(new).await?;
                let (device, spilling) = (Arc::clone(&self.device), self.spilling.clone());
                let mut ahead = Prefetch::new(right, device, run.needed_right(), spilling, metrics);
                ahead.start();
                self.ahead = Some(ahead);
                self.step = Some(self.start(run, |run| run.preload().map(|()| vec![])));
                continue;
            }
            let Some(mut run) = self.run.take() else {
                return Ok(None);
            };
            if run.is_done() {
                self.metrics.baseline.done();
                return Ok(None);
            }
            if run.wants_right() {
                let arriving = match &mut self.ahead {
                    Some(ahead) => ahead.next().await?,
                    None => None,
                };
                match arriving {
                    Some(arriving) if arriving.chunk.is_memory_pressure() => {
                        self.step = Some(self.start(run, |run| run.leave_pool().map(|()| vec![])));
                        continue;
                    }
                    Some(arriving) => {
                        self.step = Some(self.start(run, |run| {
                            run.push_right(arriving)?;
                            run.step()
                        }));
                        continue;
                    }
                    None => run.end_right()?,
                }
            }
            self.step = Some(self.start(run, JoinRun::step));
        }
    }

    /// Starts the next step on a thread that may block.
    fn start(
        &self,
        mut run: JoinRun,
        step: impl FnOnce(&mut JoinRun) -> crate::error::Result<Vec<DeviceChunk>> + Send + 'static,
    ) -> SpawnedTask<(JoinRun, crate::error::Result<Vec<DeviceChunk>>)> {
        let elapsed = self.metrics.baseline.elapsed_compute().clone();
        SpawnedTask::spawn_blocking(move || {
            let _timer = elapsed.timer();
            let made = step(&mut run);
            (run, made)
        })
    }
}
