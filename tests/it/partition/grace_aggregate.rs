//! Aggregations of hash-partitioned inputs.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use crate::partition::check::{SHORT, check, run_partitioned};
use crate::support::answer::{plan_of, shown, stock};
use crate::support::compare::similar_rows;
use crate::support::session::{device, session, set};
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

/// On the host, where `auto` groups by runs, rows in order of their keys stay together.
#[tokio::test]
async fn keys_in_order_are_not_partitioned() {
    let ctx = session();
    let column = |of: fn(i64) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..900).map(of)))
    };
    let columns = [
        ("k", column(|i| i / 3)),
        ("d", column(|i| -i)),
        ("v", column(|i| i * 7919 % 101)),
    ];
    ctx.register_batch("o", RecordBatch::try_from_iter(columns).unwrap())
        .unwrap();
    for (keys, in_order) in [("k", true), ("k, d", true), ("d", true), ("v, k", false)] {
        let sql = format!("SELECT {keys}, count(*), sum(v), min(v), avg(d) FROM o GROUP BY {keys}");
        let stock = stock(&ctx, &sql).await.unwrap();
        SHORT.apply(&ctx);
        let (given, parts) = run_partitioned(&ctx, &sql).await;
        similar_rows(&stock, &given).unwrap();
        if device() == "host" {
            assert_eq!(parts == 0, in_order, "{sql}\n{}", given.plan);
        }
    }
}

#[tokio::test]
async fn groups() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(400, 0.1, 5));
    for sql in [
        "SELECT a, b, count(*), sum(lo), min(c), max(t), avg(c), bool_and(g > 1) FROM r GROUP BY a, b",
        "SELECT t, a, stddev(c), var_pop(lo), median(hi), approx_distinct(b) FROM r GROUP BY t, a",
        "SELECT a, t, count(DISTINCT b), sum(DISTINCT lo), array_agg(DISTINCT g ORDER BY g) FROM r GROUP BY a, t",
        "SELECT c, lo, first_value(id ORDER BY hi, id), last_value(t ORDER BY id), bit_xor(b) FROM r GROUP BY c, lo",
        "SELECT DISTINCT a, b, g FROM r",
        "SELECT a, lo, sum(b) FILTER (WHERE g = 2) FROM r GROUP BY a, lo HAVING count(*) > 1",
        "SELECT x.a, x.n, r.t FROM (SELECT a, b, count(*) AS n FROM r GROUP BY a, b) AS x JOIN r ON x.b = r.b AND x.a = r.a",
        "SELECT a, b FROM r INTERSECT SELECT b, a FROM r",
        "SELECT n, count(*) FROM (SELECT a, b, c, count(*) AS n FROM r GROUP BY a, b, c) GROUP BY n",
    ] {
        let plan = {
            SHORT.apply(&ctx);
            set(&ctx, "bowtie.offload", "force");
            shown(&plan_of(&ctx, sql).await.unwrap())
        };
        // A declined aggregation is not partitioned.
        match plan.contains("BowtieAggregateExec") {
            true => check(&ctx, sql, SHORT).await,
            false => println!("not taken: {sql}"),
        }
    }
    // Few groups, or no keys.
    for sql in [
        "SELECT g, count(*), sum(a) FROM (SELECT arrow_cast(g > 1, 'Boolean') AS g, a FROM r WHERE g IS NOT NULL) GROUP BY g",
        "SELECT count(*), sum(a) FROM r",
        "SELECT a, b, count(*) FROM r GROUP BY ROLLUP (a, b)",
    ] {
        let long = Tuning {
            chunk_rows: "60",
            ..SHORT
        };
        let stock = stock(&ctx, sql).await.unwrap();
        long.apply(&ctx);
        let (given, parts) = run_partitioned(&ctx, sql).await;
        assert_eq!(parts, 0, "{sql}\n{}", given.plan);
        similar_rows(&stock, &given).unwrap();
    }
}
