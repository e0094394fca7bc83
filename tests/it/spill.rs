//! What DataFusion's memory pool has no room for goes to files, and comes back: the same rows as without a limit.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;

use crate::answer::{plan_of, shown};
use crate::session::{Tuning, session, session_in, session_without_files, set};

const MIB: usize = 1 << 20;

mod beside;
mod sessions;
mod staged;

/// `t(k, v, s)` of so many rows, in pieces of 8,000; each key has two or three.
fn register(ctx: &SessionContext, name: &str, rows: i64) {
    let keys = rows * 2 / 5;
    let piece = |from: i64| {
        let ids = from..(from + 8_000).min(rows);
        let ints = |f: &dyn Fn(i64) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(ids.clone().map(f)))
        };
        let text: StringArray = ids
            .clone()
            .map(|i| (i % 11 > 0).then(|| format!("text {}", i * 7919 % rows)))
            .collect();
        RecordBatch::try_from_iter([
            ("k", ints(&|i| i * 7919 % keys)),
            ("v", ints(&|i| i * 31 % 1_000_003)),
            ("s", Arc::new(text) as ArrayRef),
        ])
        .unwrap()
    };
    let pieces: Vec<_> = (0..rows).step_by(8_000).map(piece).collect();
    let table = MemTable::try_new(pieces[0].schema(), vec![pieces]).unwrap();
    ctx.register_table(name, Arc::new(table)).unwrap();
}

/// Files, bytes and rows that the nodes of a plan spilled.
fn spilled(plan: &Arc<dyn ExecutionPlan>) -> [usize; 3] {
    let own = plan.metrics().unwrap_or_default();
    let own = [own.spill_count(), own.spilled_bytes(), own.spilled_rows()];
    let mut all = own.map(Option::unwrap_or_default);
    for below in plan.children().into_iter().map(spilled) {
        for (all, below) in all.iter_mut().zip(below) {
            *all += below;
        }
    }
    all
}

async fn rows(ctx: &SessionContext, sql: &str) -> Result<(String, Arc<dyn ExecutionPlan>)> {
    let plan = plan_of(ctx, sql).await?;
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    let rows = arrow::util::pretty::pretty_format_batches(&batches)?;
    Ok((rows.to_string(), plan))
}

/// Runs the query under `pool`, by force, where it must spill; and checks its rows.
async fn check(sql: &str, table_rows: i64, pool: Arc<dyn MemoryPool>) {
    check_as(sql, table_rows, pool, |_| ()).await;
}

async fn check_as(
    sql: &str,
    table_rows: i64,
    pool: Arc<dyn MemoryPool>,
    tune: impl Fn(&SessionContext),
) {
    let plan = compare(sql, table_rows, pool, tune).await;
    let shown = DisplayableExecutionPlan::with_metrics(plan.as_ref());
    let shown = shown.indent(false).to_string();
    assert!(
        spilled(&plan).iter().all(|spilled| *spilled > 0),
        "{sql}\n{shown}"
    );
}

/// Runs the query under `pool`, by force, and checks its rows and that it gives all memory back.
async fn compare(
    sql: &str,
    table_rows: i64,
    pool: Arc<dyn MemoryPool>,
    tune: impl Fn(&SessionContext),
) -> Arc<dyn ExecutionPlan> {
    let free = session();
    set(&free, "bowtie.offload", "off");
    let limited = session_in(Arc::clone(&pool));
    Tuning::PLAIN.apply(&limited);
    set(&limited, "bowtie.offload", "force");
    for ctx in [&free, &limited] {
        tune(ctx);
        register(ctx, "t", table_rows);
        register(ctx, "few", 2_000);
    }
    let (expected, _) = rows(&free, sql).await.unwrap();
    let (given, plan) = rows(&limited, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"));
    assert_eq!(expected, given, "{sql}\n{}", shown(&plan));
    assert_eq!(pool.reserved(), 0, "{sql}");
    plan
}

fn greedy(bytes: usize) -> Arc<dyn MemoryPool> {
    Arc::new(GreedyMemoryPool::new(bytes))
}

/// A million groups of integers, text and both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups() {
    for keys in ["k", "k % 1000, s"] {
        let sql = format!(
            "SELECT count(*), sum(n), sum(total), sum(n * total), min(least), sum(length(text)) FROM (
               SELECT {keys}, count(*) AS n, sum(v) AS total, min(v) AS least, max(s) AS text FROM t GROUP BY {keys})"
        );
        check(&sql, 1_200_000, greedy(24 * MIB)).await;
    }
}

