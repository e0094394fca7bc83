//! [`BowtieJoinAggregateExec`]: an aggregation over a join on a device, without the join's pairs.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots,
};
use futures::{StreamExt, TryFutureExt, stream};

use crate::device::primitives::device::Device;
use crate::exec::aggregate::output::GroupOutput;
use crate::exec::input::chunk::InputStream;
use crate::exec::input::coalesce::inputs;
use crate::exec::input::prefetch::Ahead;
use crate::exec::join::node::{fmt_join, fmt_join_tree, gather, needs_right_without_left};
use crate::exec::join_aggregate::run::AggregateRun;
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceChunk, DeviceExec, DeviceStream, blocking, device_only, exactly};
use crate::exec::partition::grace_join::Grace;
use crate::exec::partition::partitioner;
use crate::exec::transfer::chunker::Role;
use crate::spec::join_aggregate::JoinAggregateSpec;

/// Computes COUNT, SUM, AVG, MIN and MAX over a join, grouped by nothing or by columns of one side (\[T\] section 4).
///
/// It walks the join matrix as [`crate::exec::join::node::BowtieJoinExec`] does, but merges partial states of each tile into DataFusion's own
/// accumulators instead of writing pairs. All groups come out at the end.
#[derive(Debug)]
pub(crate) struct BowtieJoinAggregateExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    spec: Arc<JoinAggregateSpec>,
    device: Arc<dyn Device>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BowtieJoinAggregateExec {
    /// `left` and `right` are device nodes with the columns of the spec's inputs.
    pub(crate) fn new(
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        spec: Arc<JoinAggregateSpec>,
        device: Arc<dyn Device>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&spec.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            left,
            right,
            spec,
            device,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl BowtieJoinAggregateExec {
    /// The aggregation for a node above that reads its groups on the device.
    pub(crate) fn staying(&self) -> Self {
        let spec = JoinAggregateSpec {
            stays: true,
            ..self.spec.as_ref().clone()
        };
        let (left, right) = (Arc::clone(&self.left), Arc::clone(&self.right));
        Self::new(left, right, Arc::new(spec), Arc::clone(&self.device))
    }
}

impl DisplayAs for BowtieJoinAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.spec;
        let (groups, aggregates) = (
            spec.group_display.join(", "),
            spec.aggregate_display.join(", "),
        );
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "BowtieJoinAggregateExec: gby=[{groups}], aggr=[{aggregates}], "
                )?;
                fmt_join(&spec.join, self.device.as_ref(), f)?;
                // By DataFusion's accumulators.
                match spec.stays {
                    true => write!(f, ", finish=host"),
                    false => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => {
                if !groups.is_empty() {
                    writeln!(f, "group_by={groups}")?;
                }
                writeln!(f, "aggr={aggregates}")?;
                fmt_join_tree(&spec.join, self.device.as_ref(), f)
            }
        }
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
        let mut right = Ahead::new(
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
                    Some(arriving) if arriving.chunk.is_crowded() => {
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

impl DeviceExec for BowtieJoinAggregateExec {
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn execute_on(
        &self,
        device: Arc<dyn Device>,
        context: Arc<TaskContext>,
    ) -> Result<DeviceStream> {
        let spilling = Spilling::of(&context, &self.metrics);
        let input = |side, role| inputs(side, &device, role, &context, spilling.as_ref());
        let metrics = DeviceMetrics::new(&self.metrics);
        let (join, spills) = (Arc::new(self.spec.join.clone()), spilling.as_ref());
        let driver = Driver {
            grace: Arc::new(Grace::new(join, &device, &context, spills, &metrics)),
            left: Some(input(&self.left, Role::Left)?),
            right: input(&self.right, Role::Right)?,
            spec: Arc::clone(&self.spec),
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

impl ExecutionPlan for BowtieJoinAggregateExec {
    fn name(&self) -> &'static str {
        "BowtieJoinAggregateExec"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.spec.schema)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let join = &self.spec.join;
        let filters = join.residual.iter().chain(&join.whole_filter);
        apply_expression_roots(filters.map(|filter| filter.expression()), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [left, right] = exactly(self.name(), children)?;
        let (spec, device) = (Arc::clone(&self.spec), Arc::clone(&self.device));
        Ok(Arc::new(Self::new(left, right, spec, device)))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        device_only(self.name())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
