//! Casts of numbers that keep every value: to wider integers, to decimals with more digits.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Literal, lit};
use datafusion::physical_plan::joins::utils::JoinFilter;

type Expr = Arc<dyn PhysicalExpr>;

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

/// The operand of a cast to decimals with more digits, as of a difference that is compared with `2.5`.
pub(super) fn without_rescaling(filter: &JoinFilter, expr: &Expr) -> Result<Expr> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(filter.schema())?;
        if has_more_digits(&from, cast.cast_type()) {
            return without_rescaling(filter, cast.expr());
        }
    }
    Ok(Arc::clone(expr))
}

/// Whether a cast of decimals keeps each value.
pub(crate) fn has_more_digits(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Decimal128(precision, scale), DataType::Decimal128(wide, fine)) => {
            let whole = |precision: &u8, scale: &i8| i16::from(*precision) - i16::from(*scale);
            fine >= scale && whole(wide, fine) >= whole(precision, scale)
        }
        _ => false,
    }
}

/// A literal without trailing zeros behind its point: keys of fewer digits do.
pub(super) fn shortest(limit: &Expr) -> Expr {
    let value = limit.downcast_ref::<Literal>().map(Literal::value);
    let Some(ScalarValue::Decimal128(Some(value), precision, scale)) = value else {
        return Arc::clone(limit);
    };
    let (mut value, mut scale) = (*value, *scale);
    while scale > 0 && value % 10 == 0 {
        (value, scale) = (value / 10, scale - 1);
    }
    lit(ScalarValue::Decimal128(Some(value), *precision, scale))
}

pub(crate) fn integer_range(data_type: &DataType) -> Option<(i128, i128)> {
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
