//! [`JoinOperator`]: a join on a device. In: device chunks of both inputs. Out: device chunks of the join's output.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, stream};

use crate::exec::chunk::DeviceStream;
use crate::exec::join::display::{fmt_join, fmt_join_tree};
use crate::exec::join::driver::Driver;
use crate::exec::join::row_sink::JoinRun;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceOperator, Execution, OutputOnDevice};
use crate::spec::join::{JoinSpec, Output, join_columns};
use crate::spec::operator_kind::OperatorKind;

/// Joins two device inputs by a [`JoinSpec`].
///
/// # Execution flow
/// 1. The left side is gathered in chunks on the host.
/// 2. Each right chunk is joined with every left chunk, tile by tile. The build side of a tile is indexed once while it
///    is resident. The probe side searches the index, and matches are counted exactly before any is written.
/// 3. Matches are emitted in pieces. Unmatched rows are emitted at the end of their chunk (right side) or of the join
///    (left side).
///
/// # Memory
/// Left chunks and the current right chunk are reserved in DataFusion's memory pool. Device memory is reserved from
/// `bowtie.device_memory`. After a refused reservation the tile or the piece is halved; a request larger than the
/// budget cuts the tile at once.
///
/// # Cancellation
/// Work is done in short blocking steps, so a dropped stream stops at the next step and frees everything.
#[derive(Debug)]
pub(crate) struct JoinOperator(pub(crate) Arc<JoinSpec>);

impl JoinOperator {
    /// The join with only these of its output columns, in this order.
    ///
    /// # Errors
    /// If a column does not exist.
    pub(crate) fn with_output(&self, columns: &[usize]) -> Result<Self> {
        let known = &self.0.output;
        let output = columns
            .iter()
            .map(|i| {
                known.get(*i).copied().ok_or_else(|| {
                    DataFusionError::Internal(format!("bowtie: the join has no column {i}"))
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self(Arc::new(JoinSpec {
            output,
            ..self.0.as_ref().clone()
        })))
    }
}

impl DeviceOperator for JoinOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::Join
    }

    fn arity(&self) -> Option<usize> {
        Some(2)
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                fmt_join(&self.0, device, f)?;
                if let Some(fetch) = self.0.fetch {
                    write!(f, ", fetch={fetch}")?;
                }
                let schema = output_schema(&self.0).map_err(|_| fmt::Error)?;
                let columns: Vec<&str> = schema
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                write!(f, ", output=[{}]", columns.join(", "))
            }
            DisplayFormatType::TreeRender => fmt_join_tree(&self.0, device, f),
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        output_schema(&self.0)
    }

    fn emission(&self, _: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        (EmissionType::Both, Boundedness::Bounded)
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        let filters = self.0.residual.iter().chain(&self.0.whole_filter);
        filters.map(|filter| filter.expression()).collect()
    }

    fn fetch(&self) -> Option<usize> {
        self.0.fetch
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn DeviceOperator>> {
        Some(Arc::new(Self(Arc::new(JoinSpec {
            fetch,
            ..self.0.as_ref().clone()
        }))))
    }

    fn with_columns(&self, columns: &[usize]) -> Option<Result<Arc<dyn DeviceOperator>>> {
        let join = self.with_output(columns);
        Some(join.map(|join| Arc::new(join) as Arc<dyn DeviceOperator>))
    }

    /// The rows of a join with a limit must be downloaded, since the download truncates them.
    fn with_output_on_device(&self) -> OutputOnDevice {
        match self.0.fetch {
            Some(_) => OutputOnDevice::No,
            None => OutputOnDevice::By(Arc::new(Self(Arc::new(JoinSpec {
                output_on_device: true,
                ..self.0.as_ref().clone()
            })))),
        }
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let metrics = DeviceMetrics::new(execution.metrics);
        let spec = Arc::clone(&self.0);
        let driver = Driver::new(&execution, spec, metrics.clone(), JoinRun::of_rows)?;
        let driver = Box::new(driver);
        let chunks = stream::try_unfold(driver, move |mut driver| {
            let metrics = metrics.clone();
            async move {
                let chunk = driver.next().await?;
                if chunk.is_none() {
                    metrics.baseline.done();
                }
                Ok(chunk.map(|chunk| (chunk, driver)))
            }
        });
        Ok(chunks.boxed())
    }
}

/// The output schema: that of DataFusion's join of the plans below, projected.
fn output_schema(spec: &JoinSpec) -> Result<SchemaRef> {
    let (left, right) = (spec.left.plan(), spec.right.plan());
    let (joined, _) = build_join_schema(left, right, &spec.kind);
    let columns = join_columns(spec.kind, left.fields().len(), right.fields().len());
    let fields = spec
        .output
        .iter()
        .map(|output| {
            if let Output::Value(value) = output {
                return Ok(Arc::clone(&spec.values[*value].field));
            }
            if let Output::Column(side, i) = output
                && *i >= spec.input(*side).plan_columns()
            {
                // An expression that was evaluated below the join. It is NULL in rows that are padded with NULLs.
                return Ok(Arc::new(spec.input(*side).schema().field(*i).clone()));
            }
            columns
                .iter()
                .position(|column| column == output)
                .map(|at| Arc::clone(&joined.fields()[at]))
                .ok_or_else(|| {
                    DataFusionError::Internal(format!(
                        "bowtie: {output:?} is no column of the join"
                    ))
                })
        })
        .collect::<Result<Vec<Arc<Field>>>>()?;
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        spec.metadata.clone(),
    )))
}
