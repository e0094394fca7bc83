//! Which inputs of a join may be read by several joins instead of one.

use datafusion::catalog::stream::StreamTable;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};

/// Whether an input has the same rows each time that it is read, and is read at the cost of a scan: filters, projections and names above a
/// table or constants. A limit or a random number may give other rows each time, and a join or an aggregation would be computed each time.
pub(super) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let is_other = plan.exists(|node| Ok(!is_plain(node)?))?;
    Ok(!is_other)
}

fn is_plain(node: &LogicalPlan) -> Result<bool> {
    let mut is_plain = match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::TableScan(scan) => is_repeatable_scan(scan),
        _ => false,
    };
    node.apply_expressions(|expr| {
        is_plain &= !expr.exists(|expr| Ok(may_differ(expr)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_plain)
}

/// Whether an expression may have another value each time, or is a query.
fn may_differ(expr: &Expr) -> bool {
    let is_query = matches!(
        expr,
        Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::ScalarSubquery(_)
            | Expr::OuterReferenceColumn(..)
    );
    is_query || expr.is_volatile_node()
}

fn is_repeatable_scan(scan: &TableScan) -> bool {
    // So DataFusion names a scan of a table function, which may be of counters or of the time.
    let is_function = scan.table_name.table().ends_with("()");
    let Ok(provider) = source_as_provider(&scan.source) else {
        return false;
    };
    // A stream ends with its first reader, and so do the rows of a recursive query's last step.
    let is_read_once = provider.is::<StreamTable>()
        || provider.is::<StreamingTable>()
        || provider.is::<CteWorkTable>();
    let is_view = scan.source.get_logical_plan().is_some();
    !is_function && !is_read_once && !is_view && scan.fetch.is_none()
}
