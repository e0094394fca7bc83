//! One view of DataFusion's aggregation nodes.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

use crate::plan::sources::lone_stage::LoneStageExec;

/// What an aggregation reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateStage {
    /// From rows to results.
    Whole,
    /// From rows to partial states, which another node merges.
    First,
    /// From partial states to fewer of them.
    Middle,
    /// From partial states to results.
    Last,
}

impl AggregateStage {
    fn of(mode: AggregateMode) -> Self {
        match mode {
            AggregateMode::Single | AggregateMode::SinglePartitioned => Self::Whole,
            AggregateMode::Partial => Self::First,
            AggregateMode::PartialReduce => Self::Middle,
            AggregateMode::Final | AggregateMode::FinalPartitioned => Self::Last,
        }
    }

    pub(crate) fn reads_states(self) -> bool {
        matches!(self, Self::Middle | Self::Last)
    }

    pub(crate) fn writes_states(self) -> bool {
        matches!(self, Self::First | Self::Middle)
    }
}

/// An aggregation: one node from rows to results, or the Partial below a Final, or one of several stages by itself.
pub(crate) struct GroupSource<'a> {
    /// The node that the parent sees.
    pub top: &'a AggregateExec,
    /// The node that reads the rows: `top` itself, or the Partial below it.
    pub bottom: &'a AggregateExec,
    pub stage: AggregateStage,
}

/// `None` when `plan` is no aggregation in its final stage, nor marked as one of several stages.
pub(crate) fn group_source(plan: &Arc<dyn ExecutionPlan>) -> Option<GroupSource<'_>> {
    let top = plan.downcast_ref::<AggregateExec>()?;
    let stage = AggregateStage::of(*top.mode());
    if LoneStageExec::of(plan).is_some() {
        return Some(GroupSource {
            top,
            bottom: top,
            stage,
        });
    }
    let bottom = match stage {
        AggregateStage::Whole => top,
        AggregateStage::Last => top
            .input()
            .downcast_ref::<AggregateExec>()
            .filter(|below| *below.mode() == AggregateMode::Partial)?,
        AggregateStage::First | AggregateStage::Middle => return None,
    };
    Some(GroupSource {
        top,
        bottom,
        stage: AggregateStage::Whole,
    })
}
