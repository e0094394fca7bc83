//! Aggregates that are more than a fold: variances, medians and percentiles, first and last values. Forced and stock give the same
//! rows, floats up to rounding.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};

use crate::answer::stock;
use crate::groups::{check, is_taken, tunings};
use crate::session::session;
use crate::tables::{mixed_table, register};

const GROUPS: [&str; 6] = ["", "g", "t", "a, g", "id", "g, t, c"];

/// `aggregates` of `r` by each of [`GROUPS`], and by grouping sets; of several numbers of rows.
async fn by_groups(aggregates: &str) {
    let ctx = session();
    register(&ctx, "r", &mixed_table(3, 0.2, 0));
    let sql = format!("SELECT {aggregates} FROM r");
    stock(&ctx, &sql).await.unwrap();
    for (seed, rows) in [0, 1, 31, 150, 700].into_iter().enumerate() {
        register(&ctx, "r", &mixed_table(rows, 0.2, seed as u64));
        for (turn, group) in GROUPS.iter().enumerate() {
            let sql = match group.is_empty() {
                true => format!("SELECT {aggregates} FROM r"),
                false => format!("SELECT {group}, {aggregates} FROM r GROUP BY {group}"),
            };
            check(&ctx, &sql, tunings(turn * 7 + seed, 4)).await;
        }
        for (turn, sets) in ["ROLLUP (g, b)", "GROUPING SETS ((g), (b, g), ())"]
            .iter()
            .enumerate()
        {
            let sql = format!("SELECT g, b, grouping(b), {aggregates} FROM r GROUP BY {sets}");
            check(&ctx, &sql, tunings(turn * 5 + seed, 4)).await;
        }
    }
}

#[tokio::test]
async fn variances() {
    by_groups(
        "var(c), var_samp(a), var_sample(b), var_pop(c), var_population(a), stddev(b), stddev_samp(c), stddev_pop(a), \
         count(c), avg(c), var_pop(c) FILTER (WHERE b > 4), stddev(a) FILTER (WHERE t IS NULL), \
         var(c) FILTER (WHERE false), stddev(CAST(c AS REAL) * 2), stddev(a + b)",
    )
    .await;
}

/// Means that are large beside the deviations from them.
#[tokio::test]
async fn variances_far_from_zero() {
    let ctx = session();
    let n = 3000;
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..n).map(|i| i % 7)));
    let values = (0..n).map(|i| 1e3 * (i % 7) as f64 + (i * i % 101) as f64);
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    let batch = RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap();
    register(&ctx, "r", &batch);
    for sql in [
        "SELECT k, var(v), stddev_pop(v) FROM r GROUP BY k",
        "SELECT var_pop(v), stddev(v) FROM r",
    ] {
        check(&ctx, sql, tunings(3, 8)).await;
    }
}

#[tokio::test]
async fn medians_and_percentiles() {
    by_groups(
        "median(a), median(c), median(CAST(b AS DECIMAL(9, 2))), median(CAST(a AS DECIMAL(40, 1)) + 1), median(CAST(c AS REAL) * 3), \
         median(DISTINCT CAST(a AS DECIMAL(12, 2))), median(c) FILTER (WHERE b > 4), median(a + b) FILTER (WHERE false), \
         percentile_cont(c, 0.3), percentile_cont(0.9) WITHIN GROUP (ORDER BY a), \
         percentile_cont(0.25) WITHIN GROUP (ORDER BY c DESC), quantile_cont(b, 0.5) FILTER (WHERE a < 12), \
         percentile_cont(a, 0), percentile_cont(a, 1), count(*), max(t), count(DISTINCT t), stddev(a)",
    )
    .await;
}

#[tokio::test]
async fn distinct_variances_are_left_to_datafusion() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(40, 0.2, 4));
    let sql = "SELECT g, var(DISTINCT c), var(b) FROM r GROUP BY g";
    assert!(!is_taken(&ctx, sql, tunings(0, 1)).await);
}
