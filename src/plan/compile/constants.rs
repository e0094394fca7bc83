//! Constants of a program: expressions without columns, and values as words.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

/// The value of an expression without columns; `None` when it fails.
pub(crate) fn constant(expr: &Arc<dyn PhysicalExpr>, data_type: &DataType) -> Option<ScalarValue> {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Some(literal.value().clone());
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options);
    let value = match expr.evaluate(&row.ok()?).ok()? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok()?,
    };
    (value.data_type() == *data_type).then_some(value)
}

/// A constant as registers hold it; `None` inside for NULL, outside for a type that they do not hold.
pub(crate) fn word_of(value: &ScalarValue) -> Option<Option<i128>> {
    use ScalarValue::*;
    let signed = |v: &Option<i64>| v.map(|v| v as u64);
    let word = match value {
        Null => None,
        Boolean(v) => v.map(u64::from),
        Int8(v) => signed(&v.map(i64::from)),
        Int16(v) => signed(&v.map(i64::from)),
        Int32(v) | Date32(v) | Time32Second(v) | Time32Millisecond(v) => signed(&v.map(i64::from)),
        Int64(v)
        | Date64(v)
        | Time64Microsecond(v)
        | Time64Nanosecond(v)
        | TimestampSecond(v, _)
        | TimestampMillisecond(v, _)
        | TimestampMicrosecond(v, _)
        | TimestampNanosecond(v, _)
        | DurationSecond(v)
        | DurationMillisecond(v)
        | DurationMicrosecond(v)
        | DurationNanosecond(v) => signed(v),
        UInt8(v) => v.map(u64::from),
        UInt16(v) => v.map(u64::from),
        UInt32(v) => v.map(u64::from),
        UInt64(v) => *v,
        Float32(v) => v.map(|v| u64::from(v.to_bits())),
        Float64(v) => v.map(f64::to_bits),
        Decimal128(v, ..) => return Some(*v),
        _ => return None,
    };
    Some(word.map(i128::from))
}
