//! [`BowtieAggregateExec`]: grouped aggregation on a device.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{FutureExt, StreamExt, TryStreamExt};

use super::ahead::Ahead;
use super::group_run::GroupRun;
use super::metrics::{DeviceMetrics, StrategyMetrics};
use super::{
    BowtieUploadExec, CancelOnDrop, DeviceChunk, DeviceExec, DeviceStream, as_device, blocking,
    device_only, exactly,
};
use crate::device::Device;
use crate::spec::GroupSpec;
use crate::stream::StagedChunk;

/// Groups rows, and folds the values of each group (\[W\] section 3.2): COUNT, SUM, AVG, MIN, MAX, BOOL_AND, BOOL_OR,
/// BIT_AND, BIT_OR and BIT_XOR, by columns of any orderable type, by grouping sets, or over all rows.
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
                write!(f, ", device={}", self.device.name())
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

enum Input {
    /// Chunks on the host.
    Uploads(DeviceStream),
    /// Rows on the device, in the order of its queue.
    Rows(DeviceStream),
}

/// Everything an execution holds.
struct Driver {
    input: Input,
    spec: Arc<GroupSpec>,
    device: Arc<dyn Device>,
    context: Arc<TaskContext>,
    _cancel: CancelOnDrop,
    metrics: DeviceMetrics,
    strategies: StrategyMetrics,
}

impl Driver {
    async fn run(self) -> Result<DeviceChunk> {
        let reservation =
            |name: &str| MemoryConsumer::new(name).register(self.context.memory_pool());
        let metrics = self.metrics;
        let groups = reservation("BowtieAggregate");
        let output = reservation("BowtieAggregate[output]");
        let device = Arc::clone(&self.device);
        let spec = Arc::clone(&self.spec);
        let mut run = GroupRun::new(device, spec, groups, metrics.clone(), self.strategies)?;
        match self.input {
            Input::Uploads(chunks) => {
                let device = Arc::clone(&self.device);
                let mut chunks = Ahead::new(chunks, device, run.needed(), metrics.clone());
                while let Some(arriving) = chunks.next().await? {
                    run = blocking(&metrics, run, |run| run.push(arriving)).await?.0;
                }
            }
            Input::Rows(mut chunks) => {
                while let Some(chunk) = chunks.try_next().await? {
                    let batch = match chunk {
                        DeviceChunk::Resident(batch) => batch,
                        DeviceChunk::Staged(_) | DeviceChunk::Runs(_) => {
                            return Err(DataFusionError::Internal(
                                "bowtie: rows of a join that stay on the device do not".into(),
                            ));
                        }
                    };
                    let step = move |run: &mut GroupRun| run.push_resident(&batch);
                    run = blocking(&metrics, run, step).await?.0;
                }
            }
        }
        let (run, batch) = blocking(&metrics, run, GroupRun::finish).await?;
        // What it reserved is the batch now.
        drop(run);
        output.try_grow(batch.get_array_memory_size())?;
        metrics.baseline.record_output(batch.num_rows());
        metrics.baseline.done();
        Ok(DeviceChunk::Staged(StagedChunk::of(&batch, output)))
    }
}

impl DeviceExec for BowtieAggregateExec {
    fn execute_device(&self, context: Arc<TaskContext>) -> Result<DeviceStream> {
        let cancel = CancelOnDrop::default();
        let device = self
            .device
            .attach(self.device.budget().child(), Arc::clone(&cancel.0))?;
        let input = as_device(&self.input)?;
        let input = match self.input.is::<BowtieUploadExec>() {
            true => Input::Uploads(input.execute_device(Arc::clone(&context))?),
            false => Input::Rows(input.execute_on(Arc::clone(&device), Arc::clone(&context))?),
        };
        let driver = Driver {
            input,
            spec: Arc::clone(&self.spec),
            device,
            _cancel: cancel,
            context,
            metrics: DeviceMetrics::new(&self.metrics),
            strategies: StrategyMetrics::new(&self.metrics),
        };
        Ok(driver.run().into_stream().boxed())
    }
}

impl ExecutionPlan for BowtieAggregateExec {
    fn name(&self) -> &'static str {
        "BowtieAggregateExec"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.spec.schema)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // The upload below evaluates them.
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = exactly(self.name(), children)?;
        let (spec, device) = (Arc::clone(&self.spec), Arc::clone(&self.device));
        Ok(Arc::new(Self::new(input, spec, device)))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        device_only(self.name())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
