//! Aggregates that collect the values of a group: medians and percentiles.

use crate::aggregate::check::{by_groups, check};
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

#[tokio::test]
async fn medians_and_percentiles() {
    let aggregates = "median(a), median(c), median(CAST(b AS DECIMAL(9, 2))), median(CAST(a AS DECIMAL(40, 1)) + 1), median(CAST(c AS REAL) * 3), \
         median(DISTINCT CAST(a AS DECIMAL(12, 2))), median(c) FILTER (WHERE b > 4), median(a + b) FILTER (WHERE false), \
         percentile_cont(c, 0.3), percentile_cont(0.9) WITHIN GROUP (ORDER BY a), \
         percentile_cont(0.25) WITHIN GROUP (ORDER BY c DESC), quantile_cont(b, 0.5) FILTER (WHERE a < 12), \
         percentile_cont(a, 0), percentile_cont(a, 1), count(*), max(t), count(DISTINCT t), stddev(a)";
    by_groups(aggregates, aggregates).await;
}

#[tokio::test]
async fn of_distinct_values() {
    let aggregates = "var(DISTINCT c), var_pop(DISTINCT a), var(b), median(DISTINCT c), percentile_cont(DISTINCT c, 0.3), \
         avg(DISTINCT a) FILTER (WHERE b > 4), count(DISTINCT c)";
    by_groups(aggregates, aggregates).await;
}

/// The device cannot hold what sorting a chunk takes, nor ids of many groups.
#[tokio::test]
async fn more_rows_than_the_device_holds() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60_000, 0.1, 5));
    for (key, chunk_rows) in [("g", "auto"), ("id % 20000", "auto"), ("b", "9000")] {
        let tuning = Tuning {
            device_memory: "1MB",
            chunk_rows,
            ..Tuning::PLAIN
        };
        let sql = format!(
            "SELECT {key}, var(c), stddev_pop(a), median(a), percentile_cont(c, 0.4), first_value(t ORDER BY id DESC), \
             last_value(b ORDER BY id), count(DISTINCT a) FROM r GROUP BY {key}"
        );
        check(&ctx, &sql, [tuning].into_iter()).await;
    }
}
