//! Plans of several device nodes above one another: forced and stock give the same rows, and rows are resident between the uploads
//! and the last download.

use std::sync::Arc;

use arrow::compute::concat_batches;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;

use crate::support::answer::{Answer, forced, plan_of, shown, stock};
use crate::support::compare::similar_rows;
use crate::support::session::{session, set};
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

/// Joins, filters, projections and unions above joins and aggregations. `m` is a decimal, `d` a date.
const QUERIES: [&str; 41] = [
    // Joins of joins.
    "SELECT r.id, s.a, u.b FROM r JOIN s ON r.g = s.g AND r.a > s.a JOIN u ON s.b = u.b AND u.lo < r.hi",
    "SELECT r.id, s.id, u.t FROM r LEFT JOIN s ON r.a = s.a LEFT JOIN u ON s.b = u.b",
    "SELECT r.id, s.id, u.id FROM r FULL JOIN s ON r.a = s.a AND r.lo < s.hi FULL JOIN u ON s.t = u.t",
    "SELECT s.id FROM r JOIN s ON r.a < s.a WHERE EXISTS (SELECT 1 FROM u WHERE u.b = r.b AND u.lo > s.lo)",
    "SELECT r.id FROM r JOIN s ON r.a = s.a WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.b = r.b AND u.c > s.c)",
    "SELECT r.id, x.id FROM r JOIN (SELECT s.id, u.t FROM s JOIN u ON s.g = u.g AND s.lo > u.hi) AS x ON r.t = x.t",
    "SELECT r.id, s.id FROM r JOIN s ON r.a = s.a JOIN u ON r.a * 2 - s.lo > u.hi + s.b",
    "SELECT r.id, s.id, u.id FROM r JOIN s ON r.t = s.t JOIN u ON r.lo - u.lo < 3 AND u.c <= s.c",
    // Filters between them.
    "SELECT x.g, u.id FROM (SELECT r.g, sum(s.b) AS n FROM r JOIN s ON r.a > s.a GROUP BY r.g HAVING sum(s.b) > 10) AS x \
     JOIN u ON x.g = u.g",
    "SELECT x.id, u.id FROM (SELECT r.id, r.g, r.a + s.a AS n FROM r LEFT JOIN s ON r.b = s.b) AS x JOIN u ON x.g = u.g \
     WHERE x.n IS NULL OR x.n % 3 = 1",
    "SELECT u.id, x.m FROM u JOIN (SELECT g, max(m) AS m FROM r GROUP BY g) AS x ON u.g = x.g WHERE x.m * 2 > 3.5",
    "SELECT u.id FROM u JOIN (SELECT g, count(*) AS n FROM r WHERE a > 3 GROUP BY g) AS x ON u.a = x.n WHERE x.n IN (1, 2, 5, 9)",
    // Projections with expressions.
    "SELECT x.y, sum(x.p), count(x.q) FROM (SELECT extract(year FROM r.d) AS y, r.m * (1 - s.m) - r.m AS p, \
     CASE WHEN r.a > s.a THEN s.b WHEN r.b IS NULL THEN 0 END AS q FROM r JOIN s ON r.g = s.g) AS x GROUP BY x.y",
    "SELECT sum(r.m * s.m + r.a), sum(CASE WHEN r.c > s.c THEN r.c - s.c ELSE s.c * 2 END), min(r.m - s.m) \
     FROM r JOIN s ON r.b = s.b AND r.lo <= s.hi",
    "SELECT r.g, sum(CASE WHEN s.a > 10 AND r.b < 5 OR s.d > r.d THEN s.m ELSE 0 END) FROM r LEFT JOIN s ON r.g = s.b GROUP BY r.g",
    "SELECT x.k, u.id FROM (SELECT r.a + s.b AS k FROM r JOIN s ON r.g = s.g AND r.lo > s.hi) AS x JOIN u ON x.k = u.a",
    "SELECT extract(month FROM r.d), extract(day FROM s.d), count(*) FROM r JOIN s ON r.a = s.a GROUP BY 1, 2",
    "SELECT x.z, count(*) FROM (SELECT CAST(r.m AS DECIMAL(20, 4)) + CAST(s.a AS DECIMAL(10, 1)) AS z FROM r JOIN s ON r.t = s.t) AS x \
     GROUP BY x.z",
    // Expressions that do not compile.
    "SELECT x.w, u.id FROM (SELECT upper(r.t) AS w FROM r JOIN s ON r.g = s.g AND r.a < s.a) AS x JOIN u ON x.w = upper(u.t)",
    "SELECT u.id FROM u JOIN (SELECT r.t, r.g FROM r JOIN s ON r.a = s.a AND r.b > s.b) AS x ON u.g = x.g WHERE x.t ILIKE 'b%'",
    // Unions.
    "SELECT x.g, count(*), sum(x.a) FROM (SELECT r.g, s.a FROM r JOIN s ON r.a > s.a UNION ALL SELECT u.g, s.a FROM u JOIN s ON u.b = s.b) \
     AS x GROUP BY x.g",
    "SELECT u.id, x.a FROM u JOIN (SELECT r.g, r.a FROM r JOIN s ON r.t = s.t UNION ALL SELECT g, sum(b) FROM s GROUP BY g) AS x ON u.g = x.g",
    // Aggregations below joins, and above them.
    "SELECT x.g, y.n, x.n FROM (SELECT g, count(*) AS n FROM r GROUP BY g) AS x JOIN (SELECT b, sum(a) AS n FROM s GROUP BY b) AS y \
     ON x.g = y.b AND x.n > y.n - 1000",
    "SELECT y.g, avg(y.n) FROM (SELECT r.g, r.t, count(*) AS n FROM r JOIN s ON r.a = s.a AND r.lo < s.lo GROUP BY r.g, r.t) AS y GROUP BY y.g",
    // Dates, and functions that are compiled to comparisons.
    "SELECT x.e, count(*), sum(x.n) FROM (SELECT r.d + INTERVAL '9 days' AS e, r.d - s.d AS n FROM r JOIN s ON r.g = s.g) AS x GROUP BY x.e",
    "SELECT x.y, x.w, count(*) FROM (SELECT date_trunc('year', r.d) AS y, date_trunc('month', s.d) AS w FROM r JOIN s ON r.g = s.g) AS x \
     GROUP BY x.y, x.w",
    "SELECT sum(x.p), min(x.q), max(x.o) FROM (SELECT abs(r.a - s.b) AS p, nullif(r.b, s.b) AS q, greatest(r.a, s.a, s.b) AS o \
     FROM r JOIN s ON r.g = s.g) AS x",
    "SELECT u.id, x.m FROM u JOIN (SELECT r.g, coalesce(r.b, s.b, 0) AS c, least(r.m, s.m) AS m FROM r LEFT JOIN s ON r.a = s.a) AS x \
     ON u.g = x.g WHERE x.c BETWEEN 0 AND 9 AND (x.m > 1) IS NOT TRUE",
    "SELECT x.k, count(*) FROM (SELECT CASE s.b WHEN 1 THEN r.a WHEN 2 THEN abs(r.b) END AS k FROM r JOIN s ON r.g = s.g \
     WHERE (r.c < s.c) IS UNKNOWN OR s.lo < r.hi) AS x GROUP BY x.k",
    // Text.
    "SELECT sum(x.p), count(x.q) FROM (SELECT CASE WHEN r.t = 'b1' OR s.t LIKE 'c%' THEN r.m ELSE 0 END AS p, \
     CASE s.t WHEN 'a0' THEN r.a WHEN 'd0' THEN s.a END AS q FROM r JOIN s ON r.g = s.g) AS x",
    "SELECT u.id, x.t FROM u JOIN (SELECT g, max(t) AS t FROM r GROUP BY g, a) AS x ON u.g = x.g \
     WHERE x.t NOT LIKE '_1' AND x.t IN ('a0', 'b1', 'c2', 'y0', 'z1', NULL) OR x.t IS NULL",
    "SELECT x.k, count(*) FROM (SELECT substr(s.t, 2, 1) AS k, r.t < s.t AS l FROM r LEFT JOIN s ON r.g = s.g) AS x WHERE x.l IS NOT TRUE GROUP BY x.k",
    "SELECT r.id, s.id, u.id FROM r JOIN s ON r.a = s.a JOIN u ON u.g = s.g AND (r.t LIKE '%1' AND u.t > 'm' OR s.t = 'b1' AND u.t <> 'c2')",
    "SELECT x.w, count(*), min(x.t) FROM (SELECT left(r.t, 1) AS w, s.t, CASE WHEN starts_with(s.t, 'q') THEN 1 END AS o \
     FROM r LEFT JOIN s ON r.b = s.b) AS x WHERE x.o IS NULL GROUP BY x.w",
    "SELECT x.v, sum(x.a) FROM (SELECT (r.t IS DISTINCT FROM 'a0') AND strpos(s.t, '2') > 0 AS v, r.a FROM r FULL JOIN s ON r.lo = s.hi) AS x \
     GROUP BY x.v",
    "SELECT u.id, y.n FROM u JOIN (SELECT g, min(t) AS t, count(*) AS n FROM r GROUP BY g, b) AS y ON u.g = y.g \
     WHERE ends_with(y.t, '0') = contains(y.t, 'c')",
    "SELECT x.k, count(*), sum(x.a) FROM (SELECT CASE WHEN r.a > 20 THEN 'high, and much more of it' WHEN r.b IS NULL THEN NULL \
     WHEN s.t = 'b1' THEN '' ELSE 'low' END AS k, s.a FROM r JOIN s ON r.g = s.g) AS x GROUP BY x.k",
    "SELECT u.id, x.k, x.l FROM u JOIN (SELECT r.g, CASE s.b WHEN 1 THEN 'one' WHEN 2 THEN 'two' END AS k, \
     CASE WHEN s.m > r.m THEN arrow_cast('more than that by far', 'Utf8View') ELSE arrow_cast('less', 'Utf8View') END AS l FROM r LEFT JOIN s ON r.a = s.a) AS x ON u.g = x.g",
    "SELECT x.w, x.q, x.o, count(*), sum(x.e) FROM (SELECT extract(week FROM r.d) AS w, extract(quarter FROM s.d) AS q, \
     extract(dow FROM r.d) AS o, extract(epoch FROM s.d) AS e FROM r JOIN s ON r.g = s.g) AS x GROUP BY x.w, x.q, x.o",
    "SELECT x.h, x.y, count(*) FROM (SELECT extract(hour FROM CAST(r.d AS TIMESTAMP) + INTERVAL '5 hours') AS h, extract(doy FROM s.d) AS y, \
     date_trunc('quarter', CAST(s.d AS TIMESTAMP)) AS z FROM r JOIN s ON r.a = s.a) AS x GROUP BY x.h, x.y, x.z",
    // Casts of decimals, their quotients and remainders.
    "SELECT x.f, x.i, count(*), sum(x.q), max(x.e), min(x.h) FROM (SELECT CAST(r.m AS DOUBLE) * 2.0::DOUBLE - 1.0::DOUBLE AS e, CAST(r.m AS INT) AS i, \
     CAST(r.m * 100 AS BIGINT) % 7 AS f, r.m / (s.m * s.m + 1.0) AS q, CAST(CAST(s.m AS REAL) * 0.1::REAL AS DECIMAL(12, 5)) % 0.3 AS h \
     FROM r JOIN s ON r.g = s.g) AS x WHERE x.e < 40.5 GROUP BY x.f, x.i",
];

