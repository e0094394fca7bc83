//! Values of expressions while planning: the lowest part of what [`permitted`](super::permitted) permits, as constants of programs need it.

use arrow::array::RecordBatch;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, LambdaVariable};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;

use crate::plan::compile::compiler::Expr;

/// Whether an expression has the value while planning that it has when the query runs.
pub(super) fn has_early_value(expr: &Expr) -> bool {
    let is_late = |node: &Expr| {
        node.is::<ScalarSubqueryExpr>()
            || node.is::<DynamicFilterPhysicalExpr>()
            || node.is::<LambdaVariable>()
    };
    !is_volatile(expr) && !contains(expr, &is_late)
}

/// Whether `expr` reads the value of a scalar subquery, which is known when the query runs.
pub(crate) fn reads_subquery(expr: &Expr) -> bool {
    contains(expr, &|node| node.is::<ScalarSubqueryExpr>())
}

/// Whether an expression or a part of it `is` something.
pub(super) fn contains(expr: &Expr, is: &dyn Fn(&Expr) -> bool) -> bool {
    is(expr) || expr.children().into_iter().any(|child| contains(child, is))
}

/// The values of `expr` on the rows of `batch`, while planning; `None` if it has none before the query runs, or fails.
pub(crate) fn evaluated(expr: &Expr, batch: &RecordBatch) -> Option<ColumnarValue> {
    match has_early_value(expr) {
        true => expr.evaluate(batch).ok(),
        false => None,
    }
}
