//! [`WayBack`]: from a download whose device fails to the nodes of DataFusion that it stands for. In: the download's stream. Out: the same
//! stream, or, if that fails before its first batch, the rows of DataFusion's nodes.
//!
//! ```text
//!   device nodes ──► download ──► rows ──► whoever reads
//!                       │ a refusal of memory, or an error of the card, before the first batch
//!                       ▼
//!   DataFusion's nodes ───────► rows ──► whoever reads
//! ```

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode as _;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use crate::compat::repeated_rules::with_requirements;
use crate::device::counters::Counted;
use crate::device::trace::{self, Scope};
use crate::error::device_failure::DeviceFailure;
use crate::exec::metrics::OutputMetrics;
use crate::exec::transfer::stands_for::StandsFor;
use crate::options::{BowtieOptions, Offload};
use crate::runtime::planned_device::PlannedDevice;

type Plan = Arc<dyn ExecutionPlan>;

/// What runs in place of a download.
pub(crate) struct WayBack {
    of: StandsFor,
    device: Arc<PlannedDevice>,
    context: Arc<TaskContext>,
    metrics: Arc<OutputMetrics>,
    scope: Scope,
}

impl WayBack {
    /// `None` where a failure is to be seen: bowtie decides what runs on the device only under `auto`.
    pub(crate) fn of(
        of: Option<&StandsFor>,
        device: &Arc<PlannedDevice>,
        context: &Arc<TaskContext>,
        (metrics, scope): (&Arc<OutputMetrics>, &Scope),
    ) -> Option<Self> {
        let options = BowtieOptions::of(context.session_config().options());
        let is_auto = options.offload == Offload::Auto && !options.strict;
        Some(Self {
            of: of.filter(|_| is_auto)?.clone(),
            device: Arc::clone(device),
            context: Arc::clone(context),
            metrics: Arc::clone(metrics),
            scope: scope.clone(),
        })
    }

    /// `rows`, or those of DataFusion's nodes where `rows` fails before its first batch, or where the card is left alone.
    pub(crate) fn or_else(self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let first = async move {
            let mut rows = rows;
            if let Err(why) = self.device.is_left_alone()
                && let Some(instead) = self.instead(&why)
            {
                return Ok(instead);
            }
            let error = match rows.next().await {
                Some(Ok(first)) => {
                    let all = futures::stream::iter([Ok(first)]).chain(rows);
                    return Ok(all.boxed());
                }
                None => return Ok(rows.boxed()),
                Some(Err(error)) => error,
            };
            let Some(failure) = DeviceFailure::of(&error) else {
                return Err(error);
            };
            // What the attempt holds is given back first.
            drop(rows);
            if failure.is_of_card() {
                self.device.leave_alone(&error);
            }
            self.instead(&error).ok_or(error)
        };
        let all = futures::stream::once(first).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(schema, all))
    }

    /// The rows of DataFusion's nodes; `None` if there is no plan of them.
    fn instead(&self, why: &DataFusionError) -> Option<BoxStream<'static, Result<RecordBatch>>> {
        let node = self.of.node.name();
        let executed = executable(&self.of, self.context.session_config().options());
        let executed = executed.and_then(|plan| {
            let context = Arc::clone(&self.context);
            plan.map(|plan| plan.execute(0, context)).transpose()
        });
        let rows = match executed {
            Ok(rows) => rows?,
            Err(error) => {
                log::warn!("{node} has no plan of DataFusion: {error}");
                return None;
            }
        };
        log::warn!(
            "{node} and the nodes below it run in DataFusion, as {} failed before the first row: {why}",
            self.device.name()
        );
        {
            let _entered = trace::enter(Some(self.scope.clone()));
            trace::count(Counted::Fallbacks, 1);
        }
        let metrics = Arc::clone(&self.metrics);
        let counted = rows.inspect_ok(move |batch| {
            metrics.rows.add(batch.num_rows());
            metrics.batches.add(1);
        });
        Some(counted.boxed())
    }
}

/// The nodes that a download stands for, as a plan of one partition that can be executed; `None` if that could have other rows than the attempt
/// that failed: where an input can be read only once, or was optimised before with filters that are filled while a query runs.
fn executable(of: &StandsFor, config: &ConfigOptions) -> Result<Option<Plan>> {
    let Some(plan) = (of.restored)(&of.node)? else {
        return Ok(None);
    };
    if plan.exists(|node| Ok(!can_be_read_again(node)))? {
        return Ok(None);
    }
    let plan = with_requirements(plan, config)?;
    // Nodes below were executed by the attempt that failed.
    let plan = united(reset_plan_states(plan)?);
    Ok(Some(match of.limit {
        None => plan,
        Some(limit) => match plan.with_fetch(limit) {
            Some(limited) => united(limited),
            None => Arc::new(GlobalLimitExec::new(plan, 0, limit)),
        },
    }))
}

/// Whether a node that reads nothing else has the same rows each time. The inputs of a stage and the last rows of a recursive query are
/// taken by who reads them, and so may be a stream or what another library reads.
fn can_be_read_again(node: &Plan) -> bool {
    if !node.children().is_empty() {
        return true;
    }
    let source = node.downcast_ref::<DataSourceExec>();
    let is_of_tables = source.is_some_and(|node| {
        let source = node.data_source();
        source.is::<FileScanConfig>() || source.is::<MemorySourceConfig>()
    });
    is_of_tables
        || node.is::<LazyMemoryExec>()
        || node.is::<EmptyExec>()
        || node.is::<PlaceholderRowExec>()
}

/// A plan in one partition, in the order that it has.
pub(crate) fn united(plan: Plan) -> Plan {
    if plan.output_partitioning().partition_count() == 1 {
        return plan;
    }
    match plan.output_ordering().cloned() {
        Some(ordering) => Arc::new(SortPreservingMergeExec::new(ordering, plan)),
        None => Arc::new(CoalescePartitionsExec::new(plan)),
    }
}
