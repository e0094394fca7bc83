//! Rewriting conditions on the length of an overlap: `least(a.stop, b.stop) - greatest(a.start, b.start) >= c`, and
//! `least(a.stop, b.stop) > greatest(a.start, b.start)`.
//!
//! The least difference of an end and a beginning decides, so the condition is that all four differences satisfy it. Two of them are of one
//! interval each, which has no key if it is too short; the other two are differences of the sides, as in a band join ([`band`](super::band)).
//! `least` and `greatest` pass over NULLs: an interval without an end goes on for ever, but two of them have no common end, which two more
//! comparisons say.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::core::greatest::GreatestFunc;
use datafusion::functions::core::least::LeastFunc;
use datafusion::logical_expr::{Operator, ScalarUDFImpl};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, IsNullExpr, Literal, lit,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::ir::comparison::Comparison;
use crate::ir::side::Side;
use crate::plan::compile::comparison::comparison_of;
use crate::plan::compile::sides::{on_side, side_of, sides_named};
use crate::plan::recognise::rewrites::band::{
    GuardExpr, Mixed, Rewritten, exact, floats, no_overflow,
};
use crate::plan::recognise::rewrites::exact_casts::{integer_range, without_widening};

type Expr = Arc<dyn PhysicalExpr>;

/// An expression of each side, over its columns.
struct Both {
    left: Expr,
    right: Expr,
    /// Whether both of them may be NULL.
    may_be_null: bool,
}

/// The ends and the beginnings of both sides' intervals, and the least difference that matches.
struct OverlapLength {
    stops: Both,
    starts: Both,
    op: Comparison,
    least: Expr,
    /// Whether the query subtracts, so that a difference may wrap.
    subtracts: bool,
    /// What the query adds to the difference.
    added: i64,
    /// Whether an end of either side may be NULL.
    may_be_open: bool,
    data_type: DataType,
}

/// `None` when the conjunct has no such form.
pub(crate) fn rewrite(filter: &JoinFilter, conjunct: &Expr) -> Result<Option<Rewritten>> {
    let Some(condition) = overlap_length(filter, conjunct)? else {
        return Ok(None);
    };
    let raw = |side: Side| match side {
        Side::Left => (&condition.starts.left, &condition.stops.left),
        Side::Right => (&condition.starts.right, &condition.stops.right),
    };
    let endless = |side: Side| -> Result<(Expr, Expr)> {
        let (start, stop) = raw(side);
        let start = condition.or_endless(start, false)?;
        Ok((start, condition.or_endless(stop, true)?))
    };
    let (of_left, of_right) = (endless(Side::Left)?, endless(Side::Right)?);
    let ends = |side: Side| match side {
        Side::Left => &of_left,
        Side::Right => &of_right,
    };
    let is_float = condition.data_type.is_floating();
    let mut comparisons = vec![];
    let mut guards = vec![];
    for side in [Side::Left, Side::Right] {
        let mixed = Mixed {
            first: (side, Arc::clone(&ends(side).1)),
            second: (side.other(), Arc::clone(&ends(side.other()).0)),
            subtract: true,
            absolute: false,
            unmoved: side.other(),
            data_type: condition.data_type.clone(),
        };
        let rewritten = match is_float {
            true => floats(mixed, condition.op, &condition.least)?,
            false => exact(mixed, condition.op, &condition.least, filter)?,
        };
        let Some(rewritten) = rewritten else {
            return Ok(None);
        };
        for (left, op, right) in rewritten.comparisons {
            comparisons.push(match is_float {
                true => (left, op, right),
                // An interval that is too short has neither a beginning nor an end.
                false => (
                    condition.if_long_enough(&of_left, left)?,
                    op,
                    condition.if_long_enough(&of_right, right)?,
                ),
            });
        }
        let (start, stop) = raw(side);
        let (other_start, _) = raw(side.other());
        if is_float {
            guards.extend([start, stop].map(|end| GuardExpr::Finite(side, Arc::clone(end))));
        }
        // Without a difference in the query nothing wraps.
        let range = condition.range().filter(|_| condition.subtracts);
        for (of, begins) in [(side, start), (side.other(), other_start)] {
            let ends = [(side, Arc::clone(stop)), (of, Arc::clone(begins))];
            guards.extend(range.map(|range| no_overflow(ends, true, range)));
        }
    }
    for both in [&condition.stops, &condition.starts] {
        comparisons.extend(both.not_both_null()?);
    }
    Ok(Some(Rewritten {
        comparisons,
        guards,
        // Bounds of floats are a little too wide.
        exact: !is_float,
        display: Some(sides_named(filter, conjunct)?),
    }))
}

