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
use crate::plan::compile::comparison::comparison_of;
use crate::plan::compile::sides::{ExprComparison, on_side, side_of};
use crate::plan::recognise::rewrites::exact_casts::{
    integer_range, shortest, without_rescaling, without_widening,
};

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
    /// The side whose expression is compared as it is; the limit goes to the other one.
    pub(super) unmoved: Side,
    pub(super) data_type: DataType,
}

/// `None` when the conjunct has no such form. `unmoved`: the side whose expressions are compared as they are; without one it is that of the
/// second operand.
pub(crate) fn rewrite(
    filter: &JoinFilter,
    conjunct: &Expr,
    unmoved: Option<Side>,
) -> Result<Option<Rewritten>> {
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
    let mixed = Mixed {
        unmoved: unmoved.unwrap_or(mixed.unmoved),
        ..mixed
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
    let expr = without_rescaling(filter, &without_widening(filter, expr)?)?;
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
            unmoved: second,
            data_type,
        })),
        _ => Ok(None),
    }
}

/// Integers and decimals: all moved to one side in 128 bits.
pub(super) fn exact(
    mixed: Mixed,
    op: Comparison,
    limit: &Expr,
    filter: &JoinFilter,
) -> Result<Option<Rewritten>> {
    let limit = &shortest(limit);
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
    let (moved_side, moved, unmoved) = mixed.moved();
    let (moved, unmoved, limit) = (widen(moved), widen(unmoved), widen(limit));
    // Both sides of one type: ranked keys need it.
    let common = DataType::Decimal128(38, scale.max(limit_scale));
    let alike = |e: Expr| -> Expr { Arc::new(CastExpr::new(e, common.clone(), None)) };
    let unmoved = alike(unmoved);
    let mut comparisons = vec![];
    let mut add = |op: Comparison, negative: bool| {
        let (bound, op) = mixed.bound(&moved, op, (&limit, negative));
        comparisons.push(oriented(moved_side, alike(bound), op, &unmoved));
    };
    add(op, false);
    if mixed.absolute {
        add(op.swap(), true);
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

impl Mixed {
    /// The operand that the limit is moved to, with its side, and the one that is compared as it is.
    fn moved(&self) -> (Side, &Expr, &Expr) {
        let (first, second) = (&self.first, &self.second);
        match self.unmoved == first.0 {
            true => (second.0, &second.1, &first.1),
            false => (first.0, &first.1, &second.1),
        }
    }

    /// The sum or difference OP `limit`, or OP `-limit` if that is `negative`, as a comparison `bound OP unmoved`.
    fn bound(
        &self,
        moved: &Expr,
        op: Comparison,
        (limit, negative): (&Expr, bool),
    ) -> (Expr, Comparison) {
        let binary = |a: &Expr, op: Operator, b: &Expr| -> Expr {
            Arc::new(BinaryExpr::new(Arc::clone(a), op, Arc::clone(b)))
        };
        let (plus, minus) = match negative {
            true => (Operator::Minus, Operator::Plus),
            false => (Operator::Plus, Operator::Minus),
        };
        match (self.subtract, self.unmoved == self.first.0) {
            // unmoved - moved OP limit: moved + limit (OP swapped) unmoved
            (true, true) => (binary(moved, plus, limit), op.swap()),
            // moved - unmoved OP limit: moved - limit OP unmoved
            (true, false) => (binary(moved, minus, limit), op),
            // moved + unmoved OP limit: limit - moved (OP swapped) unmoved
            (false, _) => {
                let limit: Expr = match negative {
                    true => Arc::new(NegativeExpr::new(Arc::clone(limit))),
                    false => Arc::clone(limit),
                };
                (binary(&limit, Operator::Minus, moved), op.swap())
            }
        }
    }
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
    let is_double = mixed.data_type == DataType::Float64;
    let double = |e: &Expr| -> Expr {
        match is_double {
            true => Arc::clone(e),
            false => Arc::new(CastExpr::new(Arc::clone(e), DataType::Float64, None)),
        }
    };
    let binary = |a: Expr, op: Operator, b: Expr| -> Expr { Arc::new(BinaryExpr::new(a, op, b)) };
    let (moved_side, moved, unmoved) = mixed.moved();
    let (moved, unmoved) = (double(moved), double(unmoved));
    let magnitude: Expr = Arc::new(CaseExpr::try_new(
        None,
        vec![(
            binary(Arc::clone(&moved), Operator::Lt, lit(0f64)),
            Arc::new(NegativeExpr::new(Arc::clone(&moved))) as Expr,
        )],
        Some(Arc::clone(&moved)),
    )?);
    let slack = binary(
        binary(magnitude, Operator::Plus, lit(limit.abs())),
        Operator::Multiply,
        lit(epsilon),
    );
    let mut comparisons = vec![];
    let mut add = |op: Comparison, negative: bool| {
        let (bound, op) = mixed.bound(&moved, op, (&lit(limit), negative));
        // Away from the values that match.
        let (away, op) = match op {
            Comparison::Lt | Comparison::LtEq => (Operator::Minus, Comparison::LtEq),
            _ => (Operator::Plus, Comparison::GtEq),
        };
        let bound = binary(bound, away, Arc::clone(&slack));
        comparisons.push(oriented(moved_side, bound, op, &unmoved));
    };
    match op {
        Comparison::Eq => {
            add(Comparison::LtEq, false);
            add(Comparison::GtEq, false);
        }
        _ => add(op, false),
    }
    if mixed.absolute {
        add(op.swap(), true);
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
