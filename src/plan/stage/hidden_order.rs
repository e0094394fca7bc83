//! Orders that a stage's rows come in, as DataFusion planned it, but that no columns tell any more: planned again, nothing would ask for them.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

type Plan = Arc<dyn ExecutionPlan>;

/// Whether the rows of a node come in an order that its columns do not tell, as a projection left out keys: nobody above can ask for it.
pub(crate) fn hides_order(node: &Plan) -> Result<bool> {
    let keys = |node: &Plan| node.output_ordering().map_or(0, |ordering| ordering.len());
    let (unprojected, projection) = unprojected(node)?;
    if projection.is_some() && keys(&unprojected) > keys(node) {
        return Ok(true);
    }
    let kept = node.maintains_input_order();
    for (child, is_kept) in node.children().into_iter().zip(kept) {
        let is_left_out = node.is::<ProjectionExec>() && keys(child) > keys(node);
        if is_kept && (is_left_out || hides_order(child)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a node has the first rows in such an order.
pub(crate) fn limits_hidden_order(node: &Plan) -> Result<bool> {
    let is_limit = node.fetch().is_some() || node.is::<GlobalLimitExec>();
    let sorts = node.is::<SortExec>() || node.is::<SortPreservingMergeExec>();
    if !is_limit || sorts {
        return Ok(false);
    }
    let mut hidden = node.children().into_iter().map(hides_order);
    hidden.try_fold(false, |any, one| Ok(any || one?))
}

/// A node without the projection and the limit that it may have, and the columns of the projection.
pub(crate) fn unprojected(node: &Plan) -> Result<(Plan, Option<Vec<usize>>)> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let columns = join.projection.as_ref().map(|columns| columns.to_vec());
        let builder = join.builder().with_projection(None).with_fetch(None);
        return Ok((builder.build_exec()?, columns));
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let columns = filter.projection().as_ref().map(|columns| columns.to_vec());
        let builder = FilterExecBuilder::from(filter).apply_projection_by_ref(None)?;
        return Ok((Arc::new(builder.with_fetch(None).build()?), columns));
    }
    Ok((Arc::clone(node), None))
}
