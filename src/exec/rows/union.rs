//! [`UnionOperator`]: the rows of several device nodes, one input after the other.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryStreamExt, stream};

use crate::exec::chunk::DeviceStream;
use crate::exec::node::{DeviceNode, DeviceOperator, Execution};
use crate::spec::operator_kind::OperatorKind;

/// Passes the chunks of its inputs through unchanged (UNION ALL). The columns of all inputs have the types of the
/// schema.
#[derive(Debug)]
pub(crate) struct UnionOperator(pub(crate) SchemaRef);

impl DeviceOperator for UnionOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::Union
    }

    fn arity(&self) -> Option<usize> {
        None
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "device={device}")
            }
            DisplayFormatType::TreeRender => writeln!(f, "device={device}"),
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(&self.0))
    }

    fn emission(&self, _: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        (EmissionType::Both, Boundedness::Bounded)
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let metrics = BaselineMetrics::new(execution.metrics, 0);
        let inputs = execution.inputs.iter().map(|input| {
            let (device, context) = (&execution.device, &execution.context);
            DeviceNode::of(input)?.execute_on(Arc::clone(device), Arc::clone(context))
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let chunks = stream::iter(inputs).flatten();
        Ok(chunks
            .inspect_ok(move |chunk| metrics.record_output(chunk.rows()))
            .boxed())
    }
}
