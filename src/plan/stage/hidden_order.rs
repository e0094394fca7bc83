//! Orders that a stage's rows come in, as DataFusion planned it, but that no columns tell any more: planned again, nothing would ask for them.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::async_func::AsyncFuncExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

type Plan = Arc<dyn ExecutionPlan>;

/// Whether the rows of a node come in an order that its columns do not tell, as a projection left out keys: nobody above can ask for it. Of
/// several partitions nobody can have read rows in such an order: a merge needs its keys.
pub(crate) fn hides_order(node: &Plan) -> Result<bool> {
    // They have the order that they say.
    let says_order = node.is::<SortPreservingMergeExec>() || node.is::<AggregateExec>();
    if says_order || node.output_partitioning().partition_count() > 1 {
        return Ok(false);
    }
    if leaves_out_keys(node)? {
        return Ok(true);
    }
    for (i, child) in node.children().into_iter().enumerate() {
        if keeps_order(node, i) && hides_order(child)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a node's rows come in the order of its `child`-th input. Some nodes do not say so.
pub(crate) fn keeps_order(node: &Plan, child: usize) -> bool {
    let said = node.maintains_input_order();
    if said.get(child).copied().unwrap_or(true) {
        return true;
    }
    // Among the rows of one probe row the order is that of the build side.
    let join = node.downcast_ref::<HashJoinExec>();
    let has_both_orders = join.is_some_and(|join| {
        matches!(join.join_type(), JoinType::Inner | JoinType::Right)
            && node.output_ordering().is_some()
            && join.left.output_ordering().is_some()
    });
    has_both_orders || node.is::<UnnestExec>() || node.is::<AsyncFuncExec>()
}

/// Whether a node has a projection without some of the keys by which its rows come in order. A table in memory does not tell what its rows are
/// sorted by beyond its columns.
pub(crate) fn leaves_out_keys(node: &Plan) -> Result<bool> {
    if let Some(scan) = node.downcast_ref::<DataSourceExec>() {
        let files = scan.data_source().downcast_ref::<FileScanConfig>();
        return Ok(files.is_some_and(leaves_out_sorted_columns));
    }
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

fn leaves_out_sorted_columns(files: &FileScanConfig) -> bool {
    let Some(projection) = files.file_source.projection() else {
        return false;
    };
    let is_read = |key: &Arc<dyn PhysicalExpr>| projection.iter().any(|read| read.expr.eq(key));
    let mut keys = files.output_ordering.iter().flatten();
    !keys.all(|key| is_read(&key.expr))
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
    let takes_any_order = node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<CoalescePartitionsExec>();
    if !is_limit || takes_any_order {
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
