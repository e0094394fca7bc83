//! Types, columns that files lack or have with another type, columns of partitions, and random files.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::tempdir;

use crate::cache::parquet::{create, write};
use crate::cache::{GROUPED, batch, lines, measured, session};
use crate::support::session::set;

fn record(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Columns of each type that stays on the device, with NULLs.
#[tokio::test]
async fn types() {
    let (ctx, _) = session(64 << 20, "32MB");
    let numbers: Int64Array = (0..1_000)
        .map(|n| (n % 11 != 3).then_some(n % 100))
        .collect();
    let numbers: ArrayRef = Arc::new(numbers);
    let types = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(12, 2),
        DataType::Date32,
        DataType::Date64,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
    ];
    let mut columns = vec![("k", Arc::clone(&numbers))];
    let names: Vec<String> = (0..types.len()).map(|i| format!("c{i}")).collect();
    for (name, data_type) in names.iter().zip(&types) {
        let source = match data_type {
            DataType::Date32 => cast(&numbers, &DataType::Int32).unwrap(),
            DataType::Binary => cast(&numbers, &DataType::Utf8).unwrap(),
            _ => Arc::clone(&numbers),
        };
        columns.push((name, cast(&source, data_type).unwrap()));
    }
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[record(columns)], 130);
    create(&ctx, &files).await;
    for name in &names {
        let sql =
            format!("SELECT {name}, count(*), sum(k) FROM r GROUP BY {name} ORDER BY {name}, 2");
        let first = measured(&ctx, &sql).await;
        assert!(first.values >= 1_000, "{name}: {first:?}");
        let second = measured(&ctx, &sql).await;
        assert_eq!((second.values, second.sent), (0, 0), "{name}");
    }
}

/// A file without a column, one with an extra column, and others whose columns have other types and places.
#[tokio::test]
async fn files_of_other_schemas() {
    let (ctx, _) = session(64 << 20, "32MB");
    let files = tempdir().unwrap();
    let k: ArrayRef = Arc::new(Int32Array::from_iter(
        (0..300).map(|n| (n % 7 != 0).then_some(n % 5)),
    ));
    let v: ArrayRef = Arc::new(Int64Array::from_iter_values(0..300));
    let t: ArrayRef = Arc::new(StringArray::from_iter(
        (0..300).map(|n| (n % 2 > 0).then(|| format!("1 {n}"))),
    ));
    let batches = [
        batch(0, 500),
        record(vec![("k", Arc::clone(&k)), ("v", Arc::clone(&v))]),
        record(vec![
            ("t", Arc::clone(&t)),
            ("x", Arc::clone(&v)),
            ("v", cast(&v, &DataType::Int16).unwrap()),
            ("k", Arc::clone(&k)),
        ]),
        record(vec![("v", Arc::clone(&v))]),
    ];
    for (n, batch) in batches.iter().enumerate() {
        write(
            &files.path().join(format!("{n}.parquet")),
            std::slice::from_ref(batch),
            120,
        );
    }
    let path = files.path().display();
    for (round, (k, v)) in [
        ("BIGINT", "BIGINT"),
        ("BIGINT", "DOUBLE"),
        ("INT", "BIGINT"),
    ]
    .into_iter()
    .enumerate()
    {
        let sql = format!(
            "CREATE EXTERNAL TABLE r (k {k}, v {v}, t VARCHAR) STORED AS PARQUET LOCATION '{path}/'"
        );
        lines(&ctx, &sql).await;
        let query =
            "SELECT k, count(*), sum(v), count(t), max(t) FROM r WHERE v > 7 GROUP BY k ORDER BY k";
        let read = measured(&ctx, query).await;
        // Each other type is another column.
        assert_eq!(read.values, 1_400 * [3, 1, 1][round], "{round}");
        assert_eq!(measured(&ctx, query).await.values, 0);
        lines(&ctx, "DROP TABLE r").await;
    }
}

