//! Parts of dates and times beside DataFusion's, over every day of some centuries and at the ends of types.

use arrow::array::{
    Date64Array, Time32MillisecondArray, Time64NanosecondArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use datafusion::functions::datetime;

use crate::plan::compile::row_program::tests::generator::function;
use crate::plan::compile::row_program::tests::*;

/// Those that are integers of 32 bits, some by other names of theirs.
pub(crate) const PARTS: &[&str] = &[
    "YEAR",
    "month",
    "days",
    "qtr",
    "week",
    "isoyear",
    "doy",
    "dow",
    "isodow",
    "hour",
    "min",
    "second",
    "msec",
    "microseconds",
];

/// What the program makes of `expression` is what DataFusion does.
fn check(device: &HostDevice, expression: &Expr, batch: &RecordBatch) {
    let made = made(device, std::slice::from_ref(expression), batch);
    let made = made.unwrap_or_else(|| panic!("{expression} does not compile"));
    let made = made.unwrap_or_else(|| panic!("{expression} is left to the host"));
    let expected = expression.evaluate(batch).unwrap();
    let expected = expected.into_array(batch.num_rows()).unwrap();
    assert_eq!(&made[0], &expected, "{expression}");
}

/// Every day of 800 years, and the far ones at which the host takes over; times of all units on days of 580 years, with and without
/// UTC's zone; times of the day.
#[test]
fn parts() {
    let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    let some = |i: i64, value: i64| (i % 17 != 0).then_some(value);
    let days = (-146_097..146_097).chain([-89_999_990, 89_999_990]);
    let days =
        Date32Array::from_iter(days.map(|day| some(day.into(), day.into()).map(|d| d as i32)));
    // So many a day, at all times of it.
    let times = |in_a_day: i64| {
        let of_day = move |day: i64| day * in_a_day + (day * 7_919_191_919).rem_euclid(in_a_day);
        let least = i64::MIN / in_a_day + 1;
        (-106_000..106_000).map(move |day: i64| some(day, of_day(day.max(least))))
    };
    let of_day =
        |in_a_day: i64| (0..9_999).map(move |i: i64| some(i, i * 7_919_191_919 % in_a_day));
    const DAY: i64 = 86_400;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(days),
        Arc::new(TimestampSecondArray::from_iter(times(DAY))),
        Arc::new(TimestampMillisecondArray::from_iter(times(DAY * 1_000)).with_timezone("UTC")),
        Arc::new(
            TimestampMicrosecondArray::from_iter(times(DAY * 1_000_000)).with_timezone("+00:00"),
        ),
        Arc::new(TimestampNanosecondArray::from_iter(
            times(DAY * 1_000_000_000).chain([Some(i64::MIN), Some(i64::MAX)]),
        )),
        Arc::new(Date64Array::from_iter(times(DAY * 1_000))),
        Arc::new(Time32MillisecondArray::from_iter(
            of_day(DAY * 1_000).map(|time| time.map(|time| time as i32)),
        )),
        Arc::new(Time64NanosecondArray::from_iter(of_day(
            DAY * 1_000_000_000,
        ))),
    ];
    for column in columns {
        let is_time = matches!(
            column.data_type(),
            DataType::Time32(_) | DataType::Time64(_)
        );
        let batch = RecordBatch::try_from_iter_with_nullable([("t", column, true)]).unwrap();
        let of: Expr = Arc::new(Column::new("t", 0));
        let from = if is_time { 9 } else { 0 };
        for part in PARTS[from..].iter().chain(&["nanosecond", "epoch"]) {
            let arguments = vec![lit(*part), Arc::clone(&of)];
            let part = function(datetime::date_part(), arguments, &batch.schema());
            check(&device, &part, &batch);
        }
    }
}

