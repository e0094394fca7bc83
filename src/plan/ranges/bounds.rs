//! [`Bounds`]: which values of a pair that matches lie between which others.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, CastExpr, NegativeExpr};

use crate::functions::ranges::have_ranges;
use crate::ir::comparison::Comparison;
use crate::ir::side::Side;
use crate::plan::compile::fallible::{cannot_fail, is_widening};
use crate::plan::ranges::extent::guards_hold;
use crate::plan::recognise::condition::{Classified, classify};
use crate::plan::recognise::source::JoinSource;
use crate::spec::join::SideInput;

type Expr = Arc<dyn PhysicalExpr>;

/// What a condition says of each pair that matches.
#[derive(Debug, Clone)]
pub(crate) enum Bounds {
    /// A value of side `inner` is between two values of the other side.
    Between {
        inner: Side,
        value: Expr,
        /// Over the other side.
        ends: [Expr; 2],
    },
    /// The intervals between two values of either side, the left and the right one, overlap.
    Overlap([[Expr; 2]; 2]),
}

/// The bounds by which a join may be divided, the best ones first.
pub(crate) fn bounds_of(source: &JoinSource) -> Result<Vec<Bounds>> {
    let Some(filter) = &source.filter else {
        return Ok(vec![]);
    };
    let schemas = [source.left.schema(), source.right.schema()];
    let mut sides = schemas
        .each_ref()
        .map(|schema| SideInput::new(Arc::clone(schema)));
    let [left, right] = &mut sides;
    let how = Classified {
        sets: false,
        unmoved: None,
    };
    let condition = classify(filter, left, right, how)?;
    if !guards_hold(&condition.guards, source) {
        return Ok(vec![]);
    }
    let [left, right] = &sides;
    let compared: Vec<(Expr, Comparison, Expr)> = condition
        .comparisons
        .iter()
        .map(|c| (expression(left, c.left), c.op, expression(right, c.right)))
        .filter(|(left, _, right)| has_ranges(left, &schemas[0]) && has_ranges(right, &schemas[1]))
        .collect();
    let swapped: Vec<_> = compared
        .iter()
        .map(|(left, op, right)| (Arc::clone(right), op.swap(), Arc::clone(left)))
        .collect();
    let mut found = vec![];
    for (inner, compared) in [(Side::Left, &compared), (Side::Right, &swapped)] {
        if may_repeat_other(inner, source.kind) {
            found.extend(between(compared).map(|(value, ends)| Bounds::Between {
                inner,
                value,
                ends,
            }));
        }
    }
    if source.kind == JoinType::Inner {
        found.extend(overlap(&compared).map(Bounds::Overlap));
    }
    Ok(found)
}

/// Whether rows of the side other than `inner` may be there more than once: no row of it comes out by itself.
fn may_repeat_other(inner: Side, kind: JoinType) -> bool {
    use JoinType::*;
    match inner {
        Side::Left => matches!(kind, Inner | Left | LeftSemi | LeftAnti | LeftMark),
        Side::Right => matches!(kind, Inner | Right | RightSemi | RightAnti | RightMark),
    }
}

/// A value of the first side that has an end below and one above it.
fn between(compared: &[(Expr, Comparison, Expr)]) -> Option<(Expr, [Expr; 2])> {
    let above = compared.iter().filter(|(_, op, _)| is_below(*op));
    let mut pairs = above.flat_map(|(value, _, high)| {
        let below = compared.iter();
        let below = below.filter(move |(other, op, _)| is_below(op.swap()) && other == value);
        below.map(move |(.., low)| (Arc::clone(value), [Arc::clone(low), Arc::clone(high)]))
    });
    pairs.next()
}

/// The ends of the left interval and of the right one, where each begins before the other one ends.
fn overlap(compared: &[(Expr, Comparison, Expr)]) -> Option<[[Expr; 2]; 2]> {
    let (begin, _, other_end) = compared.iter().find(|(_, op, _)| is_below(*op))?;
    let (end, _, other_begin) = compared.iter().find(|(_, op, _)| is_below(op.swap()))?;
    Some([
        [Arc::clone(begin), Arc::clone(end)],
        [Arc::clone(other_begin), Arc::clone(other_end)],
    ])
}

fn is_below(op: Comparison) -> bool {
    matches!(op, Comparison::Lt | Comparison::LtEq)
}

/// What a column of a side's input holds.
fn expression(side: &SideInput, column: usize) -> Expr {
    match column.checked_sub(side.plan_columns()) {
        Some(computed) => Arc::clone(&side.expressions[computed]),
        None => Arc::new(Column::new(side.plan().field(column).name(), column)),
    }
}

fn has_ranges(expr: &Expr, schema: &Schema) -> bool {
    expr.data_type(schema).is_ok_and(|of| have_ranges(&of)) && is_total(expr, schema)
}

/// Whether an expression has a value on every row: it is evaluated on rows that DataFusion's join may not look at.
fn is_total(expr: &Expr, schema: &Schema) -> bool {
    if cannot_fail(expr, schema) {
        return true;
    }
    let type_of = |expr: &Expr| expr.data_type(schema).ok();
    let exact = |of: Option<DataType>| matches!(of, Some(DataType::Decimal128(..=37, _)));
    let safe = if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        type_of(cast.expr()).is_some_and(|from| is_widening(&from, cast.cast_type()))
    } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        // With room for another digit.
        matches!(binary.op(), Operator::Plus | Operator::Minus) && exact(type_of(expr))
    } else {
        let is_number = type_of(expr).is_some_and(|of| of.is_floating()) || exact(type_of(expr));
        expr.is::<NegativeExpr>() && is_number || expr.is::<CaseExpr>()
    };
    safe && expr
        .children()
        .into_iter()
        .all(|child| is_total(child, schema))
}
