//! [`permits`]: what a rewrite may do with an expression while a plan is made. Every rewrite that repeats, moves or rebinds an expression asks
//! here, and every one that evaluates it asks [`early_value`](super::early_value), so that what an expression may contain is known in one place:
//!
//! | expression | evaluate | repeat | move | rebind |
//! |---|---|---|---|---|
//! | columns, constants, operations that have a value on every row | yes | yes | yes | yes |
//! | division, casts that narrow, functions: may fail on a row | yes, an error has no value | yes | no | yes |
//! | `random()`, `uuid()`: volatile | no | no | no | yes |
//! | a scalar subquery: has no value before the query runs | no | yes | yes | yes |
//! | a lambda: bound to the columns of its input | no | yes | no | no |
//! | a dynamic filter: changes while the query runs | no | yes | no | yes |

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr as LogicalExpr;
use datafusion::physical_expr::expressions::{Column, LambdaVariable, Literal};
use datafusion::physical_expr_common::physical_expr::is_volatile;

use crate::plan::compile::compiler::Expr;
use crate::plan::compile::early_value::contains;
use crate::plan::compile::fallible::cannot_fail;

/// What a rewrite does with an expression.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Use<'a> {
    /// Evaluates it more or fewer times per row than DataFusion's plan, such as once for each of two columns.
    Repeat,
    /// Evaluates it on rows of this schema on which DataFusion's plan does not: before a filter, or on rows that a join drops.
    Move(&'a Schema),
    /// Replaces its columns by those of another input.
    Rebind,
}

/// Whether a rewrite may do this, and the query has the same rows and errors.
pub(crate) fn permits(expr: &Expr, what: Use<'_>) -> bool {
    match what {
        Use::Repeat => !is_volatile(expr),
        Use::Move(schema) => permits(expr, Use::Repeat) && cannot_fail(expr, schema),
        Use::Rebind => !contains(expr, &|node| node.is::<LambdaVariable>()),
    }
}

/// Expressions over the columns of a projection, over what that projection computes them `from`. `None` if a volatile expression would be
/// evaluated more often than once, which gives each reader another value.
pub(crate) fn merged(above: &[Expr], from: &[Expr]) -> Option<Vec<Expr>> {
    let mut read = vec![0; from.len()];
    for expr in above {
        count_reads(expr, &mut read);
    }
    let mut computed = from.iter().zip(read);
    if computed.any(|(expr, times)| times > 1 && !permits(expr, Use::Repeat)) {
        return None;
    }
    above.iter().map(|expr| seen_through(expr, from)).collect()
}

/// Adds how often an expression reads each column.
fn count_reads(expr: &Expr, read: &mut [usize]) {
    if let Some(column) = expr.downcast_ref::<Column>()
        && let Some(times) = read.get_mut(column.index())
    {
        *times += 1;
    }
    for child in expr.children() {
        count_reads(child, read);
    }
}

/// An expression over the columns of a projection, over what that projection computes them `from`: to look through it. Whoever evaluates the
/// result beside the projection asks [`permits`] for [`Use::Repeat`].
pub(crate) fn seen_through(expr: &Expr, from: &[Expr]) -> Option<Expr> {
    if !permits(expr, Use::Rebind) {
        return None;
    }
    let replaced = Arc::clone(expr).transform_down(|node| {
        Ok(match node.downcast_ref::<Column>() {
            Some(column) => match from.get(column.index()) {
                Some(of) => Transformed::new(Arc::clone(of), true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            },
            None => Transformed::no(node),
        })
    });
    replaced.data().ok()
}

/// Whether an expression costs nothing however often it is evaluated.
pub(crate) fn is_free(expr: &Expr) -> bool {
    expr.is::<Column>() || expr.is::<Literal>()
}

/// Whether a logical expression by itself, without its children, has the same value whenever it is evaluated, and no query inside.
pub(crate) fn repeats(expr: &LogicalExpr) -> bool {
    let is_query = matches!(
        expr,
        LogicalExpr::Exists(_)
            | LogicalExpr::InSubquery(_)
            | LogicalExpr::SetComparison(_)
            | LogicalExpr::ScalarSubquery(_)
            | LogicalExpr::OuterReferenceColumn(..)
    );
    !is_query && !expr.is_volatile_node()
}

#[cfg(test)]
mod tests;
