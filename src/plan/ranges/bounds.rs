//! [`Bounds`]: which values of a pair that matches lie between which others.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, NegativeExpr};
use datafusion::physical_expr::utils::collect_columns;

use crate::functions::ranges::have_ranges;
use crate::ir::comparison::Comparison;
use crate::ir::side::Side;
use crate::plan::compile::fallible::is_widening;
use crate::plan::compile::permitted::{Use, permits};
use crate::plan::ranges::extent::guards_hold;
use crate::plan::recognise::condition::{Classified, classify};
use crate::plan::sources::join_source::JoinSource;
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

impl Bounds {
    /// Whether intervals have one length: their ends are made of one column.
    pub(crate) fn have_one_length(&self) -> bool {
        match self {
            Self::Between {
                ends: [low, high], ..
            } => {
                let mut columns = collect_columns(low);
                columns.extend(collect_columns(high));
                columns.len() == 1
            }
            Self::Overlap(_) => false,
        }
    }
}

/// The bounds by which a join may be divided.
pub(crate) fn bounds_of(source: &JoinSource) -> Result<Vec<Bounds>> {
    let mut found = vec![];
    for inner in [Side::Left, Side::Right] {
        if !may_repeat_other(inner, source.kind) {
            continue;
        }
        // The limit of a band goes to the other side.
        let mut compared = compared(source, inner)?;
        if source.kind == JoinType::Inner && inner == Side::Left {
            found.extend(overlap(&compared).map(Bounds::Overlap));
        }
        if inner == Side::Right {
            for (left, op, right) in &mut compared {
                std::mem::swap(left, right);
                *op = op.swap();
            }
        }
        found.extend(between(&compared).map(|(value, ends)| Bounds::Between {
            inner,
            value,
            ends,
        }));
    }
    Ok(found)
}

/// What a condition compares: expressions of the left side with those of the right one. Those of side `unmoved` are as the condition has them.
fn compared(source: &JoinSource, unmoved: Side) -> Result<Vec<(Expr, Comparison, Expr)>> {
    let Some(filter) = &source.filter else {
        return Ok(vec![]);
    };
    let [left, right] = [source.left.schema(), source.right.schema()];
    let mut left = SideInput::new(left);
    let mut right = SideInput::new(right);
    let how = Classified {
        sets: false,
        unmoved: Some(unmoved),
    };
    let condition = classify(filter, &mut left, &mut right, how)?;
    if !guards_hold(&condition.guards, source) {
        return Ok(vec![]);
    }
    let comparisons = condition.comparisons.iter();
    let compared = comparisons.map(|c| {
        let (of_left, of_right) = (expression(&left, c.left), expression(&right, c.right));
        (of_left, c.op, of_right)
    });
    let compared = compared.filter(|(of_left, _, of_right)| {
        // Numbers of values of other units would not compare as the values do.
        let types = [
            of_left.data_type(left.plan()),
            of_right.data_type(right.plan()),
        ];
        matches!(&types, [Ok(one), Ok(other)] if one == other)
            && has_ranges(of_left, left.plan())
            && has_ranges(of_right, right.plan())
    });
    Ok(compared.collect())
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
    if permits(expr, Use::Move(schema)) {
        return true;
    }
    let type_of = |expr: &Expr| expr.data_type(schema).ok();
    // A sum or a difference has one digit more.
    let has_room = |expr: &Expr| matches!(type_of(expr), Some(DataType::Decimal128(..=37, _)));
    let safe = if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        type_of(cast.expr()).is_some_and(|from| is_widening(&from, cast.cast_type()))
    } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        matches!(binary.op(), Operator::Plus | Operator::Minus)
            && has_room(binary.left())
            && has_room(binary.right())
    } else {
        expr.is::<NegativeExpr>() && has_room(expr)
    };
    safe && expr
        .children()
        .into_iter()
        .all(|child| is_total(child, schema))
}
