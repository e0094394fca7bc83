//! [`LimitOperator`]: skips rows of a device node, and ends after a number of them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::device::primitives::device::Device;
use crate::exec::blocking::blocking;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::memory::step;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceNode, DeviceOperator, Execution};
use crate::exec::rows::piecewise::emission_of;
use crate::exec::sort::node::at_most;
use crate::exec::sort::sorted_rows::gathered;
use crate::spec::operator_kind::OperatorKind;
use crate::spec::sort::LimitSpec;

/// Keeps a range of the rows, in their order.
#[derive(Debug)]
pub(crate) struct LimitOperator {
    pub(crate) spec: LimitSpec,
    pub(crate) schema: SchemaRef,
}

impl DeviceOperator for LimitOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::Limit
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "device={device}, {}", self.spec)
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                writeln!(f, "skip={}", self.spec.skip)?;
                match self.spec.fetch {
                    Some(fetch) => writeln!(f, "fetch={fetch}"),
                    None => Ok(()),
                }
            }
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(&self.schema))
    }

    fn emission(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        emission_of(inputs)
    }

    fn ordering(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Option<LexOrdering> {
        inputs.first()?.output_ordering().cloned()
    }

    fn statistics(&self, _: Option<&Statistics>) -> Option<Result<Statistics>> {
        Some(Ok(at_most(&self.schema, self.spec.fetch?)))
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let [input] = execution.inputs()?;
        let metrics = DeviceMetrics::new(execution.metrics);
        let device = Arc::clone(&execution.device);
        let chunks = DeviceNode::of(input)?.execute_on(execution.device, execution.context)?;
        let limit = Limit {
            skip: self.spec.skip,
            remaining: self.spec.fetch,
        };
        // The input is dropped once there are enough rows.
        let state = (Some(chunks), limit, device, metrics);
        let kept = stream::try_unfold(state, |(chunks, mut limit, device, metrics)| async move {
            let Some(mut chunks) = chunks.filter(|_| !limit.is_reached()) else {
                metrics.baseline.done();
                return Ok::<_, DataFusionError>(None);
            };
            let Some(chunk) = chunks.try_next().await? else {
                metrics.baseline.done();
                return Ok(None);
            };
            let rows = limit.of_next(chunk.rows());
            let chunk = some_rows(chunk, rows, &device, &metrics).await?;
            if let Some(chunk) = &chunk {
                metrics.baseline.record_output(chunk.rows());
            }
            Ok(Some((chunk, (Some(chunks), limit, device, metrics))))
        });
        let kept = kept.try_filter_map(|chunk| std::future::ready(Ok(chunk)));
        Ok(kept.boxed())
    }
}

/// What is left of a limit.
#[derive(Debug)]
struct Limit {
    skip: usize,
    remaining: Option<usize>,
}

impl Limit {
    fn is_reached(&self) -> bool {
        self.remaining == Some(0)
    }

    /// The rows that are kept of the next `rows`.
    fn of_next(&mut self, rows: usize) -> Range<usize> {
        let from = self.skip.min(rows);
        self.skip -= from;
        let len = self.remaining.unwrap_or(usize::MAX).min(rows - from);
        if let Some(remaining) = &mut self.remaining {
            *remaining -= len;
        }
        from..from + len
    }
}

/// Some rows of a chunk; `None` for none. A signal is passed on.
async fn some_rows(
    chunk: DeviceChunk,
    rows: Range<usize>,
    device: &Arc<dyn Device>,
    metrics: &DeviceMetrics,
) -> Result<Option<DeviceChunk>> {
    let all = rows.len() == chunk.rows();
    Ok(match chunk {
        DeviceChunk::MemoryPressure => Some(DeviceChunk::MemoryPressure),
        _ if rows.is_empty() => None,
        chunk if all => Some(chunk),
        DeviceChunk::Staged(chunk) => Some(DeviceChunk::Staged(chunk.slice(rows)?)),
        DeviceChunk::Resident(batch) => {
            let device = Arc::clone(device);
            let (_, some) = blocking(metrics, batch, move |batch| {
                let slice = |(): &mut (), _: &step::Step<'_>| {
                    let kept = device.sequence(rows.start as u32, rows.len())?;
                    gathered(device.as_ref(), batch, &kept, batch.columns())
                };
                step::retried(device.as_ref(), &mut (), slice, |()| true)
            })
            .await?;
            Some(DeviceChunk::Resident(some))
        }
        DeviceChunk::LongRanges(_) => {
            return Err(DataFusionError::Internal(
                "bowtie: long ranges were passed to a device node".into(),
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_skipped_and_counted_over_chunks() {
        let mut limit = Limit {
            skip: 5,
            remaining: Some(4),
        };
        let kept: Vec<Range<usize>> = [3, 0, 4, 2, 9].map(|rows| limit.of_next(rows)).into();
        assert_eq!(kept, [3..3, 0..0, 2..4, 0..2, 0..0]);
        assert!(limit.is_reached());
        let mut limit = Limit {
            skip: 1,
            remaining: None,
        };
        assert_eq!(limit.of_next(3), 1..3);
        assert_eq!(limit.of_next(3), 0..3);
        assert!(!limit.is_reached());
    }
}
