//! Rows between device nodes: what does not fit the device is staged on the host, and what does not fit the memory pool is spilled.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tempfile::TempDir;

use crate::memory::spill::check::{MIB, check_as, compare, register, rows, spilled};
use crate::support::answer::plan_of;
use crate::support::pool::greedy;
use crate::support::session::{session_with_files_in, set};
use crate::support::tuning::Tuning;

/// Output of a join or groups that another node reads, as its left side, its right side, or the input of an aggregation.
pub(crate) const QUERIES: [&str; 9] = [
    "SELECT count(*), sum(x.v), sum(x.w), sum(length(x.s)), sum(few.v) FROM \
     (SELECT a.k, a.v, b.v AS w, a.s FROM t a JOIN t b ON a.v = b.v) AS x JOIN few ON x.k = few.k",
    "SELECT count(*), sum(x.v), sum(x.w), sum(length(x.s)), sum(t.v) FROM t JOIN \
     (SELECT a.k, a.v, b.v AS w, a.s FROM t a JOIN few b ON a.k = b.k) AS x ON x.v = t.v",
    "SELECT count(*), sum(x.n), sum(t.v), sum(length(x.s)) FROM (SELECT k, s, count(*) AS n FROM t GROUP BY k, s) AS x JOIN t ON x.k = t.k",
    "SELECT count(*), sum(x.n), sum(t.v), sum(length(x.s)) FROM t JOIN (SELECT k, s, max(v) AS n FROM t GROUP BY k, s) AS x ON x.k = t.k",
    "SELECT count(*), sum(x.w), sum(few.v) FROM (SELECT a.v + b.v AS w, a.k + 1 AS k FROM t a JOIN t b ON a.v = b.v) AS x \
     JOIN few ON x.k = few.k",
    "SELECT count(*), sum(n), sum(m) FROM (SELECT k, w, count(*) AS n, max(u) AS m FROM \
     (SELECT a.k, b.v AS w, a.v + b.v AS u FROM t a JOIN t b ON a.v = b.v) AS x GROUP BY k, w)",
    "SELECT count(*), sum(x.w), sum(few.v) FROM few JOIN \
     (SELECT a.v AS w, a.k FROM t a JOIN t b ON a.v = b.v UNION ALL SELECT v, k FROM t GROUP BY v, k) AS x ON x.k = few.k",
    "SELECT count(*), sum(x.v), sum(x.w), sum(length(x.s)), sum(t.v) FROM t FULL JOIN \
     (SELECT a.k, a.v, b.v AS w, a.s FROM t a FULL JOIN few b ON a.k = b.k) AS x ON x.v = t.v",
    "SELECT count(*), sum(n), sum(m) FROM (SELECT x.k, x.s, count(*) AS n, sum(few.v) AS m FROM \
     (SELECT a.k, a.v, a.s FROM t a JOIN t b ON a.v = b.v) AS x JOIN few ON x.v < few.v AND x.v > few.v - 30 GROUP BY x.k, x.s)",
];

pub(crate) const ROWS: i64 = 30_000;

/// A quarter of a MiB: no side, no prefetched chunk of two joins and no groups fit.
const POOL: usize = MIB / 4;

/// The sides must not be swapped.
fn tune(ctx: &SessionContext, device_memory: &str) {
    set(ctx, "datafusion.optimizer.join_reordering", "false");
    set(ctx, "bowtie.device_memory", device_memory);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_between_nodes() {
    for device_memory in ["1MB", "256MB"] {
        for sql in QUERIES {
            let tune = |ctx: &SessionContext| tune(ctx, device_memory);
            // On a large device groups and rows may stay resident.
            match device_memory {
                "1MB" => check_as(sql, ROWS, greedy(POOL), tune).await,
                _ => drop(compare(sql, ROWS, greedy(POOL), tune).await),
            }
        }
    }
}

/// Dictionaries of several pieces, nested values and views are the same when they are read again.
#[tokio::test]
async fn rows_of_every_kind() {
    let kinds = "SELECT k, v, arrow_cast(s, 'Dictionary(Int32, Utf8)') AS d, arrow_cast(s, 'Utf8View') AS w, \
                 make_array(v, k) AS l, v % 3 = 0 AS b FROM t";
    let sql = format!(
        "SELECT count(*), sum(length(x.d)), sum(length(x.w)), sum(x.l[1]), sum(x.l[2]), count(*) FILTER (WHERE x.b), sum(few.v) \
         FROM (SELECT a.k, a.d, a.w, a.l, a.b FROM ({kinds}) AS a JOIN t b ON a.v = b.v) AS x JOIN few ON x.k = few.k"
    );
    for device_memory in ["1MB", "256MB"] {
        // The values of a dictionary are counted with each of its pieces.
        let pool = greedy(3 * MIB / 2);
        check_as(&sql, ROWS, pool, |ctx| tune(ctx, device_memory)).await;
    }
}

fn files(directory: &Path) -> usize {
    let inside = std::fs::read_dir(directory).into_iter().flatten().flatten();
    inside
        .map(|entry| match entry.path() {
            path if path.is_dir() => files(&path),
            _ => 1,
        })
        .sum()
}

/// A session that spills to a directory of its own.
fn spilling_session(pool: &Arc<dyn MemoryPool>, device_memory: &str) -> (SessionContext, TempDir) {
    let directory = TempDir::new().unwrap();
    let ctx = session_with_files_in(Arc::clone(pool), directory.path());
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    tune(&ctx, device_memory);
    register(&ctx, "t", ROWS);
    register(&ctx, "few", 2_000);
    (ctx, directory)
}

/// Waits until nothing is reserved and no file is left.
async fn nothing_is_left(pool: &Arc<dyn MemoryPool>, directory: &Path, what: &str) {
    for _ in 0..500 {
        if pool.reserved() == 0 && files(directory) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (bytes, files) = (pool.reserved(), files(directory));
    panic!("{bytes} bytes are still reserved, and there are {files} files: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_files_are_left() {
    let pool = greedy(POOL);
    let (ctx, directory) = spilling_session(&pool, "1MB");
    for sql in [QUERIES[0], QUERIES[3]] {
        let (_, plan) = rows(&ctx, sql).await.unwrap();
        assert!(spilled(&plan)[0] > 0, "{sql}");
        drop(plan);
        nothing_is_left(&pool, directory.path(), sql).await;
    }
}

/// A stream that is dropped at its first batch, or before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_files_are_left_of_a_query_that_was_cancelled() {
    let pool = greedy(POOL);
    let (ctx, directory) = spilling_session(&pool, "1MB");
    for sql in [
        "SELECT x.v, few.v FROM (SELECT a.k, a.v, a.s FROM t a JOIN t b ON a.v = b.v) AS x JOIN few ON x.k < few.k",
        "SELECT x.v, t.v FROM t JOIN (SELECT a.k, a.v, b.v AS w, a.s FROM t a JOIN few b ON a.k = b.k) AS x ON x.v > t.v",
    ] {
        let mut most = 0;
        for wait in [5, 50, 150, 5_000] {
            let plan = plan_of(&ctx, sql).await.unwrap();
            let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
            let first = tokio::time::timeout(Duration::from_millis(wait), stream.next()).await;
            if let Ok(Some(first)) = first {
                first.unwrap();
            }
            most = most.max(spilled(&plan)[0]);
            drop((stream, plan));
            nothing_is_left(&pool, directory.path(), sql).await;
        }
        assert!(most > 0, "nothing was spilled: {sql}");
    }
}
