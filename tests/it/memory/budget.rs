//! The device's budget bounds what is reserved, however large the output.

use std::sync::Arc;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::support::answer::{forced, plan_of, shown, stock};
use crate::support::compare::same_rows;
use crate::support::session::{session, session_in, set};
use crate::support::tables::{permuted_table, register_whole};
use crate::support::tuning::Tuning;

const LIMIT: usize = 1 << 20;

/// The greatest value of a metric in the plan; `None` when no node has it.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> Option<usize> {
    let own = plan
        .metrics()
        .and_then(|metrics| metrics.sum_by_name(name).map(|value| value.as_usize()));
    let below = plan.children().into_iter().filter_map(|c| metric(c, name));
    own.into_iter().chain(below).max()
}

fn tight(ctx: &SessionContext) {
    Tuning::PLAIN.apply(ctx);
    set(ctx, "bowtie.offload", "force");
    set(ctx, "bowtie.device_memory", "1MB");
}

/// Runs `sql` under 1 MB and drops each batch; returns rows, bytes, and the peak of reserved device memory.
async fn run_tight(ctx: &SessionContext, sql: &str) -> (usize, usize, usize) {
    tight(ctx);
    let plan = plan_of(ctx, sql).await.unwrap();
    assert!(shown(&plan).contains("Bowtie"), "{}", shown(&plan));
    let mut stream =
        datafusion::physical_plan::execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
    let (mut rows, mut bytes) = (0, 0);
    while let Some(batch) = stream.next().await {
        let batch = batch.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        rows += batch.num_rows();
        bytes += batch
            .columns()
            .iter()
            .map(|c| c.to_data().get_slice_memory_size().unwrap())
            .sum::<usize>();
    }
    let peak = metric(&plan, "peak_device_bytes").unwrap();
    assert!(peak <= LIMIT, "{peak} bytes were leased: {sql}");
    assert!(peak > 0, "nothing was leased: {sql}");
    (rows, bytes, peak)
}

#[tokio::test]
async fn a_result_of_a_hundred_times_the_budget() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
    let ctx = session_in(Arc::clone(&pool));
    register_whole(&ctx, "r", permuted_table(4000, 0));
    register_whole(&ctx, "s", permuted_table(3000, 0));
    let sql = "SELECT r.id AS i, s.id AS j FROM r JOIN s ON r.a > s.a";
    let (rows, bytes, _) = run_tight(&ctx, sql).await;
    // a is 0 .. n in both.
    assert_eq!(rows, 3000 * 2999 / 2 + 1000 * 3000);
    assert!(bytes > 100 * LIMIT, "{bytes}");
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test]
async fn strategies_and_join_types_stay_within_the_budget() {
    let ctx = session();
    register_whole(&ctx, "r", permuted_table(4_000, 0));
    register_whole(&ctx, "s", permuted_table(3_000, 0));
    for (sql, rows) in [
        (
            "SELECT r.id FROM r LEFT SEMI JOIN s ON r.a < s.a AND r.id > s.id + 3990",
            None,
        ),
        (
            "SELECT r.id, s.id AS j FROM r FULL JOIN s ON r.a < s.a - 2990",
            None,
        ),
        (
            "SELECT r.id, s.id AS j FROM r JOIN s ON r.a = s.a AND r.id <> s.id",
            None,
        ),
        (
            "SELECT count(*), sum(s.id) FROM r JOIN s ON r.a > s.a",
            Some(1),
        ),
        (
            "SELECT r.id, count(*), sum(s.id), min(s.a) FROM r LEFT JOIN s ON r.a > s.a GROUP BY r.id",
            Some(4_000),
        ),
    ] {
        let stock = stock(&ctx, sql).await.unwrap();
        let stock_rows: usize = stock.batches.iter().map(|b| b.num_rows()).sum();
        let (given, _, _) = run_tight(&ctx, sql).await;
        assert_eq!(given, rows.unwrap_or(stock_rows), "{sql}");
    }
}