/// Days beyond the parts of DataFusion are for the host.
#[test]
fn what_is_for_the_host() {
    let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    let far: [(ArrayRef, &[&str]); 3] = [
        (
            Arc::new(Date32Array::from(vec![90_000_001])),
            &["dow", "week", "doy", "quarter", "day"],
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![i64::MIN])),
            &["isodow", "hour", "second", "year"],
        ),
        (
            Arc::new(Time32MillisecondArray::from(vec![-1])),
            &["hour", "second"],
        ),
    ];
    for (column, parts) in far {
        let batch = RecordBatch::try_from_iter_with_nullable([("t", column, true)]).unwrap();
        for part in parts {
            let arguments: Vec<Expr> = vec![lit(*part), Arc::new(Column::new("t", 0))];
            let call = function(datetime::date_part(), arguments, &batch.schema());
            let made = made(&device, &[call], &batch);
            assert!(made.is_some_and(|made| made.is_none()), "{part}");
        }
    }
}

/// Times of other zones than UTC have no program: their distinct values are evaluated.
#[test]
fn times_of_zones() {
    let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    for zone in ["+02:00", "Europe/Berlin", "America/St_Johns"] {
        let times = (0..300).map(|i| (i % 7 != 3).then_some(1_700_000_000 + i % 40 * 86_399 * 29));
        let zoned = TimestampSecondArray::from_iter(times).with_timezone(zone);
        let batch = RecordBatch::try_from_iter([("t", Arc::new(zoned) as ArrayRef)]).unwrap();
        for part in ["hour", "day", "year", "dow"] {
            for of in [datetime::date_part(), datetime::date_trunc()] {
                let arguments: Vec<Expr> = vec![lit(part), Arc::new(Column::new("t", 0))];
                if part == "dow" && of.name() == "date_trunc" {
                    continue;
                }
                let call = function(of, arguments, &batch.schema());
                check(&device, &call, &batch);
            }
        }
    }
}

/// Truncated and shifted days of 800 years, their distances, and what lies at the ends of what a timestamp can say.
#[test]
fn days_truncated_and_shifted() {
    let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    let days = -106_000..106_000_i64;
    let dates = Date32Array::from_iter_values(days.clone().map(|day| day as i32));
    let others =
        Date32Array::from_iter_values(days.clone().map(|day| (day * 7919 % 90_001) as i32));
    let times = TimestampMillisecondArray::from_iter(days.map(|day| {
        let time = day * 86_400_000 + day * 7_919 % 86_400_000;
        (day % 13 != 0).then_some(time)
    }));
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("d", Arc::new(dates) as ArrayRef, true),
        ("e", Arc::new(others), true),
        ("t", Arc::new(times), true),
    ])
    .unwrap();
    let schema = batch.schema();
    let column = |name: &str| -> Expr { Arc::new(Column::new_with_schema(name, &schema).unwrap()) };
    let mut expressions: Vec<Expr> = ["week", "month", "quarter", "year", "day", "hour", "second"]
        .map(|part| {
            let arguments = vec![lit(part), column("t")];
            function(datetime::date_trunc(), arguments, &schema)
        })
        .to_vec();
    let interval = |days, nanos| {
        let interval = IntervalMonthDayNano::new(0, days, nanos);
        lit(ScalarValue::IntervalMonthDayNano(Some(interval)))
    };
    for (left, op, right) in [
        (column("d"), Operator::Minus, column("e")),
        (column("d"), Operator::Plus, interval(90, 0)),
        (column("d"), Operator::Minus, interval(-31, 0)),
        (interval(7, 0), Operator::Plus, column("e")),
        (column("t"), Operator::Minus, interval(3, 7_000_000)),
    ] {
        expressions.push(Arc::new(BinaryExpr::new(left, op, right)));
    }
    expressions.push(Arc::new(CastExpr::new(column("t"), DataType::Date32, None)));
    let to_time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    expressions.push(Arc::new(CastExpr::new(column("d"), to_time, None)));
    for unit in [
        TimeUnit::Second,
        TimeUnit::Microsecond,
        TimeUnit::Nanosecond,
    ] {
        let to = DataType::Timestamp(unit, None);
        expressions.push(Arc::new(CastExpr::new(column("t"), to, None)));
    }
    for expression in expressions {
        check(&device, &expression, &batch);
    }
}
