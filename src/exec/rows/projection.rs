//! [`ProjectionOperator`]: columns of, and expressions over, the rows of a device node.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::StreamExt;

use crate::device::batches::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceNode, DeviceOperator, Execution, OnBatch};
use crate::exec::rows::evaluate::evaluate;
use crate::exec::rows::piecewise::{emission_of, ordering_of, piecewise};
use crate::spec::operator_kind::OperatorKind;
use crate::spec::rows::{Projected, ProjectionSpec, RowExpressions};

/// Selects input columns without copying them, and adds columns that compiled expressions compute.
#[derive(Debug)]
pub(crate) struct ProjectionOperator(pub(crate) Arc<ProjectionSpec>);

impl DeviceOperator for ProjectionOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::Projection
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let (columns, distinct) = (self.0.display(), self.0.display_distinct());
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "device={device}{distinct}, output=[{columns}]")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                writeln!(f, "output={columns}")
            }
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(&self.0.schema))
    }

    fn emission(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        emission_of(inputs)
    }

    fn ordering(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Option<LexOrdering> {
        ordering_of(inputs, &self.0.schema, |column| {
            let mut columns = self.0.columns.iter();
            columns.position(|projected| projected.input() == Some(column))
        })
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        let computed = self.0.computed.iter();
        computed
            .flat_map(|computed| &computed.expressions)
            .collect()
    }

    fn on_batch(&self, device: &Arc<dyn Device>) -> Option<OnBatch> {
        Some(self.step(device))
    }

    fn only_selects(&self) -> bool {
        self.0.computed.is_none()
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        if self.0.computed.is_some() {
            let step = self.step(&execution.device);
            return piecewise(execution, step);
        }
        let (spec, metrics) = (Arc::clone(&self.0), DeviceMetrics::new(execution.metrics));
        let [input] = execution.inputs()?;
        let chunks = DeviceNode::of(input)?.execute_on(execution.device, execution.context)?;
        Ok(chunks
            .map(move |chunk| {
                let chunk = select(chunk?, &spec.columns)?;
                metrics.baseline.record_output(chunk.rows());
                Ok(chunk)
            })
            .boxed())
    }
}

impl ProjectionOperator {
    fn step(&self, device: &Arc<dyn Device>) -> OnBatch {
        let on = Arc::clone(device);
        let computed = self.0.computed.as_ref();
        let spec = ProjectionSpec {
            computed: computed.map(RowExpressions::with_subqueries),
            ..self.0.as_ref().clone()
        };
        Arc::new(move |batch| project(on.as_ref(), &spec, batch))
    }
}

/// The output columns over the rows of `batch`.
fn project(
    device: &dyn Device,
    spec: &ProjectionSpec,
    batch: &DeviceBatch,
) -> crate::error::Result<DeviceBatch> {
    let computed = match &spec.computed {
        Some(computed) => evaluate(device, computed, batch)?,
        None => vec![],
    };
    let columns = spec.columns.iter().map(|column| {
        Ok(Some(match column {
            Projected::Input(i) => batch.any(*i)?.clone(),
            Projected::Computed(i) => computed[*i].clone(),
        }))
    });
    Ok(DeviceBatch::new(
        batch.rows(),
        columns.collect::<crate::error::Result<_>>()?,
    ))
}

/// Selects `columns` of a chunk.
fn select(chunk: DeviceChunk, columns: &[Projected]) -> Result<DeviceChunk> {
    let columns: Vec<usize> = columns.iter().filter_map(|column| column.input()).collect();
    Ok(match chunk {
        DeviceChunk::MemoryPressure => DeviceChunk::MemoryPressure,
        DeviceChunk::Staged(chunk) => DeviceChunk::Staged(chunk.select(&columns)?),
        DeviceChunk::Resident(batch) => DeviceChunk::Resident(batch.select(&columns)),
        DeviceChunk::LongRanges(_) => {
            return Err(DataFusionError::Internal(
                "bowtie: long ranges were passed to a device node".into(),
            ));
        }
    })
}
