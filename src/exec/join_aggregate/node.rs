//! [`JoinAggregateOperator`]: an aggregation over a join on a device, without the join's pairs.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryFutureExt, stream};

use crate::device::primitives::device::Device;
use crate::exec::aggregate::output::GroupOutput;
use crate::exec::blocking::blocking;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::input::chunk::InputStream;
use crate::exec::input::coalesce::inputs;
use crate::exec::input::prefetch::Prefetch;
use crate::exec::join::display::{fmt_join, fmt_join_tree};
use crate::exec::join::gather::{gather, needs_right_without_left};
use crate::exec::join_aggregate::run::AggregateRun;
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceOperator, Execution, OutputOnDevice};
use crate::exec::partition::grace_join::Grace;
use crate::exec::partition::partitioner;
use crate::exec::transfer::chunk_limits::Role;
use crate::spec::join_aggregate::JoinAggregateSpec;

/// Computes COUNT, SUM, AVG, MIN and MAX over a join, grouped by nothing or by columns of one side (\[T\] section 4).
///
/// It walks the join matrix as [`JoinOperator`](crate::exec::join::node::JoinOperator) does, but merges partial states of each tile into DataFusion's own
/// accumulators instead of writing pairs. All groups come out at the end.

#[derive(Debug)]
pub(crate) struct JoinAggregateOperator(pub(crate) Arc<JoinAggregateSpec>);

impl DeviceOperator for JoinAggregateOperator {
    fn name(&self) -> &'static str {
        "BowtieJoinAggregateExec"
    }

    fn arity(&self) -> Option<usize> {
        Some(2)
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let spec = &self.0;
        let (groups, aggregates) = (
            spec.group_display.join(", "),
            spec.aggregate_display.join(", "),
        );
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "gby=[{groups}], aggr=[{aggregates}], ")?;
                fmt_join(&spec.join, device, f)?;
                // By DataFusion's accumulators.
                match spec.output_on_device {
                    true => write!(f, ", finish=host"),
                    false => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => {
                if !groups.is_empty() {
                    writeln!(f, "group_by={groups}")?;
                }
                writeln!(f, "aggr={aggregates}")?;
                fmt_join_tree(&spec.join, device, f)
            }
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(&self.0.schema))
    }

    fn emission(&self, _: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        (EmissionType::Final, Boundedness::Bounded)
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        let join = &self.0.join;
        let filters = join.residual.iter().chain(&join.whole_filter);
        filters.map(|filter| filter.expression()).collect()
    }

    fn with_output_on_device(&self) -> OutputOnDevice {
        OutputOnDevice::By(Arc::new(Self(Arc::new(JoinAggregateSpec {
            output_on_device: true,
            ..self.0.as_ref().clone()
        }))))
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
        let (join, spills) = (Arc::new(self.0.join.clone()), spilling.as_ref());
        let driver = Driver {
            grace: Arc::new(Grace::new(join, &device, &context, spills, &metrics)),
            left: Some(input(left, Role::Left)?),
            right: input(right, Role::Right)?,
            spec: Arc::clone(&self.0),
            device: Arc::clone(&device),
            spilling: spilling.clone(),
            context: Arc::clone(&context),
            metrics,
        };
        let groups = driver
            .run()
            .map_ok(|groups| stream::try_unfold(groups, Groups::next));
        Ok(groups.try_flatten_stream().boxed())
    }
}

/// Everything an execution holds.
struct Driver {
    left: Option<InputStream>,
    right: InputStream,
    spec: Arc<JoinAggregateSpec>,
    grace: Arc<Grace>,
    device: Arc<dyn Device>,
    context: Arc<TaskContext>,
    spilling: Option<Spilling>,
    metrics: DeviceMetrics,
}

impl Driver {
    /// All groups, ready to come out.
    async fn run(mut self) -> Result<Groups> {
        let metrics = self.metrics;
        let pool = self.context.memory_pool();
        let groups = MemoryConsumer::new("BowtieJoinAggregate")
            .with_can_spill(self.spilling.is_some() && !self.spec.group_columns.is_empty())
            .register(pool);
        let left = gather(self.left.take(), self.spilling.as_ref()).await?;
        // Then the right side is not read, as in a hash join: an expression that fails there fails no query.
        let needs_right = !left.is_empty() || needs_right_without_left(self.spec.join.kind);
        let (left, right) = self.grace.sides(left, self.right).await?;
        let (device, spec) = (Arc::clone(&self.device), Arc::clone(&self.spec));
        let (spilling, of_run) = (self.spilling.clone(), metrics.clone());
        let new = move || AggregateRun::new(device, spec, left, groups, spilling, of_run);
        let mut run = partitioner::blocking(new).await?;
        let device = Arc::clone(&self.device);
        let mut right = Prefetch::new(
            right,
            device,
            run.needed_right(),
            self.spilling,
            metrics.clone(),
        );
        match needs_right {
            true => right.start(),
            false => run.end_right(),
        }
        run = blocking(&metrics, run, AggregateRun::preload).await?.0;
        while !run.is_done() {
            if run.wants_right() {
                match right.next().await? {
                    Some(arriving) if arriving.chunk.is_memory_pressure() => {
                        run = blocking(&metrics, run, AggregateRun::leave_pool).await?.0;
                        continue;
                    }
                    Some(arriving) => {
                        let push = |run: &mut AggregateRun| run.push_right(arriving);
                        run = blocking(&metrics, run, push).await?.0;
                    }
                    None => run.end_right(),
                }
            }
            run = blocking(&metrics, run, AggregateRun::step).await?.0;
        }
        Ok(Groups {
            run,
            output: GroupOutput::new("BowtieJoinAggregate", self.context.memory_pool()),
            metrics,
        })
    }
}

/// Groups on their way out.
struct Groups {
    run: AggregateRun,
    output: GroupOutput,
    metrics: DeviceMetrics,
}

impl Groups {
    async fn next(mut self) -> Result<Option<(DeviceChunk, Self)>> {
        if let Some(groups) = self.output.take_waiting() {
            let chunk = self.output.chunk(groups, true)?;
            self.metrics.baseline.record_output(chunk.rows());
            return Ok(Some((chunk, self)));
        }
        let (run, groups) = blocking(&self.metrics, self.run, AggregateRun::next).await?;
        let Some(groups) = groups else {
            self.metrics.baseline.done();
            return Ok(None);
        };
        let chunk = self.output.chunk(groups, false)?;
        self.metrics.baseline.record_output(chunk.rows());
        Ok(Some((chunk, Self { run, ..self })))
    }
}
