//! Partitions of large tables under a small device and a small memory pool.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;

use crate::partition::check::run_partitioned;
use crate::support::answer::{plan_of, stock};
use crate::support::compare::similar_rows;
use crate::support::metrics::Counts;
use crate::support::pool::{polled_for, released_within};
use crate::support::session::{session, session_in, session_without_files, set};
use crate::support::tuning::Tuning;

/// Joins and groups of large tables, whose rows exceed the device and the memory pool.
const LARGE: [&str; 5] = [
    "SELECT count(*), sum(r.v), sum(s.w), sum(length(r.t)) FROM r JOIN s ON r.k = s.k",
    "SELECT count(*), sum(r.v), sum(s.w), count(r.k), count(s.k) FROM r FULL JOIN s ON r.k = s.k AND r.v > s.w",
    "SELECT r.v % 10 AS g, count(*), sum(s.w) FROM r LEFT JOIN s ON r.k = s.k AND r.t <> s.t GROUP BY r.v % 10",
    "SELECT sum(n), max(v), count(*) FROM (SELECT k, t, count(*) AS n, sum(w) AS v FROM s GROUP BY k, t)",
    "SELECT count(*), sum(m.n) FROM (SELECT k, avg(w) AS n FROM s GROUP BY k) AS m JOIN r ON r.k = m.k",
];

async fn large_tables(ctx: &SessionContext) {
    for (name, value, rows, keys) in [("r", "v", 40_000, 30_011), ("s", "w", 150_000, 35_023)] {
        let sql = format!(
            "CREATE TABLE {name} AS SELECT nullif(i * 7919 % {keys}, 17) AS k, i AS {value}, 'text ' || (i % 1000) AS t
             FROM (SELECT value AS i FROM generate_series(1, {rows}))"
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
}

fn small(ctx: &SessionContext, partitions: usize) {
    let tuning = Tuning {
        device_memory: "1MB",
        partitions,
        ..Tuning::PLAIN
    };
    tuning.apply(ctx);
    set(ctx, "datafusion.optimizer.join_reordering", "false");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_devices_and_pools() {
    let free = session();
    large_tables(&free).await;
    let mut expected = vec![];
    for sql in LARGE {
        expected.push(stock(&free, sql).await.unwrap());
    }
    for (pool, files) in [
        (usize::MAX, true),
        (24 << 20, true),
        (3 << 20, true),
        (40 << 20, false),
    ] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(pool));
        let ctx = match files {
            true => session_in(Arc::clone(&pool)),
            false => session_without_files(Arc::clone(&pool)),
        };
        // The pool does not count the tables.
        large_tables(&ctx).await;
        for (sql, expected) in LARGE.iter().zip(&expected) {
            for partitions in [1, 4] {
                small(&ctx, partitions);
                let (given, parts) = run_partitioned(&ctx, sql).await;
                // Input is partitioned only where it fits the pool, or may spill.
                assert_eq!(parts > 0, files, "{sql}\n{}", given.plan);
                similar_rows(expected, &given).unwrap_or_else(|e| panic!("{sql}\n{e}"));
                assert_eq!(pool.reserved(), 0, "{sql}");
            }
        }
    }
}

/// A dropped stream releases all memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
    let ctx = session_in(Arc::clone(&pool));
    large_tables(&ctx).await;
    small(&ctx, 2);
    set(&ctx, "bowtie.offload", "force");
    for sql in [
        "SELECT r.v, s.w FROM r JOIN s ON r.k = s.k",
        "SELECT k, t, count(*) FROM s GROUP BY k, t",
    ] {
        let (mut most_reserved, mut partitions) = (0, 0);
        // The last one is dropped at its first batch.
        for wait in [1, 20, 60, 200, 60_000] {
            let plan = plan_of(&ctx, sql).await.unwrap();
            let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
            let what = format!("{sql} after {wait} ms");
            polled_for(Duration::from_millis(wait), &mut stream, &what).await;
            most_reserved = most_reserved.max(pool.reserved());
            partitions = partitions.max(Counts::of(&plan).get("partitions"));
            drop((stream, plan));
            released_within(Duration::from_secs(10), &pool, &what).await;
        }
        assert!(most_reserved > 0, "nothing was reserved: {sql}");
        assert!(partitions > 0, "nothing was partitioned: {sql}");
    }
}
