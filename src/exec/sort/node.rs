//! [`SortOperator`]: sorts the rows of a device node. In: device chunks. Out: chunks in order, once all rows were read.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryFutureExt, TryStreamExt, stream};

use crate::exec::blocking::blocking;
use crate::exec::chunk::chunk_limits::Role;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::input::chunk::{Input, InputStream};
use crate::exec::input::coalesce::inputs;
use crate::exec::memory::on_request::await_or_evict;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceOperator, Execution, OneInput};
use crate::exec::sort::merge::Merge;
use crate::exec::sort::run::{SortRun, Sorted};
use crate::exec::sort::sorted_rows::SortedRows;
use crate::spec::operator_kind::OperatorKind;
use crate::spec::sort::SortSpec;

/// Sorts all rows by columns of any orderable type, or keeps the first ones in this order.
#[derive(Debug)]
pub(crate) struct SortOperator(pub(crate) Arc<SortSpec>);

impl DeviceOperator for SortOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::Sort
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let keys = self.0.display();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "device={device}, keys=[{keys}]")?;
                match self.0.fetch {
                    Some(fetch) => write!(f, ", fetch={fetch}"),
                    None => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                writeln!(f, "keys={keys}")?;
                match self.0.fetch {
                    Some(fetch) => writeln!(f, "fetch={fetch}"),
                    None => Ok(()),
                }
            }
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(&self.0.schema))
    }

    fn emission(&self, _: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        (EmissionType::Final, Boundedness::Bounded)
    }

    fn ordering(&self, _: &[Arc<dyn ExecutionPlan>]) -> Option<LexOrdering> {
        Some(self.0.ordering.clone())
    }

    fn fetch(&self) -> Option<usize> {
        self.0.fetch
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn DeviceOperator>> {
        Some(Arc::new(Self(Arc::new(SortSpec {
            fetch,
            ..self.0.as_ref().clone()
        }))))
    }

    fn statistics(&self, _: Option<&Statistics>) -> Option<Result<Statistics>> {
        Some(Ok(at_most(&self.0.schema, self.0.fetch?)))
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let OneInput {
            input,
            device,
            context,
            spilling,
            metrics,
        } = execution.of_one_input()?;
        let schema = input.schema();
        let input = inputs(input, &device, Role::Sorted, &context, spilling.as_ref())?;
        let merge = Merge {
            spec: Arc::clone(&self.0),
            schema: Arc::clone(&schema),
            spilling: spilling.clone(),
            pool: Arc::clone(context.memory_pool()),
            batch_size: context.session_config().batch_size().max(1),
        };
        let run = SortRun {
            needs: SortRun::needs(&schema),
            spec: Arc::clone(&self.0),
            schema,
            device,
            spilling,
            pool: Arc::clone(context.memory_pool()),
            metrics: metrics.clone(),
            chunks: vec![],
            unmerged: 0,
        };
        let sorted = sorted(run, input, merge, metrics.clone());
        let sorted = sorted.try_flatten_stream();
        Ok(sorted
            .inspect_ok(move |chunk| metrics.baseline.record_output(chunk.rows()))
            .boxed())
    }
}

/// Statistics of at most `rows` rows.
pub(crate) fn at_most(schema: &SchemaRef, rows: usize) -> Statistics {
    let mut statistics = Statistics::new_unknown(schema);
    statistics.num_rows = Precision::Inexact(rows);
    statistics
}

/// The stream of all rows in order.
async fn sorted(
    mut run: SortRun,
    mut input: InputStream,
    merge: Merge,
    metrics: DeviceMetrics,
) -> Result<DeviceStream> {
    if run.spec.fetch == Some(0) {
        return Ok(stream::empty().boxed());
    }
    let device = Arc::clone(&run.device);
    loop {
        let next;
        (run, next) = await_or_evict(&device, run, input.try_next()).await?;
        let Some(input) = next else {
            break;
        };
        let step = |run: &mut SortRun| match input {
            Input::Chunk(chunk) => run.push(chunk),
            Input::MemoryPressure => run.leave_pool(),
        };
        run = blocking(&metrics, run, step).await?.0;
    }
    drop(input);
    let (_, sorted) = blocking(&metrics, run, SortRun::finish).await?;
    match sorted {
        Sorted::Nothing => Ok(stream::empty().boxed()),
        Sorted::OnDevice(rows) => Ok(pieces(rows, metrics)),
        Sorted::Runs(runs) => merge.stream(runs),
    }
}

/// The pieces of rows that are sorted on the device.
fn pieces(rows: Box<SortedRows>, metrics: DeviceMetrics) -> DeviceStream {
    let next = |(rows, metrics): (Box<SortedRows>, DeviceMetrics)| async move {
        let (rows, piece) = blocking(&metrics, rows, |rows| rows.next_piece()).await?;
        let piece = piece.map(DeviceChunk::Resident);
        Ok(piece.map(|piece| (piece, (rows, metrics))))
    };
    stream::try_unfold((rows, metrics), next).boxed()
}
