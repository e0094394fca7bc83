//! Aggregations over the output of other nodes, with which they are not fused.

use crate::aggregate::check::{check, tunings};
use crate::support::answer::forced;
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};

/// Aggregations of joins that are not fused, of aggregations, and under a limit of the plan above.
#[tokio::test]
async fn above_and_below_others() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.2, 1));
    register(&ctx, "s", &mixed_table(40, 0.2, 2));
    for (turn, sql) in [
        "SELECT r.g, s.g AS h, count(*), sum(s.b) FROM r JOIN s ON r.a > s.a GROUP BY r.g, s.g",
        "SELECT r.g, sum(r.a * s.b) FROM r LEFT JOIN s ON r.a < s.a GROUP BY r.g",
        "SELECT n, count(*) FROM (SELECT g, count(*) AS n FROM r GROUP BY g) GROUP BY n",
        "SELECT g, count(*) FROM r GROUP BY g ORDER BY g LIMIT 2",
        "SELECT count(DISTINCT b) FROM r",
        "SELECT g, count(DISTINCT b) FROM r GROUP BY g",
        "SELECT DISTINCT g, b FROM r",
        "SELECT g FROM r UNION SELECT g FROM s",
        "SELECT g, sum(a) AS s FROM r GROUP BY g HAVING sum(a) > 10",
    ]
    .iter()
    .enumerate()
    {
        check(&ctx, sql, tunings(turn * 3, 5)).await;
    }
}

/// An aggregation that is not fused with the join below it reads resident rows: there is one download.
#[tokio::test]
async fn rows_of_a_join_stay_on_the_device() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.2, 1));
    register(&ctx, "s", &mixed_table(45, 0.2, 2));
    let groups = [
        ("r.g, s.g AS h", "r.g, s.g"),
        ("r.t, s.b + 1 AS b, s.c", "r.t, s.b + 1, s.c"),
        ("s.t", "s.t"),
    ];
    let aggregates = "count(*), sum(r.a), sum(s.c), avg(s.b), min(r.t), max(s.t), count(r.c), count(DISTINCT s.b), bool_or(r.a > 15), \
        bit_xor(s.id), sum(r.id) FILTER (WHERE r.a > 5)";
    let mut turn = 0;
    for kind in ["INNER", "LEFT", "RIGHT", "FULL"] {
        for condition in [
            "r.a > s.a",
            "r.a < s.a AND r.b > s.b",
            "r.g = s.g AND r.a * s.a > 20",
            "r.a > s.a AND r.t LIKE '%' || substr(s.t, 2)",
            "r.g = s.g",
        ] {
            for (columns, group) in groups {
                turn += 1;
                let sql = format!(
                    "SELECT {columns}, {aggregates} FROM r {kind} JOIN s ON {condition} GROUP BY {group}"
                );
                for tuning in tunings(turn, 2) {
                    check(&ctx, &sql, std::iter::once(tuning)).await;
                    let plan = forced(&ctx, &sql, &tuning).await.unwrap().plan;
                    let downloads = plan.matches("BowtieDownloadExec").count();
                    assert_eq!(downloads, 1, "{sql}\n{plan}");
                }
            }
        }
    }
}
