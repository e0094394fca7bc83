//! Constants as registers of programs hold them.

use datafusion::common::ScalarValue;

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
