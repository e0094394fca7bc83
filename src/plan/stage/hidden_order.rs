//! Orders that a stage's rows come in, as DataFusion planned it, but that no columns tell any more: planned again, nothing would ask for them.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
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
    // It has the order that it says.
    if node.is::<SortPreservingMergeExec>() {
        return Ok(false);
    }
    if leaves_out_keys(node)? {
        return Ok(true);
    }
    let kept = node.maintains_input_order();
    for (child, is_kept) in node.children().into_iter().zip(kept) {
        if is_kept && hides_order(child)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a node has a projection without some of the keys by which its rows come in order.
pub(crate) fn leaves_out_keys(node: &Plan) -> Result<bool> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let exprs = projection.expr().iter().map(|column| &column.expr);
        return Ok(!tells_order(projection.input(), exprs));
    }
    let join = node.downcast_ref::<HashJoinExec>();
    let filter = node.downcast_ref::<FilterExec>();
    let has_projection = join.is_some_and(HashJoinExec::contains_projection)
        || filter.is_some_and(|filter| filter.projection().is_some());
    if !has_projection {
        return Ok(false);
    }
    let (below, columns) = unprojected(node)?;
    let columns: Vec<Arc<dyn PhysicalExpr>> = columns
        .iter()
        .flatten()
        .map(|at| Arc::new(Column::new(below.schema().field(*at).name(), *at)) as _)
        .collect();
    Ok(!tells_order(&below, columns.iter()))
}

/// Whether all keys of an order are among expressions, or equal to one of them, or constant. A function of a key is no key: it may have ties.
fn tells_order<'a>(below: &Plan, exprs: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>) -> bool {
    let Some(ordering) = below.output_ordering() else {
        return true;
    };
    let known = below.equivalence_properties();
    let normal = |expr: &Arc<dyn PhysicalExpr>| known.eq_group().normalize_expr(Arc::clone(expr));
    let told: Vec<Arc<dyn PhysicalExpr>> = exprs.map(normal).collect();
    ordering.iter().all(|key| {
        let key = normal(&key.expr);
        known.is_expr_constant(&key).is_some() || told.iter().any(|expr| expr.eq(&key))
    })
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
