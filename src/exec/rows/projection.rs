//! [`BowtieProjectionExec`]: columns and expressions over the rows of a device node.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots,
};
use futures::StreamExt;

use crate::device::data::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceChunk, DeviceExec, DeviceStream, as_device, device_only, exactly};
use crate::exec::rows::evaluate::{evaluate, stepwise};
use crate::spec::rows::{Projected, ProjectionSpec};

/// Columns of a device node as they lie, which are not copied, and columns that a program makes of them.
#[derive(Debug)]
pub(crate) struct BowtieProjectionExec {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<ProjectionSpec>,
    device: Arc<dyn Device>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BowtieProjectionExec {
    /// `input` is a device node.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        spec: Arc<ProjectionSpec>,
        device: Arc<dyn Device>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&spec.schema)),
            Partitioning::UnknownPartitioning(1),
            input.properties().emission_type,
            input.properties().boundedness,
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

impl DisplayAs for BowtieProjectionExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, device) = (self.spec.display(), self.device.name());
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
        let spec = Arc::clone(&self.spec);
        if spec.made.is_none() {
            let metrics = DeviceMetrics::new(&self.metrics);
            let chunks = as_device(&self.input)?.execute_on(device, context)?;
            return Ok(chunks
                .map(move |chunk| {
                    let chunk = select(chunk?, &spec.columns)?;
                    metrics.baseline.record_output(chunk.rows());
                    Ok(chunk)
                })
                .boxed());
        }
        let on = Arc::clone(&device);
        let step = move |batch: &DeviceBatch| project(on.as_ref(), &spec, batch);
        stepwise(&self.input, device, &context, &self.metrics, Arc::new(step))
    }
}

fn project(
    device: &dyn Device,
    spec: &ProjectionSpec,
    batch: &DeviceBatch,
) -> crate::error::Result<DeviceBatch> {
    let made = match &spec.made {
        Some(made) => evaluate(device, made, batch)?,
        None => vec![],
    };
    let columns = spec.columns.iter().map(|column| {
        Ok(Some(Arc::clone(match column {
            Projected::Input(i) => batch.column(*i)?,
            Projected::Made(i) => &made[*i],
        })))
    });
    Ok(DeviceBatch::new(
        batch.rows(),
        columns.collect::<crate::error::Result<_>>()?,
    ))
}

/// `columns` of a chunk.
fn select(chunk: DeviceChunk, columns: &[Projected]) -> Result<DeviceChunk> {
    let columns: Vec<usize> = columns.iter().filter_map(|column| column.input()).collect();
    Ok(match chunk {
        // It has no columns, and is for who reads on.
        DeviceChunk::Staged(chunk) if chunk.crowded => DeviceChunk::Staged(chunk),
        DeviceChunk::Staged(chunk) => DeviceChunk::Staged(chunk.select(&columns)?),
        DeviceChunk::Resident(batch) => DeviceChunk::Resident(batch.select(&columns)),
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

    crate::exec::node::one_input!();

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.spec.made.iter().flat_map(|made| &made.expressions), f)
    }
}