/// Columns of partitions are stored with the values of their files.
#[tokio::test]
async fn partitioned_files() {
    for pushdown in ["false", "true"] {
        let (ctx, _) = session(64 << 20, "32MB");
        set(
            &ctx,
            "datafusion.execution.parquet.pushdown_filters",
            pushdown,
        );
        let files = tempdir().unwrap();
        for (n, part) in ["p=1/q=x", "p=1/q=y", "p=2/q=x"].into_iter().enumerate() {
            let path = files.path().join(part).join("a.parquet");
            write(&path, &[batch(100 * n as i64, 400)], 150);
        }
        let path = files.path().display();
        let sql = format!(
            "CREATE EXTERNAL TABLE r (k BIGINT, v BIGINT, t VARCHAR, p INT, q VARCHAR) STORED AS PARQUET PARTITIONED BY (p, q) LOCATION '{path}/'"
        );
        lines(&ctx, &sql).await;
        let all = "SELECT p, q, k, sum(v), count(*) FROM r WHERE v > 17 GROUP BY p, q, k ORDER BY p, q, k";
        assert_eq!(measured(&ctx, all).await.values, 4 * 1_200);
        assert_eq!(measured(&ctx, all).await.values, 0);
        let some = "SELECT p, sum(v), max(q) FROM r WHERE p = 1 AND k < 5 GROUP BY p";
        measured(&ctx, some).await;
        let mixed =
            "SELECT p, sum(v), max(q) FROM r WHERE p + k < 3 OR q = 'y' GROUP BY p ORDER BY p";
        assert_eq!(measured(&ctx, mixed).await.values, 0, "{pushdown}");
        assert_eq!(measured(&ctx, mixed).await.values, 0);
    }
}

/// Small files of random lengths, with options that cut them in other ways.
#[tokio::test]
async fn random_files() {
    for seed in 0..12 {
        let mut random = StdRng::seed_from_u64(seed);
        let (ctx, _) = session(64 << 20, ["32MB", "1MB"][seed as usize % 2]);
        set(
            &ctx,
            "bowtie.chunk_rows",
            ["auto", "640", "170"][random.random_range(0..3)],
        );
        set(
            &ctx,
            "datafusion.execution.target_partitions",
            ["1", "2", "5"][random.random_range(0..3)],
        );
        set(
            &ctx,
            "datafusion.execution.parquet.pushdown_filters",
            ["true", "false"][random.random_range(0..2)],
        );
        let files = tempdir().unwrap();
        for n in 0..random.random_range(1..7) {
            let rows = random.random_range(0..9_000);
            let group = random.random_range(1..1_200);
            let path = files.path().join(format!("{n}.parquet"));
            write(&path, &[batch(random.random_range(0..1_000), rows)], group);
        }
        create(&ctx, &files).await;
        let least = random.random_range(0..1_500);
        let filtered = format!(
            "SELECT k, count(*), min(v), max(t) FROM r WHERE v > {least} GROUP BY k ORDER BY k"
        );
        for _ in 0..2 {
            for sql in [GROUPED, &filtered] {
                measured(&ctx, sql).await;
            }
        }
    }
}

/// Nothing of this is stored.
#[tokio::test]
async fn nested_columns_are_uploaded() {
    let (ctx, _) = session(64 << 20, "32MB");
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[batch(0, 100)], 50);
    create(&ctx, &files).await;
    let nested = tempdir().unwrap();
    let to = nested.path().display();
    lines(
        &ctx,
        &format!("COPY (SELECT k, [v] AS l FROM r) TO '{to}/' STORED AS PARQUET"),
    )
    .await;
    let sql = format!("CREATE EXTERNAL TABLE s STORED AS PARQUET LOCATION '{to}/'");
    lines(&ctx, &sql).await;
    let sql = "SELECT k, count(l) FROM s GROUP BY k ORDER BY k";
    let plan = crate::support::answer::plan_of(&ctx, sql).await.unwrap();
    let plan = crate::support::answer::shown(&plan);
    assert!(!plan.contains("BowtieScanExec"), "{plan}");
    assert!(batch(0, 1).column(0).len() == 1);
}
