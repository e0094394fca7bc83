//! Rewriting conditions that mix the sides in one sum or difference: `l.a - r.b < c`, `l.a + r.b >= c`,
//! `abs(l.a - r.b) <= c` become comparisons of a left expression with a right one.
//!
//! Integers and decimals are rewritten in 128-bit arithmetic, exactly; since DataFusion's own integers wrap, a [`Guard`](crate::spec::guard::Guard)
//! excludes values on which they would. Floats round, so their rewritten bounds are a few units in the last place wider, and the conjunct
//! itself stays in the residual filter.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::math::abs::AbsFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Literal, NegativeExpr, lit,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::ir::comparison::Comparison;
use crate::ir::side::Side;
use crate::plan::recognise::sides::{ExprComparison, comparison_of, on_side, side_of};

type Expr = Arc<dyn PhysicalExpr>;

/// A conjunct as comparisons of a left with a right expression, each over the columns of its side.
pub(crate) struct Rewritten {
    pub comparisons: Vec<ExprComparison>,
    pub guards: Vec<GuardExpr>,
    /// Whether the comparisons are equivalent to the conjunct; otherwise more pairs satisfy them.
    pub exact: bool,
    /// As EXPLAIN shows all of them, if not each by itself.
    pub display: Option<String>,
}

/// A guard over expressions that have no column yet.
pub(crate) enum GuardExpr {
    NoOverflow {
        first: (Side, Expr),
        second: (Side, Expr),
        subtract: bool,
        low: i128,
        high: i128,
    },
    Finite(Side, Expr),
}

/// `first - second` or `first + second`, each of its own side.
pub(super) struct Mixed {
    pub(super) first: (Side, Expr),
    pub(super) second: (Side, Expr),
    pub(super) subtract: bool,
    /// Inside `abs`.
    pub(super) absolute: bool,
    pub(super) data_type: DataType,
}

/// `None` when the conjunct has no such form.
pub(crate) fn rewrite(filter: &JoinFilter, conjunct: &Expr) -> Result<Option<Rewritten>> {
    let Some(binary) = conjunct.downcast_ref::<BinaryExpr>() else {
        return Ok(None);
    };
    let Some(op) = comparison_of(*binary.op()) else {
        return Ok(None);
    };
    let (mixed, op, limit) = match mixed(filter, binary.left())? {
        Some(mixed) => (mixed, op, binary.right()),
        None => match mixed(filter, binary.right())? {
            Some(mixed) => (mixed, op.swap(), binary.left()),
            None => return Ok(None),
        },
    };
    // Only a constant can go to either side.
    if !collect_columns(limit).is_empty() || !limit.is::<Literal>() {
        return Ok(None);
    }
    if op == Comparison::NotEq
        || (mixed.absolute && !matches!(op, Comparison::Lt | Comparison::LtEq))
    {
        return Ok(None);
    }
    if mixed.data_type.is_floating() {
        return floats(mixed, op, limit);
    }
    exact(mixed, op, limit, filter)
}

fn mixed(filter: &JoinFilter, expr: &Expr) -> Result<Option<Mixed>> {
    let expr = without_widening(filter, expr)?;
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let is_abs = ScalarFunctionExpr::try_downcast_func::<AbsFunc>(expr.as_ref()).is_some();
        return match call.args() {
            [inner] if is_abs => Ok(mixed(filter, inner)?
                .filter(|m| !m.absolute)
                .map(|m| Mixed {
                    absolute: true,
                    ..m
                })),
            _ => Ok(None),
        };
    }
    let Some(binary) = expr.downcast_ref::<BinaryExpr>() else {
        return Ok(None);
    };
    let subtract = match binary.op() {
        Operator::Minus => true,
        Operator::Plus => false,
        _ => return Ok(None),
    };
    let types = [binary.left(), binary.right()].map(|e| e.data_type(filter.schema()));
    let [Ok(first_type), Ok(second_type)] = types else {
        return Ok(None);
    };
    let data_type = expr.data_type(filter.schema())?;
    let plain =
        data_type.is_integer() || matches!(data_type, DataType::Float32 | DataType::Float64);
    let decimals = [&first_type, &second_type, &data_type]
        .iter()
        .all(|t| matches!(t, DataType::Decimal128(p, _) if *p <= 37));
    let numbers = decimals || (plain && first_type == data_type && second_type == data_type);
    if !numbers {
        return Ok(None);
    }
    match (
        side_of(filter, binary.left()),
        side_of(filter, binary.right()),
    ) {
        (Some(first), Some(second)) if first != second => Ok(Some(Mixed {
            first: (first, on_side(filter, binary.left())?),
            second: (second, on_side(filter, binary.right())?),
            subtract,
            absolute: false,
            data_type,
        })),
        _ => Ok(None),
    }
}

