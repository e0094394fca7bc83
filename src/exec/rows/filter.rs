//! [`BowtieFilterExec`]: the rows of a device node for which a predicate holds.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots,
};

use crate::device::data::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::exec::node::{DeviceExec, DeviceStream, device_only, exactly};
use crate::exec::rows::evaluate::{on_host, read_by, stepwise};
use crate::spec::rows::FilterSpec;

/// Flags the rows for which a predicate is true, and keeps them (\[D\]'s SELECT: flag, scan, compact).
#[derive(Debug)]
pub(crate) struct BowtieFilterExec {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<FilterSpec>,
    device: Arc<dyn Device>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BowtieFilterExec {
    /// `input` is a device node.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        spec: Arc<FilterSpec>,
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

impl DisplayAs for BowtieFilterExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (predicate, device) = (self.spec.display(), self.device.name());
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "BowtieFilterExec: device={device}, predicate={predicate}"
                )
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                writeln!(f, "predicate={predicate}")
            }
        }
    }
}

impl DeviceExec for BowtieFilterExec {
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn execute_on(
        &self,
        device: Arc<dyn Device>,
        context: Arc<TaskContext>,
    ) -> Result<DeviceStream> {
        let (on, spec) = (Arc::clone(&device), Arc::clone(&self.spec));
        let step = move |batch: &DeviceBatch| filter(on.as_ref(), &spec, batch);
        stepwise(&self.input, device, &context, &self.metrics, Arc::new(step))
    }
}

fn filter(
    device: &dyn Device,
    spec: &FilterSpec,
    batch: &DeviceBatch,
) -> crate::error::Result<DeviceBatch> {
    let columns = spec.columns.iter().map(|i| Ok(batch.column(*i)?.as_ref()));
    let columns = columns.collect::<crate::error::Result<Vec<&Column>>>()?;
    let program = &spec.predicate.program;
    let read = read_by(device, program, batch)?;
    let read: Vec<&Column> = read.iter().map(AsRef::as_ref).collect();
    let kept = match device.select(batch.rows(), program, &read, &columns) {
        Err(BowtieError::NeedsHost) => {
            let flags = on_host(device, &spec.predicate, batch)?;
            let flags = flags
                .first()
                .ok_or_else(|| BowtieError::Internal("a filter without a predicate".into()))?;
            device.keep(flags, &columns)?
        }
        kept => kept?,
    };
    Ok(match kept {
        None => batch.select(&spec.columns),
        Some((rows, kept)) => {
            let kept = kept.into_iter().map(|column| Some(Arc::new(column)));
            DeviceBatch::new(rows, kept.collect())
        }
    })
}

impl ExecutionPlan for BowtieFilterExec {
    fn name(&self) -> &'static str {
        "BowtieFilterExec"
    }

    crate::exec::node::one_input!();

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.spec.predicate.expressions.iter(), f)
    }
}
