//! Joins of a short left side whose condition is more than equal keys: right rows without a key of the left side are dropped first.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Int32Array, Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieRuntime;

use crate::cache::lines;
use crate::support::answer::analyzed;
use crate::support::pool::greedy;
use crate::support::session::{session_on, set};

/// Keys `k` and `d` of `rows` rows, NULL in some, and values `x`. `k` is every `step`-th number below 30,000.
fn batch(rows: i64, step: i64, salt: i64) -> RecordBatch {
    let n = || 0..rows;
    let there = move |n: i64, every: i64| (n + salt) % every != 0;
    let keys = n().map(|n| there(n, 13).then_some(n * step % 30_000));
    let days = n().map(|n| there(n, 17).then_some((n * 7 % 90) as i32));
    let values = n().map(|n| there(n, 11).then_some((n * 31 + salt) as i32 % 50));
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from_iter_values(n()))),
        ("k", Arc::new(keys.collect::<Int64Array>())),
        ("d", Arc::new(days.collect::<Date32Array>())),
        ("x", Arc::new(values.collect::<Int32Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// Tables `l` and `r`, which stay on the device.
fn tables(chunk_rows: &str) -> SessionContext {
    let runtime = BowtieRuntime::with_device_memory(256 << 20);
    let ctx = session_on(greedy(512 << 20), runtime);
    set(&ctx, "bowtie.cache", "64MB");
    set(&ctx, "bowtie.offload", "force");
    set(&ctx, "bowtie.chunk_rows", chunk_rows);
    for (name, made) in [
        ("l", batch(600, 7, 1)),
        ("r", batch(40_000, 1, 5)),
        // No key of `l` is there.
        ("others", batch(20_000, 30_000, 2)),
    ] {
        let table = MemTable::try_new(made.schema(), vec![vec![made]]).unwrap();
        ctx.register_table(name, Arc::new(table)).unwrap();
    }
    ctx
}

/// Whether a query drops rows. Checks its rows.
async fn reduces(ctx: &SessionContext, sql: &str) -> bool {
    set(ctx, "bowtie.offload", "off");
    let expected = lines(ctx, sql).await;
    set(ctx, "bowtie.offload", "force");
    assert_eq!(lines(ctx, sql).await, expected, "{sql}");
    analyzed(ctx, sql).await.contains("reduced_rows=")
}

#[tokio::test]
async fn right_rows_without_a_key_are_dropped() {
    for chunk_rows in ["auto", "9000"] {
        let ctx = tables(chunk_rows);
        for condition in [
            "l.k = r.k AND l.x <> r.x",
            "l.k = r.k AND l.x < r.x AND l.d >= r.d",
            "l.k = r.k AND l.d = r.d AND l.x <> r.x",
            "(l.k IS NOT DISTINCT FROM r.k) AND l.x > r.x",
            "l.k = r.k AND (l.x + r.x > 40 OR l.id < r.id - 100)",
            "l.d = r.d AND l.x = 3 AND l.id < r.x",
        ] {
            for sql in [
                format!("SELECT l.id, r.id, r.x FROM l JOIN r ON {condition} ORDER BY 1, 2"),
                format!("SELECT l.id, r.id FROM l LEFT JOIN r ON {condition} ORDER BY 1, 2"),
                format!(
                    "SELECT id FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {condition}) ORDER BY 1"
                ),
                format!(
                    "SELECT id FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {condition}) ORDER BY 1"
                ),
                format!(
                    "SELECT l.x, count(*), sum(r.x), max(r.d) FROM l JOIN r ON {condition} GROUP BY l.x ORDER BY 1"
                ),
            ] {
                assert!(reduces(&ctx, &sql).await, "{sql}");
            }
            // Right rows without a match are emitted.
            for sql in [
                format!("SELECT l.id, r.id FROM l RIGHT JOIN r ON {condition} ORDER BY 1, 2"),
                format!("SELECT l.id, r.id FROM l FULL JOIN r ON {condition} ORDER BY 1, 2"),
                format!(
                    "SELECT id FROM r WHERE EXISTS (SELECT 1 FROM l WHERE {condition}) ORDER BY 1"
                ),
                format!(
                    "SELECT id FROM r WHERE NOT EXISTS (SELECT 1 FROM l WHERE {condition}) ORDER BY 1"
                ),
            ] {
                assert!(!reduces(&ctx, &sql).await, "{sql}");
            }
            let none = format!(
                "SELECT l.id, o.id FROM l LEFT JOIN others o ON {} ORDER BY 1, 2",
                condition.replace("r.", "o.")
            );
            reduces(&ctx, &none).await;
            // Group columns of the right side.
            let grouped = format!(
                "SELECT r.d, count(*), sum(l.x) FROM l JOIN r ON {condition} GROUP BY r.d ORDER BY 1"
            );
            reduces(&ctx, &grouped).await;
        }
        let not_in =
            "SELECT id FROM l WHERE k NOT IN (SELECT k FROM r WHERE r.x <> l.x) ORDER BY 1";
        assert!(!reduces(&ctx, not_in).await, "{not_in}");
        for (condition, reduced) in [
            // A band whose columns are casts, and a right side of which most rows stay.
            ("l.k = r.k AND l.id - r.x < 5", true),
            ("l.k = r.k AND l.id - r.x BETWEEN -3 AND 400", true),
            ("l.d = r.d AND l.id < r.x", false),
        ] {
            let sql =
                format!("SELECT l.id, r.id, r.d FROM l JOIN r ON {condition} ORDER BY 1, 2, 3");
            let is_reduced = reduces(&ctx, &sql).await;
            assert!(is_reduced || !reduced, "{sql}");
        }
    }
}

#[tokio::test]
async fn joins_that_are_not_reduced() {
    let ctx = tables("auto");
    for sql in [
        // Equal keys are the whole condition.
        "SELECT l.id, r.id FROM l JOIN r ON l.k = r.k ORDER BY 1, 2",
        // The left side is not much shorter.
        "SELECT count(*) FROM r a JOIN r b ON a.k = b.k AND a.x < b.x",
        // No keys.
        "SELECT count(*) FROM l JOIN r ON l.x < r.x - 40",
    ] {
        assert!(!reduces(&ctx, sql).await, "{sql}");
    }
}
