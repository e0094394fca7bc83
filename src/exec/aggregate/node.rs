//! [`BowtieAggregateExec`]: grouped aggregation on a device.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryFutureExt, stream};

use crate::device::primitives::device::Device;
use crate::exec::aggregate::output::GroupOutput;
use crate::exec::aggregate::resident::are_results;
use crate::exec::aggregate::run::{Finished, GroupRun};
use crate::exec::input::chunk::InputStream;
use crate::exec::input::coalesce::inputs;
use crate::exec::input::prefetch::Ahead;
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceChunk, DeviceExec, DeviceStream, blocking, device_only, exactly};
use crate::exec::partition::grace_aggregate::{GroupParts, PartedGroups, Way};
use crate::exec::transfer::chunker::Role;
use crate::spec::aggregate::GroupSpec;

/// Groups rows, and folds the values of each group (\[W\] section 3.2), or keeps them: COUNT, SUM, AVG, MIN, MAX, BOOL_AND,
/// BOOL_OR, BIT_AND, BIT_OR, BIT_XOR, variances, medians, percentiles, first and last values, by columns of any orderable type, by grouping sets, or over all rows.
///
/// It takes the place of a Partial and a Final aggregation, or of a single one. All groups come out at the end.
#[derive(Debug)]
pub(crate) struct BowtieAggregateExec {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<GroupSpec>,
    device: Arc<dyn Device>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BowtieAggregateExec {
    /// `input` is a device node with the columns of the spec's input.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        spec: Arc<GroupSpec>,
        device: Arc<dyn Device>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&spec.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            input,
            spec,
            device,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl BowtieAggregateExec {
    /// The aggregation for a node above that reads its groups on the device.
    pub(crate) fn staying(&self) -> Self {
        let spec = GroupSpec {
            stays: true,
            ..self.spec.as_ref().clone()
        };
        let (input, device) = (Arc::clone(&self.input), Arc::clone(&self.device));
        Self::new(input, Arc::new(spec), device)
    }
}

impl DisplayAs for BowtieAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.spec;
        let groups = spec.group_display.join(", ");
        let aggregates = spec.aggregate_display.join(", ");
        let sets = spec.sets.len();
        let strategy = spec.strategy();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "BowtieAggregateExec: gby=[{groups}], aggr=[{aggregates}]"
                )?;
                if sets > 1 {
                    write!(f, ", grouping_sets={sets}")?;
                }
                if let Some(strategy) = strategy {
                    write!(f, ", strategy={strategy}")?;
                }
                write!(f, ", device={}", self.device.name())?;
                match spec.stays && !are_results(spec) {
                    true => write!(f, ", finish=host"),
                    false => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => {
                if !groups.is_empty() {
                    writeln!(f, "group_by={groups}")?;
                }
                if sets > 1 {
                    writeln!(f, "grouping_sets={sets}")?;
                }
                writeln!(f, "aggr={aggregates}")?;
                if let Some(strategy) = strategy {
                    writeln!(f, "strategy={strategy}")?;
                }
                writeln!(f, "device={}", self.device.name())
            }
        }
    }
}

/// All groups, ready to come out.
async fn groups(parts: GroupParts, input: InputStream) -> Result<DeviceStream> {
    let way = parts.way(input).await?;
    let output = GroupOutput::new("BowtieAggregate", parts.context.memory_pool());
    match way {
        Way::ByPart(parting) => Ok(PartedGroups::stream(parting, parts, output)),
        Way::ByChunk(chunks) => {
            let metrics = parts.metrics.clone();
            let run = by_chunk(parts, chunks).await?;
            let groups = Groups {
                run,
                output,
                metrics,
            };
            Ok(stream::try_unfold(groups, Groups::next).boxed())
        }
    }
}

async fn by_chunk(parts: GroupParts, chunks: InputStream) -> Result<GroupRun> {
    let mut run = parts.make_run()?;
    let GroupParts {
        device,
        spilling,
        metrics,
        ..
    } = parts;
    let mut chunks = Ahead::new(chunks, device, run.needed(), spilling, metrics.clone());
    while let Some(arriving) = chunks.next().await? {
        let step = |run: &mut GroupRun| match arriving.chunk.is_crowded() {
            true => run.leave_pool(),
            false => run.push(arriving),
        };
        run = blocking(&metrics, run, step).await?.0;
    }
    Ok(run)
}

/// Groups on their way out.
struct Groups {
    run: GroupRun,
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
        let (run, next) = blocking(&self.metrics, self.run, GroupRun::next).await?;
        let chunk = match next {
            None => {
                self.metrics.baseline.done();
                return Ok(None);
            }
            Some(Finished::OnDevice(batch)) => DeviceChunk::Resident(batch),
            Some(Finished::OnHost(groups)) => self.output.chunk(groups, false)?,
        };
        self.metrics.baseline.record_output(chunk.rows());
        Ok(Some((chunk, Self { run, ..self })))
    }
}

impl DeviceExec for BowtieAggregateExec {
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn execute_on(
        &self,
        device: Arc<dyn Device>,
        context: Arc<TaskContext>,
    ) -> Result<DeviceStream> {
        let spilling = Spilling::of(&context, &self.metrics);
        let role = Role::Grouped;
        let input = inputs(&self.input, &device, role, &context, spilling.as_ref())?;
        let parts = GroupParts {
            spec: Arc::clone(&self.spec),
            device,
            context,
            spilling,
            metrics: DeviceMetrics::new(&self.metrics),
        };
        Ok(groups(parts, input).try_flatten_stream().boxed())
    }
}

impl ExecutionPlan for BowtieAggregateExec {
    fn name(&self) -> &'static str {
        "BowtieAggregateExec"
    }

    crate::exec::node::one_input!();

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.spec.schema)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // The upload below evaluates them.
        Ok(TreeNodeRecursion::Continue)
    }
}