/// Wide text: output pieces are sized before their bytes are known.
#[tokio::test]
async fn wide_rows() {
    for (rows, width) in [
        (400, 500),
        (120, 5_000),
        (24, 30_000),
        (12, 60_000),
        (6, 150_000),
    ] {
        let ctx = session();
        register_whole(&ctx, "r", permuted_table(rows, width));
        register_whole(&ctx, "s", permuted_table(rows, width));
        register_whole(&ctx, "narrow", permuted_table(rows, 0));
        let mut failures = vec![];
        for sql in [
            "SELECT r.t AS rt, s.t AS st FROM r JOIN s ON r.a > s.a",
            "SELECT n.id, s.t AS st FROM narrow n JOIN s ON n.a > s.a",
            "SELECT r.t AS rt, n.id FROM r JOIN narrow n ON r.a > n.a",
            "SELECT r.t AS rt, s.t AS st FROM r FULL JOIN s ON r.a > s.a + 3",
            "SELECT r.id, s.t AS st FROM r JOIN s ON r.t > s.t",
            "SELECT r.id, s.id AS j FROM r JOIN s ON r.t = s.t",
            "SELECT r.id, min(s.t), max(s.t) FROM r JOIN s ON r.a > s.a GROUP BY r.id",
            "SELECT r.id, min(s.t) FROM r JOIN s ON r.a > s.a AND r.id <> s.id GROUP BY r.id",
        ] {
            let stock = stock(&ctx, sql).await.unwrap();
            tight(&ctx);
            let tuning = Tuning {
                device_memory: "1MB",
                ..Tuning::PLAIN
            };
            match forced(&ctx, sql, &tuning).await {
                Ok(given) => same_rows(&stock, &given).unwrap(),
                Err(error) => failures.push(format!("{width} bytes a row: {sql}\n{error}")),
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

/// Joins above one another, and concurrent ones, share the budget.
#[tokio::test]
async fn several_joins_at_once() {
    let ctx = session();
    register_whole(&ctx, "r", permuted_table(1_500, 0));
    register_whole(&ctx, "s", permuted_table(1_500, 0));
    register_whole(&ctx, "u", permuted_table(1_500, 0));
    for sql in [
        "SELECT r.id, u.id AS k FROM r JOIN s ON r.a BETWEEN s.a - 2 AND s.a + 2 JOIN u ON s.id BETWEEN u.a - 1 AND u.a + 1",
        "SELECT r.id FROM r JOIN s ON r.a BETWEEN s.a - 9 AND s.a UNION ALL SELECT s.id FROM s JOIN u ON s.a BETWEEN u.a - 9 AND u.a",
        "SELECT count(*) FROM r JOIN s ON r.a BETWEEN s.a - 3 AND s.a JOIN u ON s.id > u.a",
    ] {
        let stock = stock(&ctx, sql).await.unwrap();
        let tuning = Tuning {
            device_memory: "1MB",
            ..Tuning::PLAIN
        };
        match forced(&ctx, sql, &tuning).await {
            Ok(given) => same_rows(&stock, &given).unwrap(),
            Err(error) => panic!("{sql}\n{error}"),
        }
    }
}

/// Text of a megabyte, many duplicates of a key, and NULLs, joined and grouped under every budget.
#[tokio::test]
async fn adverse_keys_under_small_budgets() {
    let ctx = session();
    set(&ctx, "bowtie.offload", "off");
    for (name, rows) in [
        (
            "huge",
            "value % 9 AS k, value AS v, concat(repeat('x', 1000000), CAST(value % 5 AS VARCHAR)) AS t FROM generate_series(1, 12)",
        ),
        (
            "dup",
            "7 AS k, value AS v, 'the same text' AS t FROM generate_series(1, 50000)",
        ),
        (
            "nulls",
            "CAST(NULL AS BIGINT) AS k, value AS v, CAST(NULL AS VARCHAR) AS t FROM generate_series(1, 30000)",
        ),
        (
            "mixed",
            "value * 7919 % 20000 AS k, value AS v, concat('text ', CAST(value % 9000 AS VARCHAR)) AS t FROM generate_series(1, 40000)",
        ),
    ] {
        let sql = format!("CREATE TABLE {name} AS SELECT {rows}");
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    for sql in [
        "SELECT a.k, b.k AS j, length(b.t), length(a.t) FROM huge a FULL JOIN huge b ON a.t = b.t AND a.v < b.v",
        "SELECT k, length(t), count(*), length(min(t)), count(DISTINCT t) FROM huge GROUP BY ROLLUP (k, t)",
        "SELECT count(*), sum(a.v), sum(huge.v) FROM dup a JOIN huge ON a.k = huge.k",
        "SELECT k, t, count(*), sum(v), median(v) FROM dup GROUP BY GROUPING SETS ((k), (t), ())",
        "SELECT count(*), sum(a.v), sum(b.v) FROM nulls a FULL JOIN nulls b ON a.k = b.k",
        "SELECT k, t, count(*), sum(v) FROM nulls GROUP BY CUBE (k, t)",
        "SELECT count(*), sum(n), sum(length(m)) FROM (SELECT k, count(DISTINCT t) AS n, max(t) AS m FROM mixed GROUP BY k)",
        // Resident groups must leave memory to the projection below them.
        "SELECT count(*), sum(n), sum(m) FROM (SELECT k, w, count(*) AS n, max(u) AS m FROM \
         (SELECT a.k, b.v AS w, a.v + b.v AS u FROM mixed a JOIN mixed b ON a.v = b.v) AS x GROUP BY k, w)",
    ] {
        let stock = stock(&ctx, sql).await.unwrap();
        for (device_memory, chunk_rows) in [("1MB", "auto"), ("1MB", "500"), ("256MB", "auto")] {
            let tuning = Tuning {
                device_memory,
                chunk_rows,
                ..Tuning::PLAIN
            };
            let given = forced(&ctx, sql, &tuning).await;
            let given = given.unwrap_or_else(|error| panic!("{sql}\n{tuning:?}\n{error}"));
            same_rows(&stock, &given).unwrap();
        }
    }
}
