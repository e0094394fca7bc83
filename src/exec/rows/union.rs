//! [`BowtieUnionExec`]: the rows of several device nodes, one after the other.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::device::primitives::device::Device;
use crate::exec::node::{DeviceExec, DeviceStream, as_device, device_only};

/// Hands on the chunks of its inputs as they are (UNION ALL).
#[derive(Debug)]
pub(crate) struct BowtieUnionExec {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    device: Arc<dyn Device>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BowtieUnionExec {
    /// `inputs` are device nodes with columns of the types of `schema`.
    pub(crate) fn new(
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        schema: SchemaRef,
        device: Arc<dyn Device>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Both,
            Boundedness::Bounded,
        );
        Self {
            inputs,
            device,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for BowtieUnionExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.device.name();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "BowtieUnionExec: device={device}")
            }
            DisplayFormatType::TreeRender => writeln!(f, "device={device}"),
        }
    }
}

impl DeviceExec for BowtieUnionExec {
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn execute_on(
        &self,
        device: Arc<dyn Device>,
        context: Arc<TaskContext>,
    ) -> Result<DeviceStream> {
        let metrics = BaselineMetrics::new(&self.metrics, 0);
        let inputs = self
            .inputs
            .iter()
            .map(|input| as_device(input)?.execute_on(Arc::clone(&device), Arc::clone(&context)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let chunks = stream::iter(inputs).flatten();
        Ok(chunks
            .inspect_ok(move |chunk| metrics.record_output(chunk.rows()))
            .boxed())
    }
}

impl ExecutionPlan for BowtieUnionExec {
    fn name(&self) -> &'static str {
        "BowtieUnionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inputs.len()]
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
        let device = Arc::clone(&self.device);
        Ok(Arc::new(Self::new(children, self.schema(), device)))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        device_only(self.name())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
