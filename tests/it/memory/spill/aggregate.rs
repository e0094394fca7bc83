//! Groups that spill.

use std::sync::Arc;
use std::time::Duration;

use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;

use crate::memory::spill::check::{MIB, check, register, rows};
use crate::support::pool::{greedy, released_within};
use crate::support::session::{session_without_files, set};

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

/// States of DataFusion's own accumulators.
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
        // With one set of keys the input is partitioned, and so its rows spill.
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

/// A fair pool, in which each spilling consumer has a share.
#[tokio::test]
async fn a_fair_pool() {
    let sql = "SELECT count(*), sum(n), sum(mean) FROM (
      SELECT k, count(*) AS n, CAST(avg(v) AS BIGINT) AS mean FROM t GROUP BY k)";
    check(sql, 600_000, Arc::new(FairSpillPool::new(16 * MIB))).await;
}

/// So small a pool that the groups of a spill file are spilled again.
#[tokio::test]
async fn groups_that_are_spilled_again() {
    let sql = "SELECT count(*), sum(n), sum(total), sum(length(text)) FROM (
      SELECT s, k, count(*) AS n, sum(v) AS total, max(s) AS text FROM t GROUP BY s, k)";
    check(sql, 400_000, greedy(MIB)).await;
}

/// Fused with a join, with pairs and without.
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

/// Where spilling is disabled the query fails, and says why.
#[tokio::test]
async fn no_files_are_allowed() {
    let pool = greedy(4 * MIB);
    let ctx = session_without_files(Arc::clone(&pool));
    set(&ctx, "bowtie.offload", "force");
    // Stored columns are no rows of the pool.
    set(&ctx, "bowtie.cache", "off");
    register(&ctx, "t", 400_000);
    let sql = "SELECT k, count(*), sum(v) FROM t GROUP BY k";
    let error = rows(&ctx, sql).await.unwrap_err();
    assert!(
        matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)),
        "{error}"
    );
    assert!(error.to_string().contains("Bowtie"), "{error}");
    // Another thread may release a prefetched chunk.
    released_within(Duration::from_secs(5), &pool, sql).await;
}
