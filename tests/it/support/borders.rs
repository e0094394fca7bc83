//! Cuts plans as engines with several processes do: exchanges become nodes that nobody looks into.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    replace_children_if_necessary,
};

type Plan = Arc<dyn ExecutionPlan>;

/// Puts a [`BorderExec`] above each exchange by hash, and below each node that unites partitions.
#[derive(Debug)]
pub(crate) struct CutPlans;

impl PhysicalOptimizerRule for CutPlans {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let cut = |node: Plan| {
            let by_hash = node
                .downcast_ref::<RepartitionExec>()
                .is_some_and(|node| matches!(node.partitioning(), Partitioning::Hash(..)));
            let unites =
                node.is::<CoalescePartitionsExec>() || node.is::<SortPreservingMergeExec>();
            let bordered = |node: &Plan| Arc::new(BorderExec(Arc::clone(node))) as Plan;
            Ok(match () {
                () if by_hash => Transformed::yes(bordered(&node)),
                () if unites => {
                    let below = node.children().into_iter().map(bordered).collect();
                    Transformed::yes(replace_children_if_necessary(node, below)?)
                }
                () => Transformed::no(node),
            })
        };
        plan.transform_up(cut).data()
    }

    fn name(&self) -> &str {
        "cut_plans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of a node, as if they came from another process.
#[derive(Debug)]
struct BorderExec(Plan);

impl DisplayAs for BorderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BorderExec")
    }
}

impl ExecutionPlan for BorderExec {
    fn name(&self) -> &str {
        "BorderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.0]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Plan>) -> Result<Plan> {
        Ok(Arc::new(Self(children.swap_remove(0))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}
