//! [`LoneStageExec`]: marks an aggregation whose other stages stand elsewhere.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
    replace_children_if_necessary,
};

type Plan = Arc<dyn ExecutionPlan>;

/// Stands for an `AggregateExec` of one stage of several, which is offloaded by itself: from rows to partial states, or from these to results.
/// Where the others are in the same plan, all are offloaded as one, and none is marked. It exists only while a stage is planned.
#[derive(Debug)]
pub(crate) struct LoneStageExec(Plan);

impl LoneStageExec {
    pub(crate) fn marking(aggregate: Plan) -> Plan {
        Arc::new(Self(aggregate))
    }

    /// Not by the type that the node shows others, which is that of the aggregation.
    pub(crate) fn of(plan: &Plan) -> Option<&Self> {
        let any: &dyn Any = plan.as_ref();
        any.downcast_ref()
    }

    /// The node that is marked.
    pub(crate) fn aggregate(&self) -> &Plan {
        &self.0
    }

    /// The plan without marks.
    pub(crate) fn unmarked(plan: Plan) -> Result<Plan> {
        let unmark = |node: Plan| {
            Ok(match Self::of(&node) {
                Some(Self(aggregate)) => Transformed::yes(Arc::clone(aggregate)),
                None => Transformed::no(node),
            })
        };
        plan.transform_up(unmark).data()
    }
}

impl DisplayAs for LoneStageExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(t, f)
    }
}

impl ExecutionPlan for LoneStageExec {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.0.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        self.0.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let aggregate = replace_children_if_necessary(Arc::clone(&self.0), children)?;
        Ok(Self::marking(aggregate))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal(
            "bowtie: a mark of an aggregation was left in a plan".into(),
        ))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.0.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.0.statistics_from_inputs(inputs, args)
    }
}
