//! [`BowtieUploadExec`]: the border host → device.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt};

use crate::device::primitives::device::Device;
use crate::exec::node::{DeviceChunk, DeviceExec, DeviceStream, device_only};
use crate::exec::transfer::chunker::{ChunkLimits, Chunker, Role};
use crate::exec::transfer::evaluator::Evaluator;
use crate::exec::transfer::partitions;
use crate::options::BowtieOptions;
use crate::spec::join::SideInput;

/// Gathers all partitions of its input into chunks for a device, and evaluates key expressions on them.
///
/// ```text
/// input partition 0 ─► evaluate ──┐
/// input partition 1 ─► evaluate ──┼─► Chunker ─► chunks, staged on the host
/// input partition 2 ─► evaluate ──┘
/// ```
///
/// The node that reads a chunk uploads the columns that it needs when the device has room, and so may upload a chunk in
/// parts, or twice. What is staged is reserved in DataFusion's memory pool.
#[derive(Debug)]
pub(crate) struct BowtieUploadExec {
    input: Arc<dyn ExecutionPlan>,
    columns: SideInput,
    /// Who reads it.
    role: Role,
    device: Arc<dyn Device>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BowtieUploadExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        columns: SideInput,
        role: Role,
        device: Arc<dyn Device>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(columns.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            input,
            columns,
            role,
            device,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// What it evaluates beside the columns of its input.
    pub(crate) fn expressions(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.columns.expressions
    }

    fn shown(&self) -> Vec<String> {
        self.columns
            .expressions
            .iter()
            .map(|e| fmt_sql(e.as_ref()).to_string())
            .collect()
    }
}

impl DisplayAs for BowtieUploadExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evaluated = self.shown();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "BowtieUploadExec: device={}", self.device.name())?;
                if !evaluated.is_empty() {
                    write!(f, ", evaluate=[{}]", evaluated.join(", "))?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={}", self.device.name())?;
                if !evaluated.is_empty() {
                    writeln!(f, "evaluate={}", evaluated.join(", "))?;
                }
                Ok(())
            }
        }
    }
}

impl DeviceExec for BowtieUploadExec {
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Whoever reads its chunks uploads them, in the order of its own queue.
    fn execute_on(&self, _: Arc<dyn Device>, context: Arc<TaskContext>) -> Result<DeviceStream> {
        let options = BowtieOptions::of(context.session_config().options());
        let limits = ChunkLimits::new(
            self.device.as_ref(),
            &self.schema(),
            options.chunk_rows.0,
            self.role,
            context.memory_pool().as_ref(),
        );
        let metrics = BaselineMetrics::new(&self.metrics, 0);
        let device = self.device.as_ref();
        let evaluator = Evaluator::new(&self.schema(), &self.columns.expressions, device);
        let chunker = Chunker::new(
            format!("BowtieUpload[{}]", self.role),
            &evaluator,
            device,
            limits,
            context.memory_pool(),
        );
        // Those that stream have little to spill, but the chunk at hand is gone before they ask again.
        let spills = context.runtime_env().disk_manager.tmp_files_enabled();
        let chunker = chunker.told_when_crowded(spills || self.role != Role::Left);
        let input = partitions::evaluated(&self.input, &context, &evaluator, &metrics)?;
        // (input, chunker): the input is None once it is at its end.
        let chunks = futures::stream::try_unfold(
            (Some(input), chunker, metrics),
            |(mut input, mut chunker, metrics)| async move {
                while let Some(batches) = &mut input {
                    let rest = chunker.has_rest();
                    let batch = match rest {
                        true => None,
                        false => batches.next().await.transpose()?,
                    };
                    let timer = metrics.elapsed_compute().timer();
                    let chunks = match batch {
                        Some(batch) => chunker.push(batch)?,
                        None if rest => chunker.push_rest()?,
                        None => {
                            input = None;
                            chunker.flush()?
                        }
                    };
                    timer.done();
                    if !chunks.is_empty() {
                        let rows: usize = chunks.iter().map(|chunk| chunk.rows()).sum();
                        metrics.record_output(rows);
                        let chunks = futures::stream::iter(chunks.into_iter().map(Ok));
                        return Ok::<_, DataFusionError>(Some((chunks, (input, chunker, metrics))));
                    }
                }
                metrics.done();
                Ok(None)
            },
        );
        Ok(chunks.try_flatten().map_ok(DeviceChunk::Staged).boxed())
    }
}

impl ExecutionPlan for BowtieUploadExec {
    fn name(&self) -> &'static str {
        "BowtieUploadExec"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(self.properties.eq_properties.schema())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        datafusion::physical_plan::apply_expression_roots(self.columns.expressions.iter(), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = crate::exec::node::exactly(self.name(), children)?;
        Ok(Arc::new(Self::new(
            input,
            self.columns.clone(),
            self.role,
            Arc::clone(&self.device),
        )))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        device_only(self.name())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        for (column, input) in statistics
            .column_statistics
            .iter_mut()
            .zip(&inputs[0].column_statistics)
        {
            *column = input.clone();
        }
        statistics.num_rows = inputs[0].num_rows;
        Ok(Arc::new(statistics))
    }
}
