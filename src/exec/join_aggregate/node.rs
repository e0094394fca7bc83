//! [`JoinAggregateOperator`]: an aggregation fused with the join below it. In: device chunks of both inputs. Out:
//! chunks of groups, once all tiles were walked.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryFutureExt};

use crate::exec::aggregate::output::GroupOutput;
use crate::exec::chunk::DeviceStream;
use crate::exec::join::display::{fmt_join, fmt_join_tree};
use crate::exec::join::driver::Driver;
use crate::exec::join::walk::WalkInputs;
use crate::exec::join_aggregate::group_sink::{AggregateRun, GroupSink};
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceOperator, Execution, OutputOnDevice};
use crate::spec::join_aggregate::JoinAggregateSpec;
use crate::spec::operator_kind::OperatorKind;

/// Computes COUNT, SUM, AVG, MIN and MAX over a join, grouped by nothing or by columns of one side (\[T\] section 4).
///
/// It walks the join matrix as [`JoinOperator`](crate::exec::join::node::JoinOperator) does, but merges partial states
/// of each tile into DataFusion's own accumulators instead of writing matches. All groups are emitted at the end.
#[derive(Debug)]
pub(crate) struct JoinAggregateOperator(pub(crate) Arc<JoinAggregateSpec>);

impl DeviceOperator for JoinAggregateOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::JoinAggregate
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
        let spec = &self.0;
        let (groups, aggregates) = (
            spec.group_display.join(", "),
            spec.aggregate_display.join(", "),
        );
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "gby=[{groups}], aggr=[{aggregates}], ")?;
                fmt_join(&spec.join, device, f)?;
                // DataFusion's accumulators finish the groups.
                match spec.output_on_device {
                    true => write!(f, ", finish=host"),
                    false => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => {
                if !groups.is_empty() {
                    writeln!(f, "group_by={groups}")?;
                }
                writeln!(f, "aggr={aggregates}")?;
                fmt_join_tree(&spec.join, device, f)
            }
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(&self.0.schema))
    }

    fn emission(&self, _: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        (EmissionType::Final, Boundedness::Bounded)
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        let join = &self.0.join;
        let filters = join.residual.iter().chain(&join.whole_filter);
        filters.map(|filter| filter.expression()).collect()
    }

    fn with_output_on_device(&self) -> OutputOnDevice {
        OutputOnDevice::By(Arc::new(Self(Arc::new(JoinAggregateSpec {
            output_on_device: true,
            ..self.0.as_ref().clone()
        }))))
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let metrics = DeviceMetrics::new(execution.metrics);
        let join = Arc::new(self.0.join.clone());
        let context = Arc::clone(&execution.context);
        let (spec, of_walk) = (Arc::clone(&self.0), Arc::clone(&context));
        let make = move |inputs: WalkInputs| {
            let can_spill = inputs.spilling.is_some() && !spec.group_columns.is_empty();
            let groups = MemoryConsumer::new("BowtieJoinAggregate")
                .with_can_spill(can_spill)
                .register(of_walk.memory_pool());
            AggregateRun::of_groups(inputs, spec, groups)
        };
        let driver = Driver::new(&execution, join, metrics.clone(), make)?;
        let pool = context.memory_pool();
        let output = GroupOutput::new("BowtieJoinAggregate", pool, metrics);
        let groups = walked(driver).map_ok(|walk| output.stream(walk));
        Ok(groups.try_flatten_stream().boxed())
    }
}

/// Runs the walk to its end. It emits no chunk.
async fn walked(mut driver: Driver<GroupSink>) -> Result<AggregateRun> {
    match driver.next().await? {
        None => driver.into_walk(),
        Some(_) => Err(DataFusionError::Internal(
            "bowtie: rows came out of a fused aggregate's join".into(),
        )),
    }
}