/// `r`, `s` and `u` with a decimal `m` and a date `d` beside their columns.
async fn tables(rows: [usize; 3], seed: u64) -> SessionContext {
    let ctx = session();
    for (i, (name, rows)) in ["r", "s", "u"].into_iter().zip(rows).enumerate() {
        let plain = mixed_table(rows, 0.15, seed + i as u64);
        register(&ctx, "plain", &plain);
        let sql = "SELECT *, CAST(a AS DECIMAL(9, 2)) / 4 AS m, \
                   arrow_cast(9000 + a * 97 - b * 31, 'Date32') AS d FROM plain";
        set(&ctx, "bowtie.offload", "off");
        let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
        let schema = ctx.sql(sql).await.unwrap().schema().as_arrow().clone();
        let all = concat_batches(&Arc::new(schema), &batches).unwrap();
        register(&ctx, name, &all);
    }
    ctx
}

async fn check(rows: [usize; 3], seed: u64, tunings: impl Fn(usize) -> Vec<Tuning>) {
    check_some(rows, seed, &QUERIES, tunings).await;
}

async fn check_some(
    rows: [usize; 3],
    seed: u64,
    queries: &[&str],
    tunings: impl Fn(usize) -> Vec<Tuning>,
) {
    let ctx = tables(rows, seed).await;
    for (i, sql) in queries.iter().enumerate() {
        let stock = stock(&ctx, sql).await.unwrap();
        for tuning in tunings(i) {
            let given = forced(&ctx, sql, &tuning).await;
            let given =
                given.unwrap_or_else(|e| panic!("{sql}\n{tuning:?}\nfails when forced: {e}"));
            if let Err(difference) = similar_rows(&stock, &given) {
                panic!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan);
            }
        }
    }
}