/// Short text is grouped as numbers, chunk by chunk, and spilled as text.
#[tokio::test]
async fn groups_by_short_text() {
    let sql = "SELECT count(*), sum(n), sum(total), max(c) FROM (
      SELECT CAST(k AS VARCHAR) AS c, substr(s, 6, 1) AS d, count(*) AS n, sum(v) AS total FROM t GROUP BY c, d)";
    check(sql, 200_000, greedy(8 * MIB)).await;
}

/// States that are folded by DataFusion's accumulators alone.
#[tokio::test]
async fn states_of_lists_and_rows() {
    for aggregate in [
        "median(v)",
        "count(DISTINCT v) + count(DISTINCT s)",
        "sum(DISTINCT v) + count(DISTINCT s)",
        "first_value(v ORDER BY v)",
        "avg(v)",
        "stddev(CAST(v % 7 AS DOUBLE))",
    ] {
        // The rows of one set of keys go to parts, and so to files.
        for (keys, pool) in [("GROUPING SETS ((k), (k, v))", 4 * MIB), ("k", MIB)] {
            let sql = format!(
                "SELECT count(*), sum(CAST(x AS BIGINT)) FROM (SELECT k, {aggregate} AS x FROM t GROUP BY {keys})"
            );
            check(&sql, 100_000, greedy(pool)).await;
        }
    }
}

#[tokio::test]
async fn distinct_rows() {
    let sql = "SELECT count(*), sum(v), sum(length(s)) FROM (SELECT DISTINCT v, s FROM t)";
    check(sql, 300_000, greedy(12 * MIB)).await;
}

#[tokio::test]
async fn grouping_sets() {
    let sql = "SELECT count(*), sum(n), sum(total) FROM (
      SELECT k, v % 100 AS w, count(*) AS n, sum(v) AS total FROM t GROUP BY ROLLUP (k, v % 100))";
    check(sql, 200_000, greedy(8 * MIB)).await;
}

/// A pool that gives those who can spill a share each.
#[tokio::test]
async fn a_fair_pool() {
    let sql = "SELECT count(*), sum(n), sum(mean) FROM (
      SELECT k, count(*) AS n, CAST(avg(v) AS BIGINT) AS mean FROM t GROUP BY k)";
    check(sql, 600_000, Arc::new(FairSpillPool::new(16 * MIB))).await;
}

/// So small a pool that the groups of a file are spilled again.
#[tokio::test]
async fn groups_that_are_spilled_again() {
    let sql = "SELECT count(*), sum(n), sum(total), sum(length(text)) FROM (
      SELECT s, k, count(*) AS n, sum(v) AS total, max(s) AS text FROM t GROUP BY s, k)";
    check(sql, 400_000, greedy(MIB)).await;
}

/// Fused with a join, by pairs and without.
#[tokio::test]
async fn groups_above_a_join() {
    let near = "t.v % 60000 < few.v AND t.v % 60000 > few.v - 900";
    for (aggregates, more) in [
        ("count(*) AS n, sum(few.v) AS total", ""),
        (
            "count(*) AS n, sum(few.v) AS total",
            "AND (t.v + few.v) % 3 = 1",
        ),
    ] {
        let sql = format!(
            "SELECT count(*), sum(n), sum(total) FROM (
               SELECT t.k, t.s, {aggregates} FROM t JOIN few ON {near} {more} GROUP BY t.k, t.s)"
        );
        check(&sql, 50_000, greedy(2 * MIB)).await;
    }
}

