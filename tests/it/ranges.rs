//! Range joins of two long sides, which a coordinator has exchanged by ranges of their values.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    TimestampMicrosecondArray, UInt64Array,
};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tempfile::{TempDir, tempdir};

use crate::support::answer::{answer, plan_of, shown, stock};
use crate::support::compare::same_rows;
use crate::support::session::{Rule, session_by, set};

/// Values around which the others lie, in a table of `rows` rows, some of them NULL, and some at the ends of their type.
fn table(rows: usize, salt: u64, ends: bool) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(salt);
    let values: Vec<Option<i64>> = (0..rows)
        .map(|_| (!random.random_bool(0.05)).then(|| random.random_range(-5_000..5_000)))
        .collect();
    let lengths: Vec<i64> = (0..rows)
        .map(|_| match random.random_range(0..20) {
            // In several ranges, or backwards.
            0 => 300,
            1 => -7,
            _ => random.random_range(0..12),
        })
        .collect();
    let of_length = values.iter().zip(&lengths);
    let stops: Vec<Option<i64>> = of_length.map(|(v, length)| v.map(|v| v + length)).collect();
    let floats = values.iter().enumerate().map(|(i, v)| match i % 101 {
        0 if ends => Some(f64::NAN),
        1 if ends => Some(-1e307),
        2 if ends => Some(-f64::NAN),
        3 if ends => Some(1e307),
        _ => v.map(|v| v as f64 / 4.0),
    });
    let wide = values.iter().enumerate().map(|(i, v)| match i % 97 {
        0 if ends => Some(i64::MAX),
        1 if ends => Some(i64::MIN + 1),
        _ => *v,
    });
    let small = |v: &i64| i32::try_from(*v).unwrap();
    let micros = |v: &Option<i64>| v.map(|v| v * 1_000_000);
    let decimals = values.iter().map(|v| v.map(|v| i128::from(v) * 3));
    let decimals = Decimal128Array::from_iter(decimals);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        ("at", Arc::new(Int64Array::from(values.clone()))),
        ("stop", Arc::new(Int64Array::from(stops.clone()))),
        ("wide", Arc::new(Int64Array::from_iter(wide))),
        ("f", Arc::new(Float64Array::from_iter(floats))),
        (
            "i",
            Arc::new(Int32Array::from_iter(
                values.iter().map(|v| v.as_ref().map(small)),
            )),
        ),
        (
            "u",
            Arc::new(UInt64Array::from_iter(
                values.iter().map(|v| v.map(|v| (v + 5_000) as u64)),
            )),
        ),
        (
            "d",
            Arc::new(Date32Array::from_iter(
                values.iter().map(|v| v.as_ref().map(small)),
            )),
        ),
        (
            "t",
            Arc::new(TimestampMicrosecondArray::from_iter(
                values.iter().map(micros),
            )),
        ),
        (
            "t2",
            Arc::new(TimestampMicrosecondArray::from_iter(
                stops.iter().map(micros),
            )),
        ),
        (
            "dec",
            Arc::new(decimals.with_precision_and_scale(12, 2).unwrap()),
        ),
    ];
    let columns = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Tables `a` and `b`, and `x` and `y` with values at the ends of their types, as files with statistics.
async fn tables(rule: Rule) -> (SessionContext, TempDir) {
    let ctx = session_by(rule);
    set(&ctx, "bowtie.broadcast_rows", "0");
    let files = tempdir().unwrap();
    for (name, rows, ends) in [
        ("a", 700, false),
        ("b", 400, false),
        ("x", 500, true),
        ("y", 450, true),
    ] {
        let batch = table(rows, rows as u64, ends);
        let path = files.path().join(format!("{name}.parquet"));
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let path = path.to_str().unwrap();
        ctx.register_parquet(name, path, ParquetReadOptions::default())
            .await
            .unwrap();
    }
    (ctx, files)
}

/// Checks a query by ranges, in DataFusion and on the device.
async fn check(ctx: &SessionContext, sql: &str, by_ranges: bool) {
    let expected = stock(ctx, sql).await.unwrap();
    for offload in ["auto", "force"] {
        set(ctx, "bowtie.offload", offload);
        set(ctx, "datafusion.execution.target_partitions", "3");
        let plan = shown(&plan_of(ctx, sql).await.unwrap());
        let is_by_ranges = plan.contains("bowtie_range@") || plan.contains("bowtie_range(");
        assert_eq!(is_by_ranges, by_ranges, "{sql}\n{plan}");
        let given = answer(ctx, sql).await.unwrap();
        if let Err(difference) = same_rows(&expected, &given) {
            panic!("{sql}\n{}\n{difference}", given.plan);
        }
    }
}