#[tokio::test]
async fn chains_give_the_rows_of_datafusion() {
    check([60, 45, 50], 1, |i| {
        (0..4).map(|k| Tuning::nth(i * 5 + k)).collect()
    })
    .await;
}

#[tokio::test]
async fn chains_of_empty_and_single_rows() {
    for rows in [[0, 9, 9], [9, 0, 9], [9, 9, 0], [1, 1, 1]] {
        check(rows, 7, |i| vec![Tuning::nth(i)]).await;
    }
}

/// So little memory that resident rows are evicted.
#[tokio::test]
async fn chains_under_a_small_budget() {
    let large = [
        "SELECT x.g, count(*), sum(x.m), min(u.t) FROM (SELECT r.g, r.m, s.lo, s.t FROM r JOIN s ON r.g = s.g AND r.a > s.a) AS x \
         JOIN u ON x.lo = u.lo AND x.t <> u.t GROUP BY x.g",
        "SELECT count(*), sum(x.id), sum(u.m * x.m), max(x.t) FROM u FULL JOIN (SELECT r.id, r.m, r.hi, s.t FROM r LEFT JOIN s ON r.a = s.a) \
         AS x ON u.hi = x.hi",
        "SELECT x.y, sum(x.p), count(x.q) FROM (SELECT extract(year FROM r.d) AS y, r.m * (1 - s.m) - r.m AS p, \
         CASE WHEN r.a > s.a THEN s.b END AS q FROM r JOIN s ON r.g = s.g) AS x WHERE x.p < 3 GROUP BY x.y",
        "SELECT y.g, avg(y.n) FROM (SELECT r.g, r.id, count(*) AS n FROM r JOIN s ON r.a = s.a AND r.lo < s.lo GROUP BY r.g, r.id) AS y \
         GROUP BY y.g",
        "SELECT x.k, count(*), sum(x.p) FROM (SELECT left(r.t, 1) AS k, CASE WHEN r.t > s.t OR s.t LIKE '%1' THEN r.m END AS p \
         FROM r JOIN s ON r.g = s.g) AS x GROUP BY x.k",
        "SELECT count(*), sum(x.a) FROM (SELECT r.id, s.a FROM r JOIN s ON r.a > s.a UNION ALL SELECT u.id, s.a FROM u JOIN s ON u.b = s.b) \
         AS x JOIN u ON x.id = u.id",
    ];
    for (device_memory, partitions) in [("1MB", 2), ("4MB", 1)] {
        let tuning = Tuning {
            device_memory,
            partitions,
            ..Tuning::PLAIN
        };
        check_some([4000, 500, 400], 3, &large, |_| vec![tuning]).await;
    }
}

