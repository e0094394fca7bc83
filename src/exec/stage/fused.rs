//! [`BowtieFusedExec`]: a node that runs as a part of the pipeline above it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, InvariantLevel};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements,
    PlanProperties, StatisticsArgs, replace_children_if_necessary,
};

type Plan = Arc<dyn ExecutionPlan>;

/// Stands in the place of a node of DataFusion whose work the [pipeline](crate::exec::stage::node::BowtieStageExec) above does. To others it is
/// of that node's type, also when it is sent to another process. If it is executed by itself, it is that node.
#[derive(Debug)]
pub(crate) struct BowtieFusedExec(Plan);

impl BowtieFusedExec {
    const NAME: &'static str = "BowtieFusedExec";

    /// In the place of `original`.
    pub(crate) fn of_node(original: Plan) -> Plan {
        Arc::new(Self(original))
    }

    /// Not by the type that it shows others.
    pub(crate) fn of(plan: &Plan) -> Option<&Self> {
        let any: &dyn Any = plan.as_ref();
        any.downcast_ref()
    }

    /// The node of DataFusion.
    pub(crate) fn original(&self) -> &Plan {
        &self.0
    }
}

/// Writes EXPLAIN's text of DataFusion's node, with its name.
pub(super) fn write_original(
    original: &Plan,
    t: DisplayFormatType,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match t {
        // These texts begin with the name.
        DisplayFormatType::Default | DisplayFormatType::Verbose => original.fmt_as(t, f),
        DisplayFormatType::TreeRender => {
            writeln!(f, "of={}", original.name())?;
            original.fmt_as(t, f)
        }
    }
}

impl DisplayAs for BowtieFusedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(t, DisplayFormatType::TreeRender) {
            write!(f, "{}: ", Self::NAME)?;
        }
        write_original(&self.0, t, f)
    }
}

impl ExecutionPlan for BowtieFusedExec {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.0.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn check_invariants(&self, check: InvariantLevel) -> Result<()> {
        self.0.check_invariants(check)
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.0.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.0.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.0.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.0.benefits_from_input_partitioning()
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
        let original = replace_children_if_necessary(Arc::clone(&self.0), children)?;
        Ok(Self::of_node(original))
    }

    fn reset_state(self: Arc<Self>) -> Result<Plan> {
        Ok(Self::of_node(Arc::clone(&self.0).reset_state()?))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }

    /// None of its own: those of the pipeline are the topmost node's. Engines count the nodes that have any.
    fn metrics(&self) -> Option<MetricsSet> {
        self.0.metrics()
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

    fn fetch(&self) -> Option<usize> {
        self.0.fetch()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.0.cardinality_effect()
    }
}
