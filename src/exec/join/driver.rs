//! [`Driver`]: feeds a [`JoinWalk`] with the chunks of both sides, and hands on what it makes.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, stream};

use crate::device::primitives::device::Device;
use crate::exec::blocking::blocking_task;
use crate::exec::chunk::DeviceChunk;
use crate::exec::input::chunk::InputStream;
use crate::exec::input::coalesce::inputs;
use crate::exec::input::prefetch::Prefetch;
use crate::exec::join::gather::{gather, needs_right_without_left};
use crate::exec::join::walk::{JoinWalk, MatchSink, WalkInputs};
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::Execution;
use crate::exec::partition::grace_join::Grace;
use crate::exec::transfer::chunk_limits::Role;
use crate::spec::join::JoinSpec;

type StepResult = crate::error::Result<Vec<DeviceChunk>>;

/// Makes the walk. It may block.
type Make<S> = Box<dyn FnOnce(WalkInputs) -> crate::error::Result<JoinWalk<S>> + Send>;

/// Everything an execution holds between two steps.
pub(crate) struct Driver<S: MatchSink> {
    spec: Arc<JoinSpec>,
    device: Arc<dyn Device>,
    spilling: Option<Spilling>,
    metrics: DeviceMetrics,
    grace: Arc<Grace>,
    /// Until all left chunks are there.
    sides: Option<(InputStream, InputStream, Make<S>)>,
    right: Option<Prefetch>,
    /// Taken while a step runs.
    walk: Option<JoinWalk<S>>,
    /// The step that runs while the output of the last one is read.
    step: Option<SpawnedTask<(JoinWalk<S>, StepResult)>>,
    ready: VecDeque<DeviceChunk>,
    emitted: usize,
}

impl<S: MatchSink> Driver<S> {
    /// For a join of the two inputs of `execution`, whose walk `make` makes.
    pub(crate) fn new(
        execution: &Execution<'_>,
        spec: Arc<JoinSpec>,
        metrics: DeviceMetrics,
        make: impl FnOnce(WalkInputs) -> crate::error::Result<JoinWalk<S>> + Send + 'static,
    ) -> Result<Self> {
        let [left, right] = execution.inputs()?;
        let (device, context) = (&execution.device, &execution.context);
        let spilling = Spilling::of(context, execution.metrics);
        let input = |side, role| inputs(side, device, role, context, spilling.as_ref());
        Ok(Self {
            grace: Arc::new(Grace::new(
                Arc::clone(&spec),
                device,
                context,
                spilling.as_ref(),
                &metrics,
            )),
            sides: Some((
                input(left, Role::Left)?,
                input(right, Role::Right)?,
                Box::new(make),
            )),
            right: None,
            walk: None,
            step: None,
            ready: VecDeque::new(),
            spec,
            device: Arc::clone(device),
            spilling,
            metrics,
            emitted: 0,
        })
    }

    /// The next chunk of output; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<DeviceChunk>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                // The download cuts the last chunk.
                let wanted = self
                    .spec
                    .fetch
                    .map_or(usize::MAX, |fetch| fetch - self.emitted);
                let rows = chunk.rows().min(wanted);
                self.emitted += rows;
                self.metrics.baseline.record_output(rows);
                return Ok(Some(chunk));
            }
            if self.spec.fetch.is_some_and(|fetch| self.emitted >= fetch) {
                (self.walk, self.step) = (None, None);
                return Ok(None);
            }
            if let Some(step) = self.step.take() {
                let (walk, made) = step
                    .join_unwind()
                    .await
                    .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
                self.ready.extend(made?);
                // The next step runs while this one's output is read, if there is memory for both.
                let budget = self.device.budget();
                let half_is_free = budget.in_use_by_all() < budget.limit() / 2;
                let beside = half_is_free && !self.ready.is_empty();
                match beside && !walk.is_done() && !walk.wants_right() {
                    true => self.step = Some(self.start(walk, JoinWalk::step_concurrently)),
                    false => self.walk = Some(walk),
                }
                continue;
            }
            if let Some((left, right, make)) = self.sides.take() {
                let walk = self.begin(left, right, make).await?;
                self.step = Some(self.start(walk, |walk| walk.preload().map(|()| vec![])));
                continue;
            }
            let Some(mut walk) = self.walk.take() else {
                return Ok(None);
            };
            if walk.is_done() {
                self.walk = Some(walk);
                return Ok(None);
            }
            if !walk.wants_right() {
                self.step = Some(self.start(walk, JoinWalk::step));
                continue;
            }
            let arriving = match &mut self.right {
                Some(right) => right.next().await?,
                None => None,
            };
            self.step = Some(match arriving {
                Some(arriving) if arriving.chunk.is_memory_pressure() => {
                    self.start(walk, |walk| walk.leave_pool().map(|()| vec![]))
                }
                Some(arriving) => self.start(walk, |walk| {
                    walk.push_right(arriving)?;
                    walk.step()
                }),
                None => {
                    walk.end_right()?;
                    self.start(walk, JoinWalk::step)
                }
            });
        }
    }

    /// The walk, once its last chunk came out.
    pub(crate) fn into_walk(self) -> Result<JoinWalk<S>> {
        let walk = self.walk.filter(JoinWalk::is_done);
        walk.ok_or_else(|| DataFusionError::Internal("bowtie: a join has not ended".into()))
    }

    /// The walk over all left chunks, and the right side being read.
    async fn begin(
        &mut self,
        left: InputStream,
        right: InputStream,
        make: Make<S>,
    ) -> Result<JoinWalk<S>> {
        let left = gather(left, self.spilling.as_ref()).await?;
        // Then the right side is not read, as in a hash join: an expression that fails there fails no query.
        let reads_right = !left.is_empty() || needs_right_without_left(self.spec.kind);
        let (left, right) = match reads_right {
            true => self.grace.sides(left, right).await?,
            false => (left, stream::empty().boxed()),
        };
        let inputs = WalkInputs {
            device: Arc::clone(&self.device),
            spec: Arc::clone(&self.spec),
            left,
            spilling: self.spilling.clone(),
            metrics: self.metrics.clone(),
        };
        let walk = blocking_task(move || make(inputs)).await?;
        let mut right = Prefetch::new(
            right,
            Arc::clone(&self.device),
            walk.needed_right(),
            self.spilling.clone(),
            self.metrics.clone(),
        );
        right.start();
        self.right = Some(right);
        Ok(walk)
    }

    /// Starts the next step on a thread that may block.
    fn start(
        &self,
        mut walk: JoinWalk<S>,
        step: impl FnOnce(&mut JoinWalk<S>) -> StepResult + Send + 'static,
    ) -> SpawnedTask<(JoinWalk<S>, StepResult)> {
        let elapsed = self.metrics.baseline.elapsed_compute().clone();
        SpawnedTask::spawn_blocking(move || {
            let _timer = elapsed.timer();
            let made = step(&mut walk);
            (walk, made)
        })
    }
}