/// An expression that fails on a row fails the query with DataFusion's error; one that a CASE guards does not.
#[tokio::test]
async fn errors_are_those_of_datafusion() {
    let ctx = tables([60, 45, 50], 5).await;
    for (sql, fails) in [
        (
            "SELECT sum(x.q) FROM (SELECT r.a / s.b AS q FROM r JOIN s ON r.g = s.g) AS x",
            true,
        ),
        (
            "SELECT sum(CASE WHEN s.b <> 0 THEN r.a / s.b END) FROM r JOIN s ON r.g = s.g",
            false,
        ),
        (
            "SELECT sum(x.q) FROM (SELECT r.m * CAST(99999999999999999999999999999999999 AS DECIMAL(38, 0)) * s.m * 99999.99 AS q \
             FROM r JOIN s ON r.g = s.g) AS x",
            true,
        ),
        (
            "SELECT count(*) FROM (SELECT CAST(r.a * 10 + s.a AS TINYINT) AS q FROM r JOIN s ON r.g = s.g) AS x GROUP BY x.q",
            true,
        ),
    ] {
        let stock = stock(&ctx, sql).await;
        let given = forced(&ctx, sql, &Tuning::PLAIN).await;
        match (stock, given) {
            (Err(stock), Err(given)) => {
                assert!(fails, "{sql}: {stock}");
                // Which row fails first depends on their order.
                let said = |e: DataFusionError| {
                    let mut message = e.strip_backtrace();
                    message.retain(|c| !c.is_ascii_digit() && c != '-');
                    message
                };
                assert_eq!(said(stock), said(given), "{sql}");
            }
            (Ok(stock), Ok(given)) => {
                assert!(!fails, "{sql} does not fail");
                assert!(
                    given.plan.contains("BowtieProjectionExec"),
                    "{}",
                    given.plan
                );
                similar_rows(&stock, &given).unwrap();
            }
            (stock, given) => panic!("{sql}: {:?} {:?}", stock.err(), given.err()),
        }
    }
}