impl Both {
    /// A comparison that fails where both are NULL, as `least` and `greatest` are then; `None` if one of them never is.
    fn not_both_null(&self) -> Result<Option<(Expr, Comparison, Expr)>> {
        if !self.may_be_null {
            return Ok(None);
        }
        let number = |of: &Expr, without: i32| -> Result<Expr> {
            let is_null: Expr = Arc::new(IsNullExpr::new(Arc::clone(of)));
            let case = CaseExpr::try_new(None, vec![(is_null, lit(1))], Some(lit(without)))?;
            Ok(Arc::new(case))
        };
        let (left, right) = (number(&self.left, 0)?, number(&self.right, 2)?);
        Ok(Some((left, Comparison::Lt, right)))
    }
}

impl OverlapLength {
    /// An end, or the last (`is_stop`) or first value of its type where it is NULL, which `least` and `greatest` pass over.
    fn or_endless(&self, end: &Expr, is_stop: bool) -> Result<Expr> {
        if !self.may_be_open {
            return Ok(Arc::clone(end));
        }
        let most = match (&self.data_type, integer_range(&self.data_type)) {
            (DataType::Decimal128(precision, scale), _) => {
                let most = 10i128.pow(u32::from(*precision)) - 1;
                let value = if is_stop { most } else { -most };
                ScalarValue::Decimal128(Some(value), *precision, *scale)
            }
            (data_type, Some((low, high))) => {
                let value = if is_stop { high } else { low };
                ScalarValue::Decimal128(Some(value), 38, 0).cast_to(data_type)?
            }
            (data_type, None) => {
                let value = if is_stop {
                    f64::INFINITY
                } else {
                    f64::NEG_INFINITY
                };
                ScalarValue::Float64(Some(value)).cast_to(data_type)?
            }
        };
        let is_open: Expr = Arc::new(IsNullExpr::new(Arc::clone(end)));
        let most: Expr = Arc::new(Literal::new(most));
        let case = CaseExpr::try_new(None, vec![(is_open, most)], Some(Arc::clone(end)))?;
        Ok(Arc::new(case))
    }

    /// The differences of integers that do not wrap in the query.
    fn range(&self) -> Option<(i128, i128)> {
        let (low, high) = integer_range(&self.data_type)?;
        let added = i128::from(self.added);
        Some((low - added.min(0), high - added.max(0)))
    }

    /// A key of intervals that are long enough themselves; NULL, which matches nothing, of others.
    fn if_long_enough(&self, (start, stop): &(Expr, Expr), key: Expr) -> Result<Expr> {
        // In 128 bits nothing wraps.
        let wide = |e: &Expr| -> Expr {
            let exact = match &self.data_type {
                DataType::Decimal128(_, scale) => DataType::Decimal128(37, *scale),
                _ => DataType::Decimal128(20, 0),
            };
            Arc::new(CastExpr::new(Arc::clone(e), exact, None))
        };
        let op = match self.op {
            Comparison::Gt => Operator::Gt,
            _ => Operator::GtEq,
        };
        let scale = match &self.data_type {
            DataType::Decimal128(_, scale) => *scale,
            _ => 0,
        };
        let common = DataType::Decimal128(38, scale);
        let alike = |e: Expr| -> Expr { Arc::new(CastExpr::new(e, common.clone(), None)) };
        let difference = BinaryExpr::new(wide(stop), Operator::Minus, wide(start));
        let is_long = BinaryExpr::new(
            alike(Arc::new(difference)),
            op,
            alike(Arc::clone(&self.least)),
        );
        let case = CaseExpr::try_new(None, vec![(Arc::new(is_long), key)], None)?;
        Ok(Arc::new(case))
    }
}