/// Conditions by which `a` and `b` are exchanged by ranges: of a value between others, then of intervals that overlap.
const BETWEEN: [&str; 12] = [
    "abs(a.at - b.at) <= 3",
    "a.at BETWEEN b.at - 2 AND b.at + 5",
    "a.at - b.at < 4 AND b.at - a.at < 2",
    "a.at > b.at AND a.at < b.stop",
    "a.at BETWEEN b.at AND b.stop AND a.id <> b.id",
    "abs(a.f - b.f) <= 0.75",
    "a.f BETWEEN b.f - 1.5 AND b.f + 0.25",
    "abs(a.i - b.i) < 2",
    "a.u >= b.u AND a.u <= b.u + 4",
    "a.d BETWEEN b.d AND b.d + INTERVAL '2 day'",
    "a.t BETWEEN b.t AND b.t2",
    "abs(a.dec - b.dec) <= 0.09",
];
const OVERLAP: [&str; 2] = [
    "a.at <= b.stop AND b.at <= a.stop",
    "a.t < b.t2 AND b.t < a.t2 AND a.id % 7 <> b.id % 5",
];

#[tokio::test]
async fn conditions_that_bound_a_value() {
    let (ctx, _files) = tables(Rule::CutStages).await;
    for condition in BETWEEN {
        // Dates behind intervals may be out of range; floats that are subtracted may be NaN.
        let by_ranges = !condition.contains("INTERVAL") && !condition.contains("a.f - b.f");
        let sql = format!("SELECT a.id, b.id AS other FROM a JOIN b ON {condition}");
        check(&ctx, &sql, by_ranges).await;
    }
    for condition in OVERLAP {
        let sql = format!("SELECT a.id, b.id AS other FROM a JOIN b ON {condition}");
        check(&ctx, &sql, true).await;
    }
}

#[tokio::test]
async fn join_types() {
    let (ctx, _files) = tables(Rule::CutStages).await;
    // A value of `a`; of either side; intervals.
    for (condition, of_a, of_b) in [
        ("a.at BETWEEN b.at AND b.stop", true, false),
        ("b.at BETWEEN a.at AND a.stop", false, true),
        ("abs(a.at - b.at) <= 3", true, true),
        ("a.at <= b.stop AND b.at <= a.stop", false, false),
    ] {
        for (join, by_ranges) in [("LEFT", of_a), ("RIGHT", of_b), ("FULL", false)] {
            let sql = format!("SELECT a.id, b.id AS other FROM a {join} JOIN b ON {condition}");
            check(&ctx, &sql, by_ranges).await;
        }
        for (side, other, by_ranges) in [("a", "b", of_a), ("b", "a", of_b)] {
            for not in ["", "NOT"] {
                let sql = format!(
                    "SELECT {side}.id FROM {side} WHERE {not} EXISTS (SELECT 1 FROM {other} WHERE {condition})"
                );
                check(&ctx, &sql, by_ranges).await;
            }
            // A mark.
            let sql = format!(
                "SELECT {side}.id FROM {side} WHERE {side}.id % 9 = 0 OR EXISTS (SELECT 1 FROM {other} WHERE {condition})"
            );
            check(&ctx, &sql, by_ranges).await;
        }
    }
}

#[tokio::test]
async fn values_at_the_ends_of_their_types() {
    let (ctx, _files) = tables(Rule::CutStages).await;
    for (condition, by_ranges) in [
        // These may wrap, so that far values match.
        ("abs(a.wide - b.wide) <= 3", false),
        ("a.wide - b.wide <= 3 AND a.wide - b.wide >= -3", false),
        ("a.f BETWEEN b.f - 1.5 AND b.f + 0.25", true),
        ("abs(a.f - b.f) <= 0.75", false),
        ("a.f - b.f >= -2 AND b.f - a.f >= -4", false),
    ] {
        let sql = format!("SELECT a.id, b.id AS other FROM x a JOIN y b ON {condition}");
        check(&ctx, &sql, by_ranges).await;
    }
}