/// A plan can be executed twice.
#[tokio::test]
async fn a_chain_runs_twice() {
    let ctx = tables([60, 45, 50], 2).await;
    for sql in [QUERIES[0], QUERIES[8], QUERIES[12], QUERIES[20]] {
        let stock = stock(&ctx, sql).await.unwrap();
        forced(&ctx, sql, &Tuning::PLAIN).await.unwrap();
        let plan = plan_of(&ctx, sql).await.unwrap();
        for _ in 0..2 {
            let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
            let given = Answer {
                plan: shown(&plan),
                schema: plan.schema(),
                batches,
            };
            similar_rows(&stock, &given).unwrap();
        }
    }
}

/// The nodes between uploads and download.
#[tokio::test]
async fn nodes_between_borders() {
    let ctx = tables([60, 45, 50], 4).await;
    for (query, nodes, uploads) in [
        (0, vec!["BowtieJoinExec"], 3),
        (8, vec!["BowtieFilterExec", "BowtieJoinAggregateExec"], 3),
        (9, vec!["BowtieFilterExec", "BowtieProjectionExec"], 3),
        (12, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
        (20, vec!["BowtieUnionExec", "BowtieAggregateExec"], 4),
        (23, vec!["BowtieAggregateExec"], 2),
        (24, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
        (25, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
        (26, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
        (27, vec!["BowtieFilterExec", "BowtieProjectionExec"], 3),
        (28, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
        (29, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
        (30, vec!["BowtieFilterExec", "BowtieAggregateExec"], 2),
        (31, vec!["BowtieFilterExec", "BowtieProjectionExec"], 2),
        (32, vec!["BowtieProjectionExec"], 3),
        (33, vec!["BowtieFilterExec", "BowtieProjectionExec"], 2),
        (34, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
        (35, vec!["BowtieFilterExec", "BowtieAggregateExec"], 2),
        (36, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
        (37, vec!["BowtieProjectionExec"], 3),
        (38, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
        (39, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
        (40, vec!["BowtieProjectionExec", "BowtieAggregateExec"], 2),
    ] {
        let plan = forced(&ctx, QUERIES[query], &Tuning::PLAIN).await.unwrap();
        let plan = plan.plan;
        for node in nodes {
            assert!(plan.contains(node), "no {node}: {}\n{plan}", QUERIES[query]);
        }
        assert_eq!(plan.matches("BowtieDownloadExec").count(), 1, "{plan}");
        assert_eq!(plan.matches("BowtieUploadExec").count(), uploads, "{plan}");
    }
}

/// Joins and groups by each strategy have the same output.
#[tokio::test]
async fn chains_by_each_strategy() {
    let ctx = tables([70, 50, 60], 6).await;
    for sql in [
        QUERIES[1],
        QUERIES[5],
        QUERIES[10],
        QUERIES[12],
        QUERIES[20],
        QUERIES[22],
    ] {
        let stock = stock(&ctx, sql).await.unwrap();
        for (turn, (join, group)) in [
            ("direct", "hash_shared"),
            ("hash", "hash_global"),
            ("partitioned_hash", "partition"),
            ("sort_merge", "sort"),
            ("auto", "sort_dict"),
        ]
        .into_iter()
        .enumerate()
        {
            set(&ctx, "bowtie.equi_join_strategy", join);
            let tuning = Tuning {
                group_strategy: group,
                ..Tuning::nth(turn * 3)
            };
            let given = forced(&ctx, sql, &tuning).await.unwrap();
            similar_rows(&stock, &given)
                .unwrap_or_else(|difference| panic!("{sql}\n{join}, {tuning:?}\n{difference}"));
        }
    }
}
