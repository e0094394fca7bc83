//! [`JoinOperator`]: a join on a device.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::JoinType;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryStreamExt, stream};

use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::input::chunk::{InputChunk, InputStream};
use crate::exec::input::coalesce::inputs;
use crate::exec::input::prefetch::Prefetch;
use crate::exec::join::run::JoinRun;
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceOperator, Execution, OutputOnDevice};
use crate::exec::partition::grace_join::Grace;
use crate::exec::partition::partitioner::blocking;
use crate::exec::transfer::chunker::Role;
use crate::spec::join::{JoinSpec, Output, join_columns};

/// Joins two device inputs by the [`JoinSpec`].
///
/// # Execution flow
/// 1. The left side is gathered into chunks on the host.
/// 2. Each chunk of the right side meets every left chunk, tile by tile: the sorted side is indexed once while it stays
///    resident, the other searches it, and matches are counted exactly before any is written.
/// 3. Pairs come out in pieces; rows without a partner at the end of their chunk (right) or of the join (left).
///
/// # Memory
/// Left chunks and the right chunk at hand are reserved in DataFusion's memory pool; what is on the device is leased from
/// `bowtie.device_memory`. A refused lease halves the tile, or the piece; where it asks for more than there is, the tile is cut
/// at once.
///
/// # Cancelling
/// Work is done in short blocking steps, so a dropped stream stops at the next one and frees everything.

#[derive(Debug)]
pub(crate) struct JoinOperator(pub(crate) Arc<JoinSpec>);

impl JoinOperator {
    pub(crate) fn fetch(&self) -> Option<usize> {
        self.0.fetch
    }

    pub(crate) fn with_fetch(&self, fetch: Option<usize>) -> Self {
        Self(Arc::new(JoinSpec {
            fetch,
            ..self.0.as_ref().clone()
        }))
    }

    /// The join with only these of its output columns.
    ///
    /// # Errors
    /// When it has no such column.
    pub(crate) fn with_output(&self, columns: &[usize]) -> Result<Self> {
        let known = &self.0.output;
        let output = columns
            .iter()
            .map(|i| {
                known.get(*i).copied().ok_or_else(|| {
                    DataFusionError::Internal(format!("bowtie: the join has no column {i}"))
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self(Arc::new(JoinSpec {
            output,
            ..self.0.as_ref().clone()
        })))
    }
}

impl DeviceOperator for JoinOperator {
    fn name(&self) -> &'static str {
        "BowtieJoinExec"
    }

    fn arity(&self) -> Option<usize> {
        Some(2)
    }

    fn display(
        &self,
        device: &dyn Device,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                fmt_join(&self.0, device, f)?;
                if let Some(fetch) = self.0.fetch {
                    write!(f, ", fetch={fetch}")?;
                }
                let schema = output_schema(&self.0).map_err(|_| fmt::Error)?;
                let columns: Vec<&str> = schema
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                write!(f, ", output=[{}]", columns.join(", "))
            }
            DisplayFormatType::TreeRender => fmt_join_tree(&self.0, device, f),
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        output_schema(&self.0)
    }

    fn emission(&self, _: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        (EmissionType::Both, Boundedness::Bounded)
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        let filters = self.0.residual.iter().chain(&self.0.whole_filter);
        filters.map(|filter| filter.expression()).collect()
    }

    /// Who downloads the rows of a join with a limit cuts them.
    fn with_output_on_device(&self) -> OutputOnDevice {
        match self.0.fetch {
            Some(_) => OutputOnDevice::No,
            None => OutputOnDevice::By(Arc::new(Self(Arc::new(JoinSpec {
                output_on_device: true,
                ..self.0.as_ref().clone()
            })))),
        }
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let [left, right] = execution.inputs()?;
        let Execution {
            device,
            context,
            metrics,
            ..
        } = execution;
        let spilling = Spilling::of(&context, metrics);
        let input = |side, role| inputs(side, &device, role, &context, spilling.as_ref());
        let metrics = DeviceMetrics::new(metrics);
        let (spec, spills) = (Arc::clone(&self.0), spilling.as_ref());
        let driver = Box::new(Driver {
            grace: Arc::new(Grace::new(spec, &device, &context, spills, &metrics)),
            left: Some(input(left, Role::Left)?),
            right: Some(input(right, Role::Right)?),
            ahead: None,
            run: None,
            step: None,
            ready: VecDeque::new(),
            spec: Arc::clone(&self.0),
            device: Arc::clone(&device),
            spilling: spilling.clone(),
            metrics,
            emitted: 0,
        });
        let pieces = stream::try_unfold(driver, |mut driver| async move {
            let piece = driver.next().await?;
            Ok(piece.map(|piece| (piece, driver)))
        });
        Ok(pieces.boxed())
    }
}

/// The schema of what comes out: that of DataFusion's join over the plans below, projected.
fn output_schema(spec: &JoinSpec) -> Result<SchemaRef> {
    let (left, right) = (spec.left.plan(), spec.right.plan());
    let (joined, _) = build_join_schema(left, right, &spec.kind);
    let columns = join_columns(spec.kind, left.fields().len(), right.fields().len());
    let fields = spec
        .output
        .iter()
        .map(|output| {
            if let Output::Column(side, i) = output
                && *i >= spec.input(*side).plan_columns()
            {
                // An expression, evaluated below: NULL on rows that are padded.
                return Ok(Arc::new(spec.input(*side).schema().field(*i).clone()));
            }
            columns
                .iter()
                .position(|column| column == output)
                .map(|at| Arc::clone(&joined.fields()[at]))
                .ok_or_else(|| {
                    DataFusionError::Internal(format!(
                        "bowtie: {output:?} is no column of the join"
                    ))
                })
        })
        .collect::<Result<Vec<Arc<Field>>>>()?;
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        spec.metadata.clone(),
    )))
}

