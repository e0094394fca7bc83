//! Variances and standard deviations.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};

use crate::aggregate::check::{by_groups, check, tunings};
use crate::support::session::session;
use crate::support::tables::register;

#[tokio::test]
async fn variances() {
    let aggregates = "var(c), var_samp(a), var_sample(b), var_pop(c), var_population(a), stddev(b), stddev_samp(c), stddev_pop(a), \
         count(c), avg(c), var_pop(c) FILTER (WHERE b > 4), stddev(a) FILTER (WHERE t IS NULL), \
         var(c) FILTER (WHERE false), stddev(CAST(c AS REAL) * 2), stddev(a + b)";
    by_groups(aggregates, aggregates).await;
}

/// Means that are large compared with the deviations from them.
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
