//! Which expressions have a value on every row, so that it does not matter on which rows they are evaluated.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};

use crate::plan::compile::float_bits::FloatBits;
use crate::plan::compile::text;

/// Whether `expr` has a value on every row: no division, no narrowing cast, no function but tests of text and characters of it.
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
            _ => false,
        }
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        cast.expr()
            .data_type(schema)
            .is_ok_and(|from| is_widening(&from, cast.cast_type()))
    } else {
        expr.is::<Column>()
            || expr.is::<Literal>()
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
