//! Joins of tables that are presorted by their keys, or nearly so. A GPU merges such sides without a build.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use datafusion::prelude::SessionContext;

use crate::support::answer::{analyzed, check, stock};
use crate::support::session::{device, session, set};
use crate::support::tables::register_batches;
use crate::support::tuning::Tuning;

/// Enough rows of two tables that a GPU checks whether they are presorted.
const FEW: i64 = 140_000;

const MANY: i64 = 200_000;

/// The key `key(row)`, which may be NULL, an integer, and a text.
fn table(rows: i64, key: impl Fn(i64) -> Option<i64>) -> RecordBatch {
    let keys: Int64Array = (0..rows).map(key).collect();
    let numbers = Int32Array::from_iter_values((0..rows).map(|row| (row * 7919 % 1000) as i32));
    let texts = (0..rows).map(|row| format!("text {}", row % 613));
    RecordBatch::try_from_iter([
        ("k", Arc::new(keys) as ArrayRef),
        ("v", Arc::new(numbers)),
        ("t", Arc::new(StringArray::from_iter_values(texts))),
    ])
    .unwrap()
}

/// Registers `batch` in one partition, as batches in their order.
fn register(ctx: &SessionContext, name: &str, batch: &RecordBatch) {
    let rows = batch.num_rows();
    let batches = (0..rows).step_by(8192);
    let batches = batches.map(|from| batch.slice(from, 8192.min(rows - from)));
    register_batches(ctx, name, batches.collect());
}

/// Presorted tables of unique and of duplicate keys; some with a NULL, or with one key out of order.
fn tables() -> SessionContext {
    let ctx = session();
    register(&ctx, "once", &table(FEW, |row| Some(row * 2 - 5_000)));
    register(&ctx, "often", &table(MANY, |row| Some(row * 4 / 3 - 9_000)));
    register(&ctx, "far", &table(FEW, |row| Some(row * 1_000_003)));
    let null = |row| (row != 120_000).then_some(row * 2);
    register(&ctx, "null", &table(FEW, null));
    let moved = |row| Some(if row == 121_234 { 3 } else { row * 2 });
    register(&ctx, "moved", &table(FEW, moved));
    // The first chunk of these is presorted.
    let null = |row| (row != 190_000).then_some(row * 2);
    register(&ctx, "late_null", &table(MANY, null));
    let moved = |row| Some(if row == 191_234 { 3 } else { row * 2 });
    register(&ctx, "late_moved", &table(MANY, moved));
    register(&ctx, "ten", &table(10, |row| Some(row * 100)));
    ctx
}

const QUERIES: [&str; 16] = [
    "SELECT l.k, l.v, r.t, r.k AS s FROM once AS l JOIN often AS r ON l.k = r.k",
    "SELECT l.v, r.v AS w FROM often AS l JOIN once AS r ON l.k = r.k",
    "SELECT l.v, r.t FROM far AS l JOIN often AS r ON l.k = r.k",
    "SELECT l.v, r.t FROM null AS l JOIN often AS r ON l.k = r.k",
    "SELECT l.v, r.t FROM moved AS l JOIN often AS r ON l.k = r.k",
    "SELECT count(*), sum(x.v) FROM (SELECT r.v, r.k FROM once AS l RIGHT SEMI JOIN often AS r ON l.k = r.k) AS x JOIN ten ON x.v = ten.k",
    "SELECT count(*), sum(x.v) FROM (SELECT r.v, r.k FROM often AS l RIGHT SEMI JOIN once AS r ON l.k = r.k) AS x JOIN ten ON x.v = ten.k",
    "SELECT x.t, count(*) FROM (SELECT r.v, r.t FROM once AS l RIGHT ANTI JOIN often AS r ON l.k = r.k) AS x GROUP BY x.t",
    "SELECT x.t, count(*) FROM (SELECT r.v, r.t FROM moved AS l RIGHT ANTI JOIN once AS r ON l.k = r.k) AS x GROUP BY x.t",
    "SELECT l.v, r.t FROM once AS l JOIN late_null AS r ON l.k = r.k",
    "SELECT l.v, r.t FROM once AS l JOIN late_moved AS r ON l.k = r.k",
    "SELECT x.t, count(*) FROM (SELECT r.v, r.t FROM once AS l RIGHT ANTI JOIN late_null AS r ON l.k = r.k) AS x GROUP BY x.t",
    "SELECT x.t, count(*) FROM (SELECT r.v, r.t FROM once AS l RIGHT SEMI JOIN late_moved AS r ON l.k = r.k) AS x GROUP BY x.t",
    "SELECT l.v, r.v AS w FROM often AS l LEFT JOIN once AS r ON l.k = r.k",
    "SELECT l.v, r.v AS w, r.t FROM once AS l RIGHT JOIN often AS r ON l.k = r.k",
    "SELECT l.k, l.v, r.k AS s, r.v AS w FROM once AS l FULL JOIN often AS r ON l.k = r.k",
];

#[tokio::test]
async fn presorted_tables() {
    let ctx = tables();
    for sql in QUERIES {
        let stock = stock(&ctx, sql).await.unwrap();
        for strategy in ["auto", "sort_merge"] {
            set(&ctx, "bowtie.equi_join_strategy", strategy);
            // One chunk of each side; two of the longer one; two of both.
            for (chunk_rows, partitions) in [("auto", 1), ("140000", 1), ("139999", 1), ("auto", 4)]
            {
                let tuning = Tuning {
                    chunk_rows,
                    partitions,
                    ..Tuning::PLAIN
                };
                check(&ctx, sql, &tuning, &stock, &["BowtieJoinExec"]).await;
            }
        }
    }
}

/// A GPU merges presorted sides where build keys are unique, or the output has columns of the probe side only.
#[tokio::test]
async fn presorted_sides_are_merged() {
    if device() == "host" {
        return;
    }
    let ctx = tables();
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    for (query, walks) in QUERIES
        .iter()
        .zip([1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1])
    {
        let text = analyzed(&ctx, query).await;
        let found = text.matches("indexed_merge=1").count();
        assert_eq!(found, walks, "{query}\n{text}");
    }
}
