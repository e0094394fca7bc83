//! Predicates of scans: row groups that their statistics exclude, and filters that scans apply.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tempfile::{TempDir, tempdir};

use crate::cache::parquet::{create, write};
use crate::cache::{batch, lines, measured, session, stock_lines};
use crate::support::answer::{plan_of, shown};
use crate::support::session::set;

/// Ten row groups of ascending `v` in one file, and five in another.
fn files() -> TempDir {
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[batch(0, 1_000)], 100);
    write(&files.path().join("b.parquet"), &[batch(1_000, 500)], 100);
    files
}

/// Pieces without a row for the predicate are neither read nor used, and pieces are the same with another predicate.
#[tokio::test]
async fn statistics_exclude_pieces() {
    let (ctx, _) = session(64 << 20, "32MB");
    set(&ctx, "bowtie.chunk_rows", "200");
    let files = files();
    create(&ctx, &files).await;
    let over = |predicate: &str| {
        format!("SELECT k, sum(v), count(t) FROM r WHERE {predicate} GROUP BY k ORDER BY k")
    };
    let some = measured(&ctx, &over("v BETWEEN 410 AND 590")).await;
    assert_eq!((some.pruned, some.values), (1_300, 600));
    let more = measured(&ctx, &over("v BETWEEN 390 AND 590")).await;
    assert_eq!(
        (more.pruned, more.values, more.resident),
        (1_100, 600, some.sent)
    );
    let all = measured(&ctx, &over("v >= 0")).await;
    assert_eq!((all.pruned, all.values), (0, 3 * 1_100));
    assert_eq!(all.resident, some.sent + more.sent);
    let none = measured(&ctx, &over("v < 0")).await;
    assert_eq!((none.pruned, none.resident), (1_500, 0));
    let resident = measured(&ctx, &over("v > 1200 AND t LIKE '%1%'")).await;
    assert_eq!((resident.pruned, resident.values), (1_200, 0));
    set(&ctx, "datafusion.execution.parquet.pruning", "false");
    lines(&ctx, "DROP TABLE r").await;
    create(&ctx, &files).await;
    assert_eq!(measured(&ctx, &over("v < 0")).await.pruned, 0);
}

/// Filters that scans apply, over columns that the query reads and others, run on the device.
#[tokio::test]
async fn filters_in_scans() {
    let (ctx, _) = session(64 << 20, "32MB");
    set(
        &ctx,
        "datafusion.execution.parquet.pushdown_filters",
        "true",
    );
    let files = files();
    create(&ctx, &files).await;
    let queries = [
        "SELECT k, sum(v) FROM r WHERE v % 5 <> 1 GROUP BY k ORDER BY k",
        "SELECT k, sum(k) FROM r WHERE v > 777 AND t LIKE '%1%' GROUP BY k ORDER BY k",
        "SELECT count(*), min(k) FROM r WHERE t IS NULL OR v = 1",
        "SELECT k, sum(v) FROM r WHERE v > 99 AND reverse(t) LIKE '1%' GROUP BY k ORDER BY k",
        "SELECT a.k, count(*), sum(b.v) FROM r a JOIN r b ON a.k = b.k AND a.v < b.v WHERE a.v < 50 AND b.v > 1400 GROUP BY a.k ORDER BY a.k",
    ];
    for sql in queries {
        let plan = shown(&plan_of(&ctx, sql).await.unwrap());
        assert!(plan.contains("BowtieFilterExec"), "{plan}");
        assert!(
            !plan.contains(": FilterExec") && !plan.contains("\n FilterExec"),
            "{plan}"
        );
        measured(&ctx, sql).await;
        let again = measured(&ctx, sql).await;
        assert_eq!((again.values, again.sent), (0, 0), "{sql}");
    }
    // What does not compile stays in DataFusion's scan.
    let sql = "SELECT k, sum(v) FROM r WHERE concat(t, v) LIKE '1%' GROUP BY k ORDER BY k";
    let plan = shown(&plan_of(&ctx, sql).await.unwrap());
    assert!(!plan.contains("BowtieScanExec"), "{plan}");
    assert_eq!(lines(&ctx, sql).await, stock_lines(&ctx, sql).await);
}

/// Of a table that is larger than the store, the scan's own filter is applied to a part.
#[tokio::test]
async fn filters_of_what_has_no_room() {
    for pushdown in ["true", "false"] {
        let (ctx, _) = session(64 << 20, "1MB");
        set(
            &ctx,
            "datafusion.execution.parquet.pushdown_filters",
            pushdown,
        );
        set(&ctx, "bowtie.chunk_rows", "4000");
        let files = tempdir().unwrap();
        write(&files.path().join("a.parquet"), &[batch(0, 70_000)], 1_500);
        create(&ctx, &files).await;
        let sql = "SELECT k, sum(k), count(t) FROM r WHERE v > 777 AND t LIKE '%1%' GROUP BY k ORDER BY k";
        let first = measured(&ctx, sql).await;
        assert!(first.values > 0 && first.values < 3 * 70_000, "{first:?}");
        let second = measured(&ctx, sql).await;
        assert!(
            second.values == 0 && second.resident > 500 << 10,
            "{second:?}"
        );
    }
}

/// Values that cannot be cast, in a row group that the predicate excludes: what cannot be stored is read as DataFusion reads it.
#[tokio::test]
async fn values_that_cannot_be_cast() {
    let (ctx, _) = session(64 << 20, "32MB");
    let files = tempdir().unwrap();
    let texts = (0..200).map(|n| match n {
        0..100 => n.to_string(),
        _ => "none".into(),
    });
    let columns: [(&str, ArrayRef); 2] = [
        ("k", Arc::new(Int64Array::from_iter_values(0..200))),
        ("t", Arc::new(StringArray::from_iter_values(texts))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write(&files.path().join("a.parquet"), &[batch], 100);
    let path = files.path().display();
    let sql = format!(
        "CREATE EXTERNAL TABLE r (k BIGINT, t BIGINT) STORED AS PARQUET LOCATION '{path}/'"
    );
    lines(&ctx, &sql).await;
    let sql = "SELECT k % 3 AS m, sum(t) FROM r WHERE k < 100 GROUP BY k % 3 ORDER BY m";
    for _ in 0..2 {
        let read = measured(&ctx, sql).await;
        assert_eq!(read.resident, 0);
    }
    let all = "SELECT k % 3 AS m, sum(t) FROM r GROUP BY k % 3 ORDER BY m";
    let failed = async { ctx.sql(all).await?.collect().await };
    assert!(failed.await.unwrap_err().to_string().contains("none"));
}