/// The left side of a join, by each way to its rows.
#[tokio::test]
async fn left_sides_of_joins() {
    for (columns, join) in [
        ("t.k, t.v, few.v AS w, t.s", "t JOIN few ON t.k = few.k"),
        (
            "t.k, t.v, few.v AS w, t.s",
            "t JOIN few ON t.k = few.k AND t.v <> few.v",
        ),
        (
            "t.k, t.v, few.v AS w, t.s",
            "t LEFT JOIN few ON t.k = few.k",
        ),
        (
            "t.k, t.v, few.v AS w, t.s",
            "t FULL JOIN few ON t.v BETWEEN few.v AND few.v + 3",
        ),
        (
            "t.k, t.v, 0 AS w, t.s",
            "t LEFT ANTI JOIN few ON t.v < few.v AND t.v > few.v - 9",
        ),
        (
            "t.k, t.v, few.v AS w, t.s",
            "t JOIN few ON t.v + 1 < few.v AND t.v > few.v - 30",
        ),
    ] {
        let sql = format!(
            "SELECT count(*), sum(k), sum(v), sum(w), sum(length(s)), sum(k % 1000 * (w % 1000))
             FROM (SELECT {columns} FROM {join})"
        );
        // Sides must not be swapped: the long one is the left one.
        check_as(&sql, 100_000, greedy(2 * MIB), |ctx| {
            set(ctx, "datafusion.optimizer.join_reordering", "false")
        })
        .await;
    }
}

/// Rows of either side of semi, anti and mark joins, whose keys are read from files more than once.
#[tokio::test]
async fn either_side_of_semi_joins() {
    for (from, both) in [
        ("t LEFT SEMI JOIN few ON t.k = few.k", false),
        ("t LEFT ANTI JOIN few ON t.v = few.v", false),
        ("t a RIGHT SEMI JOIN t ON a.v = t.k", true),
        ("t a RIGHT ANTI JOIN t ON a.v = t.k", true),
        (
            "t WHERE EXISTS (SELECT 1 FROM few WHERE few.k = t.k) OR t.v % 7 = 1",
            false,
        ),
        ("t WHERE t.k NOT IN (SELECT v FROM few)", false),
    ] {
        let sql = format!(
            "SELECT count(*), sum(k), sum(v), sum(length(s)), sum(k % 1000 * (v % 1000))
             FROM (SELECT t.k, t.v, t.s FROM {from})"
        );
        for device_memory in ["1MB", "256MB"] {
            let tune = |ctx: &SessionContext| {
                set(ctx, "datafusion.optimizer.join_reordering", "false");
                set(ctx, "bowtie.device_memory", device_memory);
            };
            match both {
                true => drop(compare(&sql, 100_000, greedy(MIB), tune).await),
                false => check_as(&sql, 100_000, greedy(MIB), tune).await,
            }
        }
    }
}

/// A join above a join, whose left sides share the pool; and an aggregation fused with one.
#[tokio::test]
async fn left_sides_that_share_a_pool() {
    for sql in [
        "SELECT count(*), sum(a.v), sum(b.v), sum(c.v) FROM t a JOIN (t b JOIN few c ON b.k = c.k) ON a.v = b.v",
        "SELECT count(*), sum(few.v), max(few.k) FROM t JOIN few ON t.v > few.v",
    ] {
        check_as(sql, 100_000, greedy(MIB / 2), |ctx| {
            set(ctx, "datafusion.optimizer.join_reordering", "false")
        })
        .await;
    }
}

/// Without files it fails as before, and says why.
#[tokio::test]
async fn no_files_are_allowed() {
    let pool = greedy(4 * MIB);
    let ctx = session_without_files(Arc::clone(&pool));
    set(&ctx, "bowtie.offload", "force");
    register(&ctx, "t", 400_000);
    let sql = "SELECT k, count(*), sum(v) FROM t GROUP BY k";
    let error = rows(&ctx, sql).await.unwrap_err();
    assert!(
        matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)),
        "{error}"
    );
    assert!(error.to_string().contains("Bowtie"), "{error}");
    // A chunk that was read ahead may be given back by another thread.
    for _ in 0..500 {
        if pool.reserved() == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{} bytes are still reserved", pool.reserved());
}
