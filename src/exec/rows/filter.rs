//! [`FilterOperator`]: filters the rows of a device node by a predicate.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::exec::chunk::DeviceStream;
use crate::exec::node::{DeviceOperator, Execution, OnBatch};
use crate::exec::rows::distinct::with_results;
use crate::exec::rows::evaluate::read_by;
use crate::exec::rows::on_host::on_host;
use crate::exec::rows::piecewise::{emission_of, ordering_of, piecewise};
use crate::exec::rows::skip::possible_rows;
use crate::spec::operator_kind::OperatorKind;
use crate::spec::rows::FilterSpec;

/// Keeps the rows for which a predicate is true: SELECT of \[D\] table 1, here as flag, scan, compact.
#[derive(Debug)]
pub(crate) struct FilterOperator(pub(crate) Arc<FilterSpec>);

impl DeviceOperator for FilterOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::Filter
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let (predicate, distinct) = (self.0.display(), self.0.predicate.display_distinct());
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "device={device}, predicate={predicate}{distinct}")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                writeln!(f, "predicate={predicate}")
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
            self.0.columns.iter().position(|kept| *kept == column)
        })
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.0.predicate.expressions.iter().collect()
    }

    fn on_batch(&self, device: &Arc<dyn Device>) -> Option<OnBatch> {
        Some(self.step(device))
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let step = self.step(&execution.device);
        piecewise(execution, step)
    }
}

impl FilterOperator {
    fn step(&self, device: &Arc<dyn Device>) -> OnBatch {
        let on = Arc::clone(device);
        let spec = FilterSpec {
            predicate: self.0.predicate.with_subqueries(),
            ..self.0.as_ref().clone()
        };
        Arc::new(move |batch| filter(on.as_ref(), &spec, batch))
    }
}

/// `columns` of the rows for which the predicate is true, by the device; `None` if all rows are.
fn select(
    device: &dyn Device,
    spec: &FilterSpec,
    batch: &DeviceBatch,
    columns: &[&Column],
) -> crate::error::Result<Option<(usize, Vec<Column>)>> {
    let predicate = &spec.predicate.program;
    let batch = &with_results(device, &spec.predicate, batch)?;
    let within = possible_rows(predicate, batch)?;
    if within.is_empty() && batch.rows() > 0 {
        let none = device.no_rows()?;
        let columns = columns.iter().map(|column| device.gather(column, &none));
        return Ok(Some((0, columns.collect::<crate::error::Result<_>>()?)));
    }
    let (program, read) = read_by(device, predicate, batch)?;
    let read: Vec<&Column> = read.iter().map(AsRef::as_ref).collect();
    device.select(batch.rows(), within, &program, &read, columns)
}

/// The output columns of the rows of `batch` for which the predicate is true. DataFusion evaluates it if the device
/// finds a row that it cannot decide.
fn filter(
    device: &dyn Device,
    spec: &FilterSpec,
    batch: &DeviceBatch,
) -> crate::error::Result<DeviceBatch> {
    let output = spec.columns.iter().map(|i| batch.any(*i));
    let output = output.collect::<crate::error::Result<Vec<&BatchColumn>>>()?;
    let columns: Vec<&Column> = output.iter().map(|column| column.moved()).collect();
    let kept = match select(device, spec, batch, &columns) {
        Err(BowtieError::NeedsDataFusion) => {
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
            let kept = output.iter().zip(kept);
            DeviceBatch::of(rows, kept.map(|(output, kept)| output.of_moved(kept)))
        }
    })
}
