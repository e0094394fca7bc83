//! A domain for each type that can be a key: so few values that there are ties, with the extremes among them.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use half::f16;

/// Every orderable type.
pub(crate) fn orderable_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Decimal32(7, 2),
        Decimal64(15, 2),
        Decimal128(20, 3),
        // Its domain spans more than 64 bits.
        Decimal128(38, 0),
        Decimal256(60, 2),
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(3),
    ];
    for unit in [
        TimeUnit::Second,
        TimeUnit::Millisecond,
        TimeUnit::Microsecond,
        TimeUnit::Nanosecond,
    ] {
        types.push(Timestamp(unit, None));
        types.push(Timestamp(unit, Some("+02:00".into())));
        types.push(Duration(unit));
    }
    types.push(Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    for (key, values) in [
        (Int8, Int64),
        (UInt16, Utf8),
        (Int32, Float64),
        (Int32, Decimal128(20, 3)),
        (Int64, Utf8View),
    ] {
        types.push(Dictionary(Box::new(key), Box::new(values)));
    }
    types
}

/// Bowtie leaves equality on these to DataFusion, which has two zeros in a dictionary.
pub(crate) fn is_dictionary_of_floats(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(_, values) if values.is_floating())
}

/// The distinct values of a type that tests draw from. A dictionary's holds a NULL value and a value twice.
pub(crate) fn domain(data_type: &DataType) -> ArrayRef {
    use DataType::*;
    macro_rules! values {
        ($t:ty, $values:expr) => {
            Arc::new(
                PrimitiveArray::<$t>::from_iter_values($values).with_data_type(data_type.clone()),
            ) as ArrayRef
        };
    }
    macro_rules! integers {
        ($t:ty, $n:ty) => {
            values!($t, [<$n>::MIN, 1, 2, 3, 4, 5, 6, <$n>::MAX])
        };
    }
    let text = [
        "",
        "a",
        "ab",
        "b",
        "a\u{0}",
        "é",
        "a string past the inlined twelve",
        "z",
    ];
    let bytes: [&[u8]; 6] = [
        b"",
        b"\0",
        b"\0\0",
        b"a",
        b"\xff",
        b"past the inlined twelve",
    ];
    let moments = [-86_400, -1, 0, 1, 2, 3, 86_400, 1_700_000_000];
    match data_type {
        Boolean => Arc::new(BooleanArray::from(vec![false, true])),
        Int8 => integers!(Int8Type, i8),
        Int16 => integers!(Int16Type, i16),
        Int32 => integers!(Int32Type, i32),
        Int64 => integers!(Int64Type, i64),
        UInt8 => integers!(UInt8Type, u8),
        UInt16 => integers!(UInt16Type, u16),
        UInt32 => integers!(UInt32Type, u32),
        UInt64 => integers!(UInt64Type, u64),
        Float16 => values!(Float16Type, special_floats().map(f16::from_f64)),
        Float32 => values!(Float32Type, special_floats().map(|v| v as f32)),
        Float64 => values!(Float64Type, special_floats()),
        Decimal32(..) => values!(Decimal32Type, [-9_999_999, -1, 0, 1, 2, 150, 9_999_999]),
        Decimal64(..) => values!(Decimal64Type, [-999_999_999_999_999, -1, 0, 1, 2, 150]),
        Decimal128(38, _) => {
            let most = 10i128.pow(38) - 1;
            values!(Decimal128Type, [-most, -1, 0, 1, 2, 1 << 70, most])
        }
        Decimal128(..) => values!(Decimal128Type, [-1_000_000, -1, 0, 1, 2, 3, 1 << 60]),
        Decimal256(..) => {
            let huge =
                i256::from_i128(10i128.pow(37)).wrapping_mul(i256::from_i128(10i128.pow(20)));
            let few = [-1, 0, 1, 2, 150].map(i256::from_i128);
            values!(
                Decimal256Type,
                few.into_iter().chain([huge, huge.wrapping_neg()])
            )
        }
        Date32 => values!(Date32Type, [-1, 0, 1, 2, 3, 20_000]),
        Date64 => values!(
            Date64Type,
            [-1, 0, 1, 2, 3, 20_000].map(|v| v * 86_400_000i64)
        ),
        Time32(TimeUnit::Second) => values!(Time32SecondType, [0, 1, 2, 3, 86_399]),
        Time32(_) => values!(Time32MillisecondType, [0, 1, 2, 3, 86_399_999]),
        Time64(TimeUnit::Microsecond) => values!(Time64MicrosecondType, [0, 1, 2, 86_399_999_999]),
        Time64(_) => values!(Time64NanosecondType, [0, 1, 2, 3, 86_399_999_999_999]),
        Timestamp(TimeUnit::Second, _) => values!(TimestampSecondType, moments),
        Timestamp(TimeUnit::Millisecond, _) => values!(TimestampMillisecondType, moments),
        Timestamp(TimeUnit::Microsecond, _) => values!(TimestampMicrosecondType, moments),
        Timestamp(TimeUnit::Nanosecond, _) => values!(TimestampNanosecondType, moments),
        Duration(TimeUnit::Second) => values!(DurationSecondType, moments),
        Duration(TimeUnit::Millisecond) => values!(DurationMillisecondType, moments),
        Duration(TimeUnit::Microsecond) => values!(DurationMicrosecondType, moments),
        Duration(TimeUnit::Nanosecond) => values!(DurationNanosecondType, moments),
        Interval(IntervalUnit::YearMonth) => values!(IntervalYearMonthType, [-13, -1, 0, 1, 12]),
        Interval(IntervalUnit::DayTime) => values!(
            IntervalDayTimeType,
            [(-1, 5), (0, -5), (0, 0), (0, 86_400_000), (1, 0), (1, -1)]
                .map(|(days, ms)| IntervalDayTime::new(days, ms))
        ),
        Interval(IntervalUnit::MonthDayNano) => values!(
            IntervalMonthDayNanoType,
            [
                (-1, 5, 0),
                (0, -5, 1),
                (0, 0, 0),
                (0, 30, 0),
                (1, 0, -1),
                (1, 0, 0)
            ]
            .map(|(months, days, nanos)| IntervalMonthDayNano::new(months, days, nanos))
        ),
        Utf8 => Arc::new(StringArray::from_iter_values(text)),
        LargeUtf8 => Arc::new(LargeStringArray::from_iter_values(text)),
        Utf8View => Arc::new(StringViewArray::from_iter_values(text)),
        Binary => Arc::new(BinaryArray::from_iter_values(bytes)),
        LargeBinary => Arc::new(LargeBinaryArray::from_iter_values(bytes)),
        BinaryView => Arc::new(BinaryViewArray::from_iter_values(bytes)),
        FixedSizeBinary(3) => Arc::new(
            FixedSizeBinaryArray::try_from_iter(
                [b"\0\0\0", b"\0\0\x01", b"abc", b"abd", b"\xff\0\0"].into_iter(),
            )
            .unwrap(),
        ),
        Dictionary(key, values) => dictionary(key, values),
        other => panic!("no domain for {other}"),
    }
}

/// NaN of both signs, zero of both signs, infinities, and a few that tie.
fn special_floats() -> impl Iterator<Item = f64> + Clone {
    [
        f64::NAN,
        -f64::NAN,
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1.5,
        2.0,
        -1.5,
    ]
    .into_iter()
}

fn dictionary(key: &DataType, values: &DataType) -> ArrayRef {
    let plain = domain(values);
    let null = new_null_array(values, 1);
    let values = arrow::compute::concat(&[&plain, &null, &plain.slice(1, 1)]).unwrap();
    let keys =
        arrow::compute::cast(&Int64Array::from_iter_values(0..values.len() as i64), key).unwrap();
    macro_rules! of {
        ($t:ty) => {
            Arc::new(DictionaryArray::<$t>::new(
                keys.as_primitive::<$t>().clone(),
                values,
            ))
        };
    }
    match key {
        DataType::Int8 => of!(Int8Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        other => panic!("no dictionary with keys of {other}"),
    }
}
