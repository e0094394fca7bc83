//! The stage at the head of a plan, which the coordinator executes in its own process: offloaded to the devices there.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::statistics::StatisticsContext;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, StatisticsArgs,
    replace_children_if_necessary,
};
use datafusion_bowtie::BowtieStageRule;
use datafusion_distributed::{DistributedExec, NetworkBoundaryExt};

type Plan = Arc<dyn ExecutionPlan>;

/// A divided plan whose head is offloaded. What is below its exchanges stays: the workers offload that.
pub(super) fn offloaded(
    plan: Plan,
    rule: &BowtieStageRule,
    config: &ConfigOptions,
) -> Result<Plan> {
    let of_head = |node: Plan| {
        let ([head], true) = (&node.children()[..], node.is::<DistributedExec>()) else {
            return Ok(Transformed::no(node));
        };
        let cut = Arc::clone(head).transform_down(without_stages)?;
        // One without exchanges is divided when it runs.
        if !cut.transformed {
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        let head = rule.optimize(cut.data, config)?;
        let head = head.transform_down(with_stages)?.data;
        let node = replace_children_if_necessary(node, vec![head])?;
        Ok(Transformed::new(node, true, TreeNodeRecursion::Jump))
    };
    plan.transform_down(of_head).data()
}

fn without_stages(node: Plan) -> Result<Transformed<Plan>> {
    if !node.is_network_boundary() {
        return Ok(Transformed::no(node));
    }
    let input = Arc::new(HeadInputExec(node));
    Ok(Transformed::new(input, true, TreeNodeRecursion::Jump))
}

fn with_stages(node: Plan) -> Result<Transformed<Plan>> {
    let Some(input) = node.downcast_ref::<HeadInputExec>() else {
        return Ok(Transformed::no(node));
    };
    let exchange = Arc::clone(&input.0);
    Ok(Transformed::new(exchange, true, TreeNodeRecursion::Jump))
}

/// In the place of an exchange, while what is above it is planned.
#[derive(Debug)]
struct HeadInputExec(Plan);

impl DisplayAs for HeadInputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeadInputExec")
    }
}

impl ExecutionPlan for HeadInputExec {
    fn name(&self) -> &str {
        "HeadInputExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Plan>) -> Result<Plan> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("HeadInputExec is there while a query is planned")
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        StatisticsContext::new().compute(self.0.as_ref(), args)
    }
}
