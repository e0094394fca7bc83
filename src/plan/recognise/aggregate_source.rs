//! One view of DataFusion's aggregation nodes.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

use crate::plan::recognise::refusal::Refusal;

/// An aggregation from rows to results: one node, or the Partial below a Final.
pub(crate) struct GroupSource<'a> {
    /// The node that the parent sees.
    pub top: &'a AggregateExec,
    /// The node that reads the rows: `top` itself, or the Partial below it.
    pub bottom: &'a AggregateExec,
}

/// `None` when `plan` is no aggregation in its final stage.
pub(crate) fn group_source(plan: &Arc<dyn ExecutionPlan>) -> Option<GroupSource<'_>> {
    let top = plan.downcast_ref::<AggregateExec>()?;
    let bottom = match top.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => top,
        AggregateMode::Final | AggregateMode::FinalPartitioned => top
            .input()
            .downcast_ref::<AggregateExec>()
            .filter(|below| *below.mode() == AggregateMode::Partial)?,
        _ => return None,
    };
    Some(GroupSource { top, bottom })
}

/// Gives the column of an aggregation's input that holds an expression.
pub(crate) type Find<'a> = dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<usize, Refusal> + 'a;
