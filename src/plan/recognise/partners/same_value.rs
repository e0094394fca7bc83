//! Whether two expressions of a side are one value, in types of which either may be the wider one.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;

use crate::plan::compile::sides::is_same;
use crate::plan::recognise::rewrites::exact_casts::{has_more_digits, integer_range};
use crate::spec::join::SideInput;

type Expr = Arc<dyn PhysicalExpr>;

/// Whether two expressions have the same order, and differences in the same proportion: one is the other, but for casts to wider numbers, or from times to integers.
pub(super) fn is_same_value(a: &Expr, b: &Expr, input: &SideInput) -> Result<bool> {
    Ok(is_same(&narrowest(a, input)?, &narrowest(b, input)?))
}

/// An expression without casts to wider numbers, and from times to integers.
fn narrowest(expr: &Expr, input: &SideInput) -> Result<Expr> {
    let mut expr = expr;
    while let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(input.plan())?;
        let from = integer_of_time(&from).unwrap_or(from);
        match is_widened(&from, cast.cast_type()) {
            true => expr = cast.expr(),
            false => break,
        }
    }
    Ok(Arc::clone(expr))
}

/// Whether a cast of numbers keeps each value, and so all differences.
pub(super) fn is_widened(from: &DataType, to: &DataType) -> bool {
    match (signed_range(from), signed_range(to), to) {
        (Some((low, high)), Some((least, greatest)), _) => least <= low && high <= greatest,
        // An integer has 19 digits at most.
        (Some(_), None, DataType::Decimal128(precision, scale)) => {
            *scale >= 0 && i16::from(*precision) - i16::from(*scale) >= 19
        }
        _ => has_more_digits(from, to),
    }
}

/// The integers as which the values of a time are stored, and to which they are cast.
pub(super) fn integer_of_time(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Date32 => DataType::Int32,
        DataType::Timestamp(..) => DataType::Int64,
        _ => return None,
    })
}

/// The least and the greatest value of a signed integer type.
pub(super) fn signed_range(data_type: &DataType) -> Option<(i128, i128)> {
    integer_range(data_type).filter(|_| data_type.is_signed_integer())
}