/// Join type, strategy, condition and device, on one line.
pub(crate) fn fmt_join(
    spec: &JoinSpec,
    device: &dyn Device,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(
        f,
        "device={}, join_type={}, strategy={}, build={}",
        device.name(),
        spec.kind,
        spec.theta.strategy,
        spec.theta.build
    )?;
    if !spec.display.keys.is_empty() {
        write!(f, ", on=[{}]", spec.display.keys.join(", "))?;
    }
    if spec.null_aware {
        write!(f, ", null_aware")?;
    }
    if let Some(set) = &spec.display.set {
        write!(f, ", set={set}")?;
    }
    if !spec.display.theta.is_empty() {
        write!(f, ", theta=[{}]", spec.display.theta.join(", "))?;
    }
    if let Some(program) = &spec.display.program {
        write!(f, ", program={program}")?;
    }
    if let Some(residual) = &spec.display.residual {
        write!(f, ", residual={residual}")?;
    }
    Ok(())
}

/// The same, a line each.
pub(crate) fn fmt_join_tree(
    spec: &JoinSpec,
    device: &dyn Device,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    writeln!(f, "device={}", device.name())?;
    writeln!(f, "join_type={}", spec.kind)?;
    writeln!(f, "strategy={}", spec.theta.strategy)?;
    if !spec.display.keys.is_empty() {
        writeln!(f, "on={}", spec.display.keys.join(", "))?;
    }
    if spec.null_aware {
        writeln!(f, "null_aware")?;
    }
    if let Some(set) = &spec.display.set {
        writeln!(f, "set={set}")?;
    }
    if !spec.display.theta.is_empty() {
        writeln!(f, "theta={}", spec.display.theta.join(", "))?;
    }
    if let Some(program) = &spec.display.program {
        writeln!(f, "program={program}")?;
    }
    match &spec.display.residual {
        Some(residual) => writeln!(f, "residual={residual}"),
        None => Ok(()),
    }
}

/// Everything an execution holds between two steps.
struct Driver {
    left: Option<InputStream>,
    /// Until the left side is there.
    right: Option<InputStream>,
    ahead: Option<Prefetch>,
    /// Taken while a step runs.
    run: Option<JoinRun>,
    /// The step that runs while the pieces of the last one are read.
    step: Option<SpawnedTask<(JoinRun, crate::error::Result<Vec<DeviceChunk>>)>>,
    ready: VecDeque<DeviceChunk>,
    spec: Arc<JoinSpec>,
    grace: Arc<Grace>,
    device: Arc<dyn Device>,
    spilling: Option<Spilling>,
    metrics: DeviceMetrics,
    emitted: usize,
}

impl Driver {
    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Result<Option<DeviceChunk>> {
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
                    None => run.end_right(),
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

/// Whether rows come out although the left side is empty.
pub(crate) fn needs_right_without_left(kind: JoinType) -> bool {
    matches!(
        kind,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark
    )
}

/// All chunks of a side; in files, as far as the memory pool has no room for them.
pub(crate) async fn gather(
    chunks: Option<InputStream>,
    spilling: Option<&Spilling>,
) -> Result<Vec<InputChunk>> {
    let mut gathered: Vec<InputChunk> = vec![];
    let Some(mut chunks) = chunks else {
        return Ok(gathered);
    };
    while let Some(chunk) = chunks.try_next().await? {
        let memory_pressure = chunk.is_memory_pressure();
        // One without rows says only that.
        if !memory_pressure {
            gathered.push(chunk);
        }
        if let Some(spilling) = spilling
            && (memory_pressure || spilling.pool_is_full())
        {
            let spilling = spilling.clone();
            gathered = SpawnedTask::spawn_blocking(move || {
                for chunk in &mut gathered {
                    chunk.leave_host(&spilling)?;
                }
                Ok::<_, BowtieError>(gathered)
            })
            .join_unwind()
            .await
            .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??;
        }
    }
    Ok(gathered)
}
