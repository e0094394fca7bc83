//! Aggregates that are more than a fold: variances, medians and percentiles, first and last values. Forced and stock give the same
//! rows, floats up to rounding.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use datafusion::datasource::MemTable;

use crate::answer::{declines, stock};
use crate::groups::{check, tunings};
use crate::session::{Tuning, session};
use crate::tables::{mixed_table, register};

const GROUPS: [&str; 6] = ["", "g", "t", "a, g", "id", "g, t, c"];

/// `aggregates` of `r` by each of [`GROUPS`], and by grouping sets; of several numbers of rows. `of_all` where there are no groups.
async fn by_groups(aggregates: &str, of_all: &str) {
    let ctx = session();
    register(&ctx, "r", &mixed_table(3, 0.2, 0));
    for aggregates in [aggregates, of_all] {
        let sql = format!("SELECT {aggregates} FROM r");
        stock(&ctx, &sql).await.unwrap();
    }
    for (seed, rows) in [0, 1, 31, 150, 700].into_iter().enumerate() {
        register(&ctx, "r", &mixed_table(rows, 0.2, seed as u64));
        for (turn, group) in GROUPS.iter().enumerate() {
            let sql = match group.is_empty() {
                true => format!("SELECT {of_all} FROM r"),
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
    let aggregates = "var(c), var_samp(a), var_sample(b), var_pop(c), var_population(a), stddev(b), stddev_samp(c), stddev_pop(a), \
         count(c), avg(c), var_pop(c) FILTER (WHERE b > 4), stddev(a) FILTER (WHERE t IS NULL), \
         var(c) FILTER (WHERE false), stddev(CAST(c AS REAL) * 2), stddev(a + b)";
    by_groups(aggregates, aggregates).await;
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

/// Values of all types, by orders of which no two rows tie.
#[tokio::test]
async fn first_and_last_values() {
    by_groups(
        "first_value(a ORDER BY id), last_value(a ORDER BY id), first_value(t ORDER BY id DESC), last_value(c ORDER BY b, id), \
         first_value(id ORDER BY a NULLS FIRST, t DESC NULLS LAST, id), last_value(t ORDER BY c NULLS LAST, id DESC), \
         first_value(b ORDER BY b), last_value(a + b ORDER BY b DESC NULLS LAST, a NULLS FIRST), \
         first_value(a ORDER BY id) IGNORE NULLS, last_value(t ORDER BY a, id) IGNORE NULLS, \
         last_value(g ORDER BY id) FILTER (WHERE b > 4), first_value(c ORDER BY id) FILTER (WHERE a < 12 AND t > 'd'), \
         first_value(a > 5 ORDER BY id), last_value(t ORDER BY id) FILTER (WHERE false), \
         first_value(10 / a ORDER BY 7 / b, id) FILTER (WHERE a > 0 AND b > 0), count(*), median(a), sum(b)",
        "first_value(a ORDER BY id), first_value(t ORDER BY id DESC), first_value(a ORDER BY id) IGNORE NULLS, \
         last_value(b ORDER BY b), last_value(a + b ORDER BY b DESC NULLS LAST, a NULLS FIRST), first_value(a > 5 ORDER BY id), \
         first_value(c ORDER BY id) FILTER (WHERE a < 12 AND t > 'd'), first_value(t ORDER BY id) FILTER (WHERE false), \
         last_value(id ORDER BY id) FILTER (WHERE b > 4), first_value(10 / a ORDER BY 7 / b, id) FILTER (WHERE a > 0 AND b > 0)",
    )
    .await;
}

/// There is no room to sort a chunk's rows, nor to number many groups.
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

/// Of rows that tie the first one, where they come as they lie.
#[tokio::test]
async fn ties() {
    let ctx = session();
    let batch = mixed_table(500, 0.2, 9);
    for group in ["g", "a", "b, g"] {
        let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap();
        ctx.deregister_table("r").unwrap();
        ctx.register_table("r", Arc::new(table)).unwrap();
        let sql = format!(
            "SELECT {group}, first_value(id ORDER BY lo), last_value(id ORDER BY hi NULLS FIRST), \
             first_value(id ORDER BY lo DESC) IGNORE NULLS FROM r WHERE id % 5 > 0 GROUP BY {group}"
        );
        // Several partitions have no first row.
        let tunings = tunings(0, 40).filter(|tuning| tuning.partitions == 1);
        check(&ctx, &sql, tunings).await;
    }
}

#[tokio::test]
async fn what_ties_may_show_is_left_to_datafusion() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.2, 1));
    let tie = "depends on which of the rows that tie in its ORDER BY is first: add keys that make the order unique";
    for (query, reason) in [
        ("last_value(a ORDER BY b) FROM r", tie),
        ("last_value(a > 1 ORDER BY b) FROM r GROUP BY g", tie),
        (
            "first_value(r.a ORDER BY s.b) FROM r JOIN r AS s ON r.a > s.a",
            tie,
        ),
        (
            "first_value(a ORDER BY b) FROM (SELECT a, b FROM r UNION ALL SELECT b, a FROM r)",
            tie,
        ),
        ("first_value(a) FROM r", "has no ORDER BY"),
        (
            "first_value(DISTINCT a ORDER BY a) FROM r",
            "has DISTINCT, which is not implemented on a device",
        ),
    ] {
        let sql = format!("SELECT {query}");
        declines(&ctx, &sql, "BowtieAggregateExec", reason).await;
    }
}

/// Whatever the order in which rows come.
#[tokio::test]
async fn orders_that_decide() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(80, 0.2, 2));
    for sql in [
        "SELECT first_value(r.a ORDER BY r.a), last_value(s.b + s.a ORDER BY s.a, s.b) FROM r JOIN r AS s ON r.a > s.a GROUP BY s.g",
        "SELECT DISTINCT ON (g) g, a, b FROM r ORDER BY g, a, b",
        "SELECT last_value(a + b ORDER BY a, t, b) FROM r",
    ] {
        check(&ctx, sql, tunings(3, 8)).await;
    }
}