fn overlap_length(filter: &JoinFilter, conjunct: &Expr) -> Result<Option<OverlapLength>> {
    let Some(binary) = conjunct.downcast_ref::<BinaryExpr>() else {
        return Ok(None);
    };
    let Some(op) = comparison_of(*binary.op()) else {
        return Ok(None);
    };
    for (greater, op, less) in [
        (binary.left(), op, binary.right()),
        (binary.right(), op.swap(), binary.left()),
    ] {
        if !matches!(op, Comparison::Gt | Comparison::GtEq) {
            continue;
        }
        let (greater, less) = (
            without_widening(filter, greater)?,
            without_widening(filter, less)?,
        );
        let (greater, added) = match less.downcast_ref::<Literal>() {
            Some(_) => without_addend(filter, &greater)?,
            None => (greater, 0),
        };
        let (stops, starts, least, subtracts) = match greater.downcast_ref::<BinaryExpr>() {
            Some(difference) if *difference.op() == Operator::Minus && less.is::<Literal>() => {
                let Some(least) = less_by(&less, added) else {
                    continue;
                };
                let sides = (difference.left(), difference.right());
                (Arc::clone(sides.0), Arc::clone(sides.1), least, true)
            }
            Some(_) => continue,
            None => {
                let zero = ScalarValue::new_zero(&greater.data_type(filter.schema())?);
                let Ok(zero) = zero else {
                    continue;
                };
                (greater, less, Arc::new(Literal::new(zero)) as Expr, false)
            }
        };
        let (least_call, greatest_call) = (stops, starts);
        let both = (
            of_both::<LeastFunc>(filter, &least_call)?,
            of_both::<GreatestFunc>(filter, &greatest_call)?,
        );
        let (Some((stops, of_stops)), Some((starts, of_starts))) = both else {
            continue;
        };
        let mut of_nullable = false;
        for call in [&least_call, &greatest_call] {
            for argument in call.children() {
                of_nullable |= argument.nullable(filter.schema())?;
            }
        }
        let is_plain = |t: &DataType| {
            let decimal = matches!(t, DataType::Decimal128(p, _) if *p <= 37);
            let float = matches!(t, DataType::Float32 | DataType::Float64);
            t.is_integer() || decimal || float
        };
        if of_stops != of_starts || !is_plain(&of_stops) {
            continue;
        }
        // A difference of unsigned values wraps where intervals are disjoint.
        if subtracts && of_stops.is_unsigned_integer() {
            continue;
        }
        return Ok(Some(OverlapLength {
            may_be_open: of_nullable,
            stops,
            starts,
            op,
            least,
            subtracts,
            added,
            data_type: of_stops,
        }));
    }
    Ok(None)
}

/// A sum without the whole number that is added to it or subtracted from it, such as the 1 of closed intervals; and this number.
fn without_addend(filter: &JoinFilter, expr: &Expr) -> Result<(Expr, i64)> {
    let none = (Arc::clone(expr), 0);
    let Some(sum) = expr.downcast_ref::<BinaryExpr>() else {
        return Ok(none);
    };
    let by = |literal: &Expr| {
        let literal = literal.downcast_ref::<Literal>()?.value();
        let is_whole = literal.data_type().is_integer();
        match literal.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(by))) if is_whole && by.unsigned_abs() < 1 << 31 => Some(by),
            _ => None,
        }
    };
    let is_whole = expr.data_type(filter.schema())?.is_integer();
    let found = match sum.op() {
        _ if !is_whole => None,
        Operator::Plus => by(sum.right())
            .map(|by| (sum.left(), by))
            .or_else(|| by(sum.left()).map(|by| (sum.right(), by))),
        Operator::Minus => by(sum.right()).map(|by| (sum.left(), -by)),
        _ => None,
    };
    Ok(match found {
        Some((inner, by)) => (without_widening(filter, inner)?, by),
        None => none,
    })
}

/// A literal less a whole number; `None` if it is no integer of 64 bits, unless there is nothing to subtract.
fn less_by(literal: &Expr, by: i64) -> Option<Expr> {
    if by == 0 {
        return Some(Arc::clone(literal));
    }
    let value = literal.downcast_ref::<Literal>()?.value();
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(Some(value))) if value.unsigned_abs() < 1 << 62 => {
            let least = ScalarValue::Int64(Some(value - by));
            Some(Arc::new(Literal::new(least)))
        }
        _ => None,
    }
}

/// The arguments of a call of `F`, one of each side, and their type.
fn of_both<F: ScalarUDFImpl + 'static>(
    filter: &JoinFilter,
    expr: &Expr,
) -> Result<Option<(Both, DataType)>> {
    let call = ScalarFunctionExpr::try_downcast_func::<F>(expr.as_ref());
    let Some([first, second]) = call.map(ScalarFunctionExpr::args) else {
        return Ok(None);
    };
    let (left, right) = match (side_of(filter, first), side_of(filter, second)) {
        (Some(Side::Left), Some(Side::Right)) => (first, second),
        (Some(Side::Right), Some(Side::Left)) => (second, first),
        _ => return Ok(None),
    };
    let data_type = expr.data_type(filter.schema())?;
    for side in [left, right] {
        if side.data_type(filter.schema())? != data_type {
            return Ok(None);
        }
    }
    let nullable = |e: &Expr| e.nullable(filter.schema());
    let both = Both {
        may_be_null: nullable(left)? && nullable(right)?,
        left: on_side(filter, left)?,
        right: on_side(filter, right)?,
    };
    Ok(Some((both, data_type)))
}