#[tokio::test]
async fn what_stands_above_and_below() {
    let (ctx, _files) = tables(Rule::CutStages).await;
    for sql in [
        "SELECT a.id % 10 AS g, count(*), sum(b.at) FROM a JOIN b ON abs(a.at - b.at) <= 3 GROUP BY 1",
        "SELECT count(*) FROM a JOIN b ON a.at <= b.stop AND b.at <= a.stop JOIN a c ON c.id = b.id",
        "SELECT a.id, n FROM a JOIN (SELECT at, stop, count(*) AS n FROM b GROUP BY at, stop) b ON a.at BETWEEN b.at AND b.stop",
        // Two columns of one name, in the side whose rows are repeated.
        "SELECT x.id, y.id AS other, a.id AS inner FROM b x JOIN b y ON x.id = y.stop JOIN a ON a.at BETWEEN x.at AND x.stop WHERE y.id = 5 OR y.id > 9 ORDER BY y.id, x.id, a.id LIMIT 30",
        "SELECT b.stop, a.f FROM a JOIN b ON a.at BETWEEN b.at AND b.stop ORDER BY b.stop, a.f, a.id LIMIT 20",
    ] {
        check(&ctx, sql, true).await;
    }
}

#[tokio::test]
async fn short_sides_and_wide_intervals_are_sent_to_all() {
    let (ctx, _files) = tables(Rule::CutStages).await;
    let band = "SELECT count(*) FROM a JOIN b ON abs(a.at - b.at) <= ";
    check(&ctx, &format!("{band} 3"), true).await;
    // A range would have few lengths of an interval.
    check(&ctx, &format!("{band} 3000"), false).await;
    set(&ctx, "bowtie.broadcast_rows", "400");
    check(&ctx, &format!("{band} 3"), false).await;
    set(&ctx, "bowtie.broadcast_rows", "0");
    for sql in [
        "SELECT count(*) FROM a JOIN b ON a.at < b.at",
        "SELECT count(*) FROM a JOIN b ON a.at <> b.at AND a.id > b.id",
        "SELECT count(*) FROM a, b",
    ] {
        check(&ctx, sql, false).await;
    }
    // In one process nothing is exchanged.
    let (ctx, _files) = tables(Rule::Early).await;
    check(&ctx, &format!("{band} 3"), false).await;
}

/// Most rows have few of the values, as the statistics of their file say.
#[tokio::test]
async fn ranges_are_narrow_where_values_are_crowded() {
    let ctx = session_by(Rule::CutStages);
    set(&ctx, "bowtie.broadcast_rows", "0");
    let files = tempdir().unwrap();
    let folder = |table: &str| files.path().join(table);
    let columns = "value AS id, value * 900 / ROWS AS n, value * STEP + LEAST AS at, value * STEP + LEAST + value % 9 AS stop";
    for table in ["a", "b"] {
        std::fs::create_dir(folder(table)).unwrap();
        // The whole reach; a hundredth of it; and one value.
        for (file, (rows, step, least)) in [(60, 1000, 0), (900, 1, 17_000), (50, 0, 30_000)]
            .into_iter()
            .enumerate()
        {
            let (step, least, of) = (step.to_string(), least.to_string(), rows.to_string());
            let columns = columns.replace("STEP", &step).replace("LEAST", &least);
            let columns = columns.replace("ROWS", &of);
            let path = folder(table).join(format!("{file}.parquet"));
            let sql = format!(
                "COPY (SELECT {columns} FROM generate_series(1, {rows})) TO '{}' STORED AS PARQUET",
                path.display()
            );
            ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        let path = format!("{}/", folder(table).display());
        ctx.register_parquet(table, &path, ParquetReadOptions::default())
            .await
            .unwrap();
    }
    for (condition, has_bounds) in [
        ("a.at BETWEEN b.at - 3 AND b.at + 3", true),
        // Of these the longest could be anywhere.
        ("a.at <= b.stop AND b.at <= a.stop", false),
        // These are as many everywhere.
        ("a.n BETWEEN b.n - 3 AND b.n + 3", false),
    ] {
        let sql = format!("SELECT a.id, b.id AS other, a.at FROM a JOIN b ON {condition}");
        check(&ctx, &sql, true).await;
        let plan = shown(&plan_of(&ctx, &sql).await.unwrap());
        assert_eq!(plan.contains("]) as bowtie_range"), has_bounds, "{plan}");
    }
}
