//! Stored columns are codes where these are narrower than values. Queries over codes of every type have DataFusion's rows.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use tempfile::{TempDir, tempdir};

use crate::cache::parquet::host_cache::fill_the_device;
use crate::cache::parquet::{create, write};
use crate::cache::{lines, measured, session, stock_lines};
use crate::support::answer::analyzed;
use crate::support::session::{device, set};

/// Columns whose values repeat, by name; the last ones have no narrower codes, or none at all.
const COLUMNS: [&str; 19] = [
    "i16", "i32", "i64", "u16", "u32", "u64", "d32", "d64", "t32", "t64", "ts", "tz", "dec",
    "wide", "text", "large", "views", "bin", "flag",
];

/// `rows` rows from row `first` on. Values lie about `base`, so that pieces may have codes of different widths and least values.
fn rows(first: i64, rows: i64, base: i64) -> RecordBatch {
    let n = || first..first + rows;
    // NULL in some rows of each column, in others for each.
    let of = |salt: i64, range: i64| {
        let value = move |n: i64| (n * 7919 + salt * 104_729) % 1009 % range;
        n().map(move |n| ((n + salt) % 11 != 0).then(|| value(n) + base))
            .collect::<Vec<Option<i64>>>()
    };
    let longs = |salt, range| Int64Array::from(of(salt, range));
    let cast = |values: Int64Array, to: &DataType| arrow::compute::cast(&values, to).unwrap();
    let days = |values, to: &DataType| {
        let days = cast(values, &DataType::Int32);
        arrow::compute::cast(&days, to).unwrap()
    };
    let text = |salt, range| {
        let names = of(salt, range).into_iter();
        names.map(|n| n.map(|n| format!("name {n}{}", "x".repeat(n.unsigned_abs() as usize % 15))))
    };
    let decimal = |salt, range, factor: i128| {
        let values = of(salt, range).into_iter();
        let values = values.map(|n| n.map(|n| i128::from(n) * factor));
        let array = Decimal128Array::from(values.collect::<Vec<_>>());
        Arc::new(array.with_precision_and_scale(30, 2).unwrap()) as ArrayRef
    };
    let ts = |zone: Option<Arc<str>>| DataType::Timestamp(TimeUnit::Microsecond, zone);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(n()))),
        ("i16", cast(longs(1, 9), &DataType::Int16)),
        ("i32", cast(longs(2, 300), &DataType::Int32)),
        ("i64", Arc::new(longs(3, 700))),
        ("u16", cast(longs(4, 5), &DataType::UInt16)),
        ("u32", cast(longs(5, 400), &DataType::UInt32)),
        ("u64", cast(longs(6, 900), &DataType::UInt64)),
        ("d32", days(longs(7, 365), &DataType::Date32)),
        ("d64", cast(longs(8, 365), &DataType::Date64)),
        (
            "t32",
            days(longs(9, 800), &DataType::Time32(TimeUnit::Second)),
        ),
        (
            "t64",
            cast(longs(10, 800), &DataType::Time64(TimeUnit::Microsecond)),
        ),
        ("ts", cast(longs(11, 999), &ts(None))),
        ("tz", cast(longs(12, 999), &ts(Some("+02:00".into())))),
        ("dec", decimal(13, 600, 1)),
        ("wide", decimal(14, 600, 1 << 70)),
        ("text", Arc::new(text(15, 12).collect::<StringArray>())),
        ("large", Arc::new(text(16, 7).collect::<LargeStringArray>())),
        ("views", Arc::new(text(17, 20).collect::<StringViewArray>())),
        (
            "bin",
            Arc::new(
                text(18, 3)
                    .map(|t| t.map(String::into_bytes))
                    .collect::<BinaryArray>(),
            ),
        ),
        (
            "flag",
            Arc::new(
                of(19, 2)
                    .into_iter()
                    .map(|n| n.map(|n| n % 2 == 0))
                    .collect::<BooleanArray>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns
            .into_iter()
            .map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

/// A session with table `r` of `files`: the number of rows of each, and the value about which its values lie.
async fn table(files: &[(i64, i64)], chunk_rows: &str) -> (SessionContext, TempDir) {
    let (ctx, _) = session(64 << 20, "32MB");
    set(&ctx, "bowtie.chunk_rows", chunk_rows);
    let directory = tempdir().unwrap();
    let mut first = 0;
    for (i, (count, base)) in files.iter().enumerate() {
        let path = directory.path().join(format!("{i}.parquet"));
        write(&path, &[rows(first, *count, *base)], 128);
        first += count;
    }
    create(&ctx, &directory).await;
    (ctx, directory)
}

/// Queries that move, compare, compute, group, join and sort column `c`.
fn queries(c: &str) -> Vec<String> {
    let other = if c == "text" { "views" } else { "text" };
    vec![
        format!("SELECT id, {c} FROM r WHERE {c} IS NULL OR id % 3 = 0 ORDER BY id"),
        format!("SELECT id FROM r WHERE {c} > (SELECT min({c}) FROM r) AND i64 <> 3 ORDER BY id"),
        format!(
            "SELECT {c}, count(*), sum(dec), min({other}), max(i32) FROM r GROUP BY {c} ORDER BY {c}"
        ),
        format!(
            "SELECT {c}, {other}, count(i64) FROM r GROUP BY {c}, {other} ORDER BY {c}, {other}"
        ),
        format!("SELECT DISTINCT {c} FROM r WHERE id > 40 ORDER BY {c} DESC NULLS LAST"),
        format!("SELECT count({c}), count(DISTINCT {c}), min({c}), max({c}) FROM r"),
        format!("SELECT id, {c}, wide AS w FROM r ORDER BY {c} DESC NULLS FIRST, id LIMIT 37"),
        format!("SELECT id, {c} FROM r ORDER BY {c}, id"),
        format!(
            "SELECT a.id, b.{c}, b.{other} FROM r a JOIN r b ON a.id = b.id + 1 WHERE b.u16 > 1 ORDER BY a.id"
        ),
        format!(
            "SELECT a.{c}, count(*) FROM r a JOIN r b ON a.{c} = b.{c} AND a.id < b.id GROUP BY a.{c} ORDER BY a.{c}"
        ),
        format!(
            "SELECT a.id, b.id, b.{c} FROM r a LEFT JOIN r b ON a.{c} = b.{c} AND b.id < 9 WHERE a.id < 80 ORDER BY 1, 2"
        ),
        format!("SELECT id, {c} FROM r WHERE {c} IN (SELECT {c} FROM r WHERE id < 5) ORDER BY id"),
        format!(
            "SELECT id, {c} FROM r WHERE NOT EXISTS (SELECT 1 FROM r s WHERE s.{c} = r.{c} AND s.id <> r.id) ORDER BY id"
        ),
        format!(
            "SELECT id, {c} FROM (SELECT id, {c} FROM r UNION ALL SELECT -id, {c} FROM r WHERE id > 3) ORDER BY id"
        ),
        format!("SELECT count(*), max(b.{c}) FROM r a JOIN r b ON a.{c} < b.{c} AND a.id < 60"),
    ]
}

#[tokio::test]
async fn every_type_in_pieces_of_different_codes() {
    let files = [(150, 0), (90, 60), (130, 1)];
    for chunk_rows in ["auto", "128"] {
        let (ctx, _directory) = table(&files, chunk_rows).await;
        for c in COLUMNS {
            for sql in queries(c) {
                let expected = stock_lines(&ctx, &sql).await;
                assert_eq!(lines(&ctx, &sql).await, expected, "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn every_type_in_host_memory() {
    let (ctx, _directory) = table(&[(150, 0), (90, 60), (130, 1)], "128").await;
    set(&ctx, "bowtie.host_cache", "32MB");
    fill_the_device(&ctx).await;
    for c in COLUMNS {
        for sql in queries(c) {
            let expected = stock_lines(&ctx, &sql).await;
            assert_eq!(lines(&ctx, &sql).await, expected, "{sql}");
        }
    }
    let stored = "SELECT sum(bytes) AS b, count(*) FILTER (WHERE host_bytes > 0) AS n FROM bowtie_cache() WHERE \"table\" = 'r'";
    let columns = COLUMNS.len() + 1;
    assert_eq!(lines(&ctx, stored).await, [format!("| 0 | {columns} |")]);
}

#[tokio::test]
async fn expressions_of_codes() {
    let (ctx, _directory) = table(&[(200, -30), (100, 500), (57, 40_000)], "128").await;
    for sql in [
        "SELECT id, i16 + 1, i32 * i64, u16 - CAST(i16 AS BIGINT), dec * 2, wide + dec, dec / 3 FROM r ORDER BY id",
        "SELECT id, CASE WHEN i32 > 40 THEN i64 ELSE i16 END, coalesce(i16, 5), nullif(i32, 7) FROM r ORDER BY id",
        "SELECT id FROM r WHERE text LIKE 'name 1%' OR views LIKE '%2xx%' OR large = 'name 3xxx' ORDER BY id",
        "SELECT id FROM r WHERE text IN ('name 1x', 'name 2xx') AND NOT (views LIKE '%x') ORDER BY id",
        "SELECT id FROM r WHERE text < large AND views IS NOT NULL ORDER BY id",
        "SELECT substr(text, 6, 2), count(*) FROM r GROUP BY 1 ORDER BY 1",
        "SELECT extract(month FROM d32), count(*), sum(dec * wide) FROM r GROUP BY 1 ORDER BY 1",
        "SELECT sum(i16), sum(i32), avg(dec), avg(u64), sum(wide), min(t64), max(ts), min(tz) FROM r WHERE d32 > '1970-01-20'",
        "SELECT flag, bin, sum(dec), count(i32), min(text) FROM r GROUP BY GROUPING SETS ((flag), (bin), (flag, bin), ()) ORDER BY 1, 2, 3, 4, 5",
        "SELECT id, d32 + INTERVAL '1' DAY, ts - INTERVAL '1' HOUR, d32 - DATE '1970-01-03' FROM r ORDER BY id",
        "SELECT a.text, sum(a.dec * b.dec) FROM r a JOIN r b ON a.i32 = b.i32 AND a.d32 BETWEEN b.d32 AND b.d32 + 30 GROUP BY a.text ORDER BY 1",
    ] {
        let expected = stock_lines(&ctx, sql).await;
        for _ in 0..2 {
            assert_eq!(lines(&ctx, sql).await, expected, "{sql}");
        }
    }
}

#[tokio::test]
async fn encodings_are_listed() {
    let (ctx, _directory) = table(&[(300, 0)], "auto").await;
    let all = COLUMNS.join(", ");
    measured(&ctx, &format!("SELECT id, {all} FROM r ORDER BY id")).await;
    let listed = lines(
        &ctx,
        "SELECT \"column\", encoding FROM bowtie_cache() ORDER BY 1",
    )
    .await;
    let of = |column: &str| {
        let start = format!("| {column} ");
        let line = listed.iter().find(|line| line.starts_with(&start)).unwrap();
        line.split('|').nth(2).unwrap().trim().to_string()
    };
    for (column, encoding) in [
        ("id", "offset of 16 bits"),
        ("i16", "offset of 8 bits"),
        ("i32", "offset of 16 bits"),
        ("d32", "offset of 16 bits"),
        ("ts", "offset of 16 bits"),
        ("dec", "offset of 16 bits"),
        ("wide", ""),
        ("text", "13 values, codes of 8 bits"),
        ("views", "21 values, codes of 8 bits"),
        ("flag", ""),
    ] {
        assert_eq!(of(column), encoding, "{column}");
    }
}

#[tokio::test]
async fn filters_projections_and_few_groups_are_one_pass() {
    let (ctx, _directory) = table(&[(300, 0), (200, 5), (100, 70_000)], "128").await;
    let having = "AND text IS NOT NULL AND NOT views LIKE '%9%'";
    let mut fused = 0;
    for sql in [
        "SELECT count(*), sum(dec * dec), min(d32), max(i16), count(i32) FROM r WHERE i64 BETWEEN 10 AND 500".to_string(),
        format!("SELECT text, i16, sum(i64 + u32), avg(dec), count(wide), max(t64) FROM r WHERE i32 < 250 {having} GROUP BY text, i16 ORDER BY 1, 2"),
        "SELECT large, sum(CASE WHEN flag THEN dec END), min(u64 - 3) FROM r GROUP BY large ORDER BY large".to_string(),
        "SELECT count(*), sum(i64) FROM r WHERE i64 < -1000".to_string(),
        "SELECT u16, count(*) FROM r WHERE i64 < -1000 GROUP BY u16".to_string(),
    ] {
        let expected = stock_lines(&ctx, &sql).await;
        assert_eq!(lines(&ctx, &sql).await, expected, "{sql}");
        let plan = analyzed(&ctx, &sql).await;
        fused += usize::from(plan.contains("fused="));
    }
    // A GPU compiles no kernel for few rows.
    assert!(fused > 0 || device() != "host", "no query was one pass");
    // A fault in a row that the filter drops is none, and one in a row that passes is DataFusion's error.
    let overflow =
        |below| format!("SELECT sum(wide * 1000000000000000000) FROM r WHERE id < {below}");
    for below in [0, 3, 600] {
        let sql = overflow(below);
        set(&ctx, "bowtie.offload", "off");
        let stock = ctx.sql(&sql).await.unwrap().collect().await;
        set(&ctx, "bowtie.offload", "force");
        let forced = ctx.sql(&sql).await.unwrap().collect().await;
        // Any of the rows that overflow may be the first.
        let shown = |made: Result<Vec<RecordBatch>, datafusion::error::DataFusionError>| match made
        {
            Ok(made) => pretty_format_batches(&made).unwrap().to_string(),
            Err(error) => error
                .strip_backtrace()
                .split(" on: ")
                .next()
                .unwrap()
                .into(),
        };
        assert_eq!(shown(forced), shown(stock), "{sql}");
    }
}
