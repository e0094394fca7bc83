//! [`Driver`]: the async part of a join. In: the chunk streams of both inputs. It gathers the left chunks, feeds the
//! right chunks to a [`JoinWalk`], runs the steps of the walk on blocking threads, and returns their output chunks.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, stream};

use crate::device::primitives::device::Device;
use crate::exec::blocking::{blocking_task, spawn_blocking};
use crate::exec::chunk::DeviceChunk;
use crate::exec::chunk::chunk_limits::Role;
use crate::exec::input::chunk::{Input, InputStream};
use crate::exec::input::coalesce::inputs;
use crate::exec::input::prefetch::Prefetch;
use crate::exec::join::gather::{gather, needs_right_without_left};
use crate::exec::join::grace_join::Grace;
use crate::exec::join::walk::{JoinWalk, MatchSink, WalkInputs};
use crate::exec::memory::on_request::await_or_evict;
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::Execution;
use crate::spec::join::JoinSpec;

/// The output of a step.
type StepOutput = crate::error::Result<Vec<DeviceChunk>>;

/// Makes the walk, on a blocking thread.
type Make<S> = Box<dyn FnOnce(WalkInputs) -> crate::error::Result<JoinWalk<S>> + Send>;

/// The state of a join's execution between two steps.
pub(crate) struct Driver<S: MatchSink> {
    spec: Arc<JoinSpec>,
    device: Arc<dyn Device>,
    spilling: Option<Spilling>,
    metrics: DeviceMetrics,
    grace: Arc<Grace>,
    /// The inputs and the constructor of the walk, until the left chunks are gathered.
    sides: Option<(InputStream, InputStream, Make<S>)>,
    right: Option<Prefetch>,
    /// `None` while a step runs.
    walk: Option<JoinWalk<S>>,
    /// A running step. It may have started while the consumer still reads the output of the previous one.
    step: Option<SpawnedTask<(JoinWalk<S>, StepOutput)>>,
    /// Output that the consumer has not read yet.
    ready: VecDeque<DeviceChunk>,
    /// Output rows so far.
    emitted: usize,
}

impl<S: MatchSink> Driver<S> {
    /// Makes the driver of a join of the two inputs of `execution`. `make` makes the walk once the left chunks are
    /// gathered.
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

    /// The next output chunk; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<DeviceChunk>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                // The download truncates the last chunk to the limit.
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
                // If device memory allows for both, the next step runs while the consumer reads the output of this one.
                let beside = !self.device.budget().is_scarce(0) && !self.ready.is_empty();
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
            let Some(walk) = self.walk.take() else {
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
            let (mut walk, input) = match &mut self.right {
                Some(right) => await_or_evict(&self.device, walk, right.next()).await?,
                None => (walk, None),
            };
            self.step = Some(match input {
                Some(Input::MemoryPressure) => {
                    self.start(walk, |walk| walk.leave_pool().map(|()| vec![]))
                }
                Some(Input::Chunk(chunk)) => self.start(walk, |walk| {
                    walk.push_right(chunk)?;
                    walk.step()
                }),
                None => {
                    walk.end_right()?;
                    self.start(walk, JoinWalk::step)
                }
            });
        }
    }

    /// The finished walk.
    pub(crate) fn into_walk(self) -> Result<JoinWalk<S>> {
        let walk = self.walk.filter(JoinWalk::is_done);
        walk.ok_or_else(|| DataFusionError::Internal("bowtie: a join has not ended".into()))
    }

    /// Gathers the left chunks, makes the walk over them, and starts to prefetch the right side.
    async fn begin(
        &mut self,
        left: InputStream,
        right: InputStream,
        make: Make<S>,
    ) -> Result<JoinWalk<S>> {
        let left = gather(left, &self.device, self.spilling.as_ref()).await?;
        // With an empty left side the right one is not read, as in DataFusion's hash join. So an expression that would
        // fail there does not fail the query.
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

    /// Starts a step on a blocking thread.
    fn start(
        &self,
        mut walk: JoinWalk<S>,
        step: impl FnOnce(&mut JoinWalk<S>) -> StepOutput + Send + 'static,
    ) -> SpawnedTask<(JoinWalk<S>, StepOutput)> {
        let elapsed = self.metrics.baseline.elapsed_compute().clone();
        spawn_blocking(move || {
            let _timer = elapsed.timer();
            let made = step(&mut walk);
            (walk, made)
        })
    }
}