/// The operand of casts that change no value: from one integer type to a wider one.
pub(super) fn without_widening(filter: &JoinFilter, expr: &Expr) -> Result<Expr> {
    let Some(cast) = expr.downcast_ref::<CastExpr>() else {
        return Ok(Arc::clone(expr));
    };
    let from = cast.expr().data_type(filter.schema())?;
    let widens = match (integer_range(&from), integer_range(cast.cast_type())) {
        (Some((low, high)), Some((least, most))) => least <= low && high <= most,
        _ => false,
    };
    match widens {
        true => without_widening(filter, cast.expr()),
        false => Ok(Arc::clone(expr)),
    }
}

pub(super) fn integer_range(data_type: &DataType) -> Option<(i128, i128)> {
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// Integers and decimals: all moved to one side in 128 bits.
pub(super) fn exact(
    mixed: Mixed,
    op: Comparison,
    limit: &Expr,
    filter: &JoinFilter,
) -> Result<Option<Rewritten>> {
    let limit_type = limit.data_type(filter.schema())?;
    let scale_of = |t: &DataType| match t {
        DataType::Decimal128(_, scale) => Some(*scale),
        t if t.is_integer() => Some(0),
        _ => None,
    };
    let (Some(scale), Some(limit_scale)) = (scale_of(&mixed.data_type), scale_of(&limit_type))
    else {
        return Ok(None);
    };
    let integers = mixed.data_type.is_integer();
    let wide = match integers {
        true => DataType::Decimal128(20, 0),
        // A value that does not fit fails, and the whole filter is evaluated instead.
        false => DataType::Decimal128(37, scale.max(limit_scale)),
    };
    let widen = |e: &Expr| -> Expr { Arc::new(CastExpr::new(Arc::clone(e), wide.clone(), None)) };
    let (first, second, limit) = (widen(&mixed.first.1), widen(&mixed.second.1), widen(limit));
    let sum = |a: &Expr, op: Operator, b: &Expr| -> Expr {
        Arc::new(BinaryExpr::new(Arc::clone(a), op, Arc::clone(b)))
    };
    // Both sides of one type: ranked keys need it.
    let common = DataType::Decimal128(38, scale.max(limit_scale));
    let alike = |e: Expr| -> Expr { Arc::new(CastExpr::new(e, common.clone(), None)) };
    let second = alike(second);
    let mut comparisons = vec![];
    let mut add = |moved: Expr, op: Comparison| {
        comparisons.push(oriented(mixed.first.0, alike(moved), op, &second));
    };
    match mixed.subtract {
        // first - second OP limit: first - limit OP second
        true => add(sum(&first, Operator::Minus, &limit), op),
        // first + second OP limit: limit - first (OP swapped) second
        false => add(sum(&limit, Operator::Minus, &first), op.swap()),
    }
    if mixed.absolute {
        match mixed.subtract {
            // first - second (OP swapped) -limit: first + limit (OP swapped) second
            true => add(sum(&first, Operator::Plus, &limit), op.swap()),
            // first + second (OP swapped) -limit: -limit - first OP second
            false => {
                let negative: Expr = Arc::new(NegativeExpr::new(Arc::clone(&limit)));
                add(sum(&negative, Operator::Minus, &first), op);
            }
        }
    }
    let range = integer_range(&mixed.data_type);
    let guards = range.map(|(low, high)| {
        // The least integer has no absolute value.
        let low = low + i128::from(mixed.absolute);
        no_overflow([mixed.first, mixed.second], mixed.subtract, (low, high))
    });
    let guards = guards.into_iter().collect();
    Ok(Some(Rewritten {
        comparisons,
        guards,
        exact: true,
        display: None,
    }))
}

pub(super) fn no_overflow(
    [first, second]: [(Side, Expr); 2],
    subtract: bool,
    (low, high): (i128, i128),
) -> GuardExpr {
    GuardExpr::NoOverflow {
        first,
        second,
        subtract,
        low,
        high,
    }
}

/// Floats: bounds that rounding cannot make too narrow.
pub(super) fn floats(mixed: Mixed, op: Comparison, limit: &Expr) -> Result<Option<Rewritten>> {
    let Some(literal) = limit.downcast_ref::<Literal>() else {
        return Ok(None);
    };
    let Ok(ScalarValue::Float64(Some(limit))) = literal.value().cast_to(&DataType::Float64) else {
        return Ok(None);
    };
    if !limit.is_finite() || limit.abs() > 1e300 {
        return Ok(None);
    }
    // Relative error of one operation in the condition's own type, with room for the three of the bound.
    let epsilon = match mixed.data_type {
        DataType::Float32 => 2f64.powi(-20),
        _ => 2f64.powi(-49),
    };
    let double =
        |e: &Expr| -> Expr { Arc::new(CastExpr::new(Arc::clone(e), DataType::Float64, None)) };
    let binary = |a: Expr, op: Operator, b: Expr| -> Expr { Arc::new(BinaryExpr::new(a, op, b)) };
    let (first, second) = (double(&mixed.first.1), double(&mixed.second.1));
    let magnitude: Expr = Arc::new(CaseExpr::try_new(
        None,
        vec![(
            binary(Arc::clone(&first), Operator::Lt, lit(0f64)),
            Arc::new(NegativeExpr::new(Arc::clone(&first))) as Expr,
        )],
        Some(Arc::clone(&first)),
    )?);
    let slack = binary(
        binary(magnitude, Operator::Plus, lit(limit.abs())),
        Operator::Multiply,
        lit(epsilon),
    );
    // The value of `second` at which the sum or difference equals `at`, moved away by the slack.
    let bound = |at: f64, widen: Operator| {
        let exact = match mixed.subtract {
            true => binary(Arc::clone(&first), Operator::Minus, lit(at)),
            false => binary(lit(at), Operator::Minus, Arc::clone(&first)),
        };
        binary(exact, widen, Arc::clone(&slack))
    };
    // Of the sum or difference: at most `limit`, at least `limit`.
    let (upper, lower) = match op {
        Comparison::Lt | Comparison::LtEq => (Some(limit), mixed.absolute.then_some(-limit)),
        Comparison::Gt | Comparison::GtEq => (None, Some(limit)),
        Comparison::Eq => (Some(limit), Some(limit)),
        Comparison::NotEq => return Ok(None),
    };
    let mut comparisons = vec![];
    for (at, at_most) in [(upper, true), (lower, false)] {
        let Some(at) = at else { continue };
        // A difference is at most the limit where `second` is at least the bound; a sum the other way round.
        let (widen, op) = match at_most == mixed.subtract {
            true => (Operator::Minus, Comparison::LtEq),
            false => (Operator::Plus, Comparison::GtEq),
        };
        comparisons.push(oriented(mixed.first.0, bound(at, widen), op, &second));
    }
    Ok(Some(Rewritten {
        comparisons,
        guards: vec![
            GuardExpr::Finite(mixed.first.0, mixed.first.1),
            GuardExpr::Finite(mixed.second.0, mixed.second.1),
        ],
        exact: false,
        display: None,
    }))
}

/// `moved OP second` with the left side's expression first; `side` is that of `moved`.
fn oriented(side: Side, moved: Expr, op: Comparison, second: &Expr) -> ExprComparison {
    match side {
        Side::Left => (moved, op, Arc::clone(second)),
        Side::Right => (Arc::clone(second), op.swap(), moved),
    }
}
