//! [`BowtieProjectionExec`]: columns of a device node.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use super::{DeviceChunk, DeviceExec, DeviceStream, as_device, device_only, exactly};
use crate::device::Device;

/// Columns of a device node, as they lie: nothing is copied.
#[derive(Debug)]
pub(crate) struct BowtieProjectionExec {
    input: Arc<dyn ExecutionPlan>,
    columns: Arc<[usize]>,
    device: Arc<dyn Device>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BowtieProjectionExec {
    /// `columns` of `input`, a device node, under the names of `schema`.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        columns: Arc<[usize]>,
        schema: SchemaRef,
        device: Arc<dyn Device>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            input.properties().emission_type,
            input.properties().boundedness,
        );
        Self {
            input,
            columns,
            device,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for BowtieProjectionExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let (columns, device) = (columns.join(", "), self.device.name());
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "BowtieProjectionExec: device={device}, output=[{columns}]"
                )
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                writeln!(f, "output={columns}")
            }
        }
    }
}

impl DeviceExec for BowtieProjectionExec {
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn execute_on(
        &self,
        device: Arc<dyn Device>,
        context: Arc<TaskContext>,
    ) -> Result<DeviceStream> {
        let chunks = as_device(&self.input)?.execute_on(device, context)?;
        let metrics = BaselineMetrics::new(&self.metrics, 0);
        let columns = Arc::clone(&self.columns);
        Ok(chunks
            .map(move |chunk| {
                let chunk = select(chunk?, &columns)?;
                metrics.record_output(chunk.rows());
                Ok(chunk)
            })
            .boxed())
    }
}

/// `columns` of a chunk.
fn select(chunk: DeviceChunk, columns: &[usize]) -> Result<DeviceChunk> {
    Ok(match chunk {
        DeviceChunk::Staged(chunk) => DeviceChunk::Staged(chunk.select(columns)?),
        DeviceChunk::Resident(batch) => DeviceChunk::Resident(batch.select(columns)),
        DeviceChunk::Runs(_) => {
            return Err(DataFusionError::Internal(
                "bowtie: runs were given to a device node".into(),
            ));
        }
    })
}

impl ExecutionPlan for BowtieProjectionExec {
    fn name(&self) -> &'static str {
        "BowtieProjectionExec"
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
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = exactly(self.name(), children)?;
        let (columns, device) = (Arc::clone(&self.columns), Arc::clone(&self.device));
        Ok(Arc::new(Self::new(input, columns, self.schema(), device)))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        device_only(self.name())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
