//! Which expressions have a value on every row, so that it does not matter on which rows they are evaluated.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::ir::program::Kind;
use crate::plan::compile::compiler::Expr;
use crate::plan::compile::float_bits::FloatBits;
use crate::plan::compile::text;
use crate::plan::compile::text::keeps_text;

/// Whether `expr` has a value on every row: no division of integers but by a constant that is neither 0 nor -1, no narrowing cast, no function but text
/// predicates and substrings.
pub(crate) fn cannot_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    if text::operand(expr, schema).is_some() || text::test(expr, schema).is_some() {
        return true;
    }
    let is_number = |expr: &Arc<dyn PhysicalExpr>| {
        expr.data_type(schema)
            .is_ok_and(|t| t.is_integer() || t.is_floating())
    };
    let safe = if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        match binary.op() {
            Operator::And
            | Operator::Or
            | Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom => true,
            // On integers these wrap, on floats they round; on decimals and times they may fail.
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                is_number(binary.left()) && is_number(binary.right())
            }
            Operator::Divide | Operator::Modulo => {
                let is_float = |of: &Expr| of.data_type(schema).is_ok_and(|t| t.is_floating());
                is_number(binary.left())
                    && is_number(binary.right())
                    && (is_float(binary.left()) || divides_always(binary.right()))
            }
            _ => false,
        }
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        cast.expr()
            .data_type(schema)
            .is_ok_and(|from| is_widening(&from, cast.cast_type()))
    } else if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        text::has_short_pattern(like)
    } else {
        expr.is::<Column>()
            || expr.is::<Literal>()
            || expr.is::<ScalarSubqueryExpr>()
            || expr.is::<FloatBits>()
            || expr.is::<CaseExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>()
            || expr.is::<NotExpr>()
    };
    safe && expr
        .children()
        .into_iter()
        .all(|child| cannot_fail(child, schema))
}

/// Whether every value of type `from` has one of type `to`.
pub(crate) fn is_widening(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let whole = |digits: u8, scale: i8| i16::from(digits) - i16::from(scale);
    match to {
        Float64 => from.is_integer() || from.is_floating() || from.is_decimal(),
        Int64 => from.is_signed_integer() || matches!(from, UInt8 | UInt16 | UInt32),
        UInt64 => from.is_unsigned_integer(),
        Decimal128(digits, scale) => {
            let (of_from, behind) = match from {
                Int8 | UInt8 => (3, 0),
                Int16 | UInt16 => (5, 0),
                Int32 | UInt32 => (10, 0),
                Int64 => (19, 0),
                UInt64 => (20, 0),
                Decimal32(digits, scale) | Decimal64(digits, scale) | Decimal128(digits, scale) => {
                    (whole(*digits, *scale), *scale)
                }
                _ => return false,
            };
            behind <= *scale && of_from <= whole(*digits, *scale)
        }
        Decimal64(digits, scale) | Decimal256(digits, scale) => match from {
            Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => {
                s == scale && p <= digits
            }
            _ => false,
        },
        _ => from == to,
    }
}

/// Whether every integer can be divided by a constant: neither 0 nor -1.
pub(crate) fn divides_always(divisor: &Expr) -> bool {
    let Some(literal) = divisor.downcast_ref::<Literal>() else {
        return false;
    };
    let is = |other: Result<ScalarValue>| other.is_ok_and(|other| *literal.value() == other);
    let data_type = literal.value().data_type();
    let unsigned = data_type.is_unsigned_integer();
    !literal.value().is_null()
        && !is(ScalarValue::new_zero(&data_type))
        && (unsigned || !is(ScalarValue::new_negative_one(&data_type)))
}

/// Whether DataFusion may return one value for all rows of a batch: a CASE with one branch for all, AND and OR decided by one operand.
pub(crate) fn may_be_scalar(expr: &Expr) -> bool {
    let logic = |binary: &BinaryExpr| matches!(binary.op(), Operator::And | Operator::Or);
    expr.is::<CaseExpr>()
        || expr.downcast_ref::<BinaryExpr>().is_some_and(logic)
        || expr.children().into_iter().any(may_be_scalar)
}

/// Whether an expression of one side is of a kind that fails on some values: a division, a cast that narrows or parses,
/// arithmetic on decimals and times.
pub(crate) fn might_fail(expr: &Expr, schema: &Schema) -> bool {
    let is_plain = |expr: &Expr| {
        let data_type = expr.data_type(schema);
        data_type.is_ok_and(|t| t.is_integer() || t.is_floating())
    };
    let is_float = |expr: &Expr| expr.data_type(schema).is_ok_and(|t| t.is_floating());
    let fails = if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        match binary.op() {
            Operator::Divide | Operator::Modulo if is_plain(binary.left()) => {
                !is_float(binary.left()) && !divides_always(binary.right())
            }
            Operator::Divide | Operator::Modulo => true,
            Operator::Plus | Operator::Minus | Operator::Multiply => !is_plain(binary.left()),
            _ => false,
        }
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema).ok();
        let keeps_text = |from| keeps_text(from, cast.cast_type());
        let widens = |from| is_widening(from, cast.cast_type());
        match (
            from.as_ref().and_then(Kind::of_word),
            Kind::of_word(cast.cast_type()),
        ) {
            (Some(from), Some(to)) => !to.is_float() && !to.holds_all_of(from),
            // Decimals are no words, and casts to fewer digits may fail.
            _ => !from
                .as_ref()
                .is_some_and(|from| keeps_text(from) || widens(from)),
        }
    } else {
        false
    };
    fails
        || expr
            .children()
            .iter()
            .any(|child| might_fail(child, schema))
}

/// The same for any expression: a function may fail.
pub(crate) fn fails_somewhere(expr: &Expr, schema: &Schema) -> bool {
    let calls = |expr: &Expr| expr.is::<ScalarFunctionExpr>();
    might_fail(expr, schema)
        || calls(expr)
        || expr
            .children()
            .iter()
            .any(|child| fails_somewhere(child, schema))
}
