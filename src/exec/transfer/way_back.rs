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
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use crate::device::counters::Counted;
use crate::device::trace::{self, Scope};
use crate::error::DeviceFailure;
use crate::exec::stage::input::StageInputExec;
use crate::exec::transfer::stands_for::StandsFor;
use crate::options::{BowtieOptions, Offload};
use crate::runtime::planned_device::PlannedDevice;

type Plan = Arc<dyn ExecutionPlan>;

/// What runs in place of a download.
pub(crate) struct WayBack {
    of: StandsFor,
    device: Arc<PlannedDevice>,
    context: Arc<TaskContext>,
}

impl WayBack {
    /// `None` where a failure is to be seen: bowtie decides what runs on the device only under `auto`.
    pub(crate) fn of(
        of: Option<&StandsFor>,
        device: &Arc<PlannedDevice>,
        context: &Arc<TaskContext>,
    ) -> Option<Self> {
        let options = BowtieOptions::of(context.session_config().options());
        let is_auto = options.offload == Offload::Auto && !options.strict;
        Some(Self {
            of: of.filter(|_| is_auto)?.clone(),
            device: Arc::clone(device),
            context: Arc::clone(context),
        })
    }

    /// `rows`, or those of DataFusion's nodes where `rows` fails before its first batch.
    pub(crate) fn or_else(
        self,
        rows: SendableRecordBatchStream,
        scope: Scope,
    ) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let first = async move {
            let mut rows = rows;
            let (error, failure) = match rows.next().await {
                Some(Ok(first)) => {
                    let all = futures::stream::iter([Ok(first)]).chain(rows);
                    return Ok(all.boxed());
                }
                None => return Ok(rows.boxed()),
                Some(Err(error)) => match DeviceFailure::of(&error) {
                    Some(failure) => (error, failure),
                    None => return Err(error),
                },
            };
            // What the attempt holds is given back first.
            drop(rows);
            self.instead(error, failure, &scope)
        };
        let all = futures::stream::once(first).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(schema, all))
    }

    fn instead(
        self,
        error: DataFusionError,
        failure: DeviceFailure,
        scope: &Scope,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let node = self.of.node.name();
        let plan = match executable(&self.of, self.context.session_config().options())? {
            Some(plan) => plan,
            None => return Err(error),
        };
        if failure.is_of_card() {
            self.device.leave_alone(&error);
        }
        log::warn!(
            "{node} and the nodes below it run in DataFusion, as {} failed before the first row: {error}",
            self.device.name()
        );
        {
            let _entered = trace::enter(Some(scope.clone()));
            trace::count(Counted::Fallbacks, 1);
        }
        Ok(plan.execute(0, self.context)?.boxed())
    }
}

/// The nodes that a download stands for, as a plan of one partition that can be executed; `None` if an input can be read only once: of a stage,
/// or the last rows of a recursive query.
fn executable(of: &StandsFor, config: &ConfigOptions) -> Result<Option<Plan>> {
    let is_read_once = |node: &Plan| node.is::<StageInputExec>() || node.is::<WorkTableExec>();
    if of.node.exists(|node| Ok(is_read_once(node)))? {
        return Ok(None);
    }
    let plan = (of.restored)(&of.node)?;
    let plan = EnsureRequirements::new().optimize(plan, config)?;
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
