//! Which aggregations are fused with the join below them: conditions, join types, groups and strategies.

use arrow::datatypes::DataType;

use crate::join_aggregate::check::{check, tunings};
use crate::support::answer::{assert_offloaded, forced, stock};
use crate::support::compare::similar_rows;
use crate::support::session::session;
use crate::support::tables::{keyed_table, mixed_table, register};
use crate::support::tuning::Tuning;

const AGGREGATES: &str = "count(*), count(r.c), count(s.c), count(1), sum(r.a), sum(s.b), sum(s.c), min(r.a), max(r.t), \
     min(s.t), max(s.c), avg(r.a), avg(s.b), avg(s.c), count(*) FILTER (WHERE s.b > 4), \
     sum(r.b) FILTER (WHERE r.a < 12), max(s.a) FILTER (WHERE s.t IS NOT NULL), min(DISTINCT s.b)";

/// Condition × join type × grouping, in full; tunings in rotation.
#[tokio::test]
async fn conditions_joins_and_groups() {
    let ctx = session();
    register(&ctx, "large", &mixed_table(47, 0.2, 1));
    register(&ctx, "small", &mixed_table(29, 0.2, 2));
    let conditions = [
        "r.a > s.a",
        "r.a BETWEEN s.lo AND s.hi",
        "r.a < s.a AND r.b > s.b",
        "r.a <> s.a",
        "r.a > s.a AND r.b <> s.b",
        "r.a + s.b > 10",
        "r.a > s.a AND r.t LIKE '%' || substr(s.t, 2)",
        "r.g = s.g AND r.a >= s.a",
        "r.g = s.g AND r.a < s.a AND r.b > s.b",
        "r.g = s.g",
        "r.a > s.a + 100",
    ];
    let mut turn = 0;
    for condition in conditions {
        for (kind, groups) in [
            ("INNER", &["", "r.g", "s.g", "r.t, r.g", "s.t"][..]),
            ("LEFT", &["", "r.g", "r.t"]),
            ("RIGHT", &["", "s.g", "s.t, s.id"]),
        ] {
            for group in groups {
                turn += 1;
                let (left, right) = match turn % 2 {
                    0 => ("large", "small"),
                    _ => ("small", "large"),
                };
                let (listed, grouped) = match group.is_empty() {
                    true => (String::new(), String::new()),
                    false => (format!("{group}, "), format!(" GROUP BY {group}")),
                };
                let sql = format!(
                    "SELECT {listed}{AGGREGATES} FROM {left} r {kind} JOIN {right} s ON {condition}{grouped}"
                );
                check(&ctx, &sql, true, &tunings(turn, 1)).await;
            }
        }
    }
}

/// Each theta strategy, as they lead to different methods of aggregation.
#[tokio::test]
async fn strategies() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(80, 0.2, 1));
    register(&ctx, "s", &mixed_table(120, 0.2, 2));
    for strategy in ["range", "dominance", "tiles"] {
        for group in ["", " GROUP BY r.g", " GROUP BY s.g"] {
            let sql =
                format!("SELECT {AGGREGATES} FROM r JOIN s ON r.a >= s.lo AND r.a <= s.hi{group}");
            let tunings: Vec<Tuning> = tunings(3, 6)
                .into_iter()
                .filter(|tuning| tuning.chunk_rows != "1")
                .map(|tuning| tuning.with_strategy(strategy))
                .collect();
            check(&ctx, &sql, true, &tunings).await;
        }
    }
}

/// Aggregates that are not fused with the join.
#[tokio::test]
async fn falls_back() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(47, 0.2, 1));
    register(&ctx, "s", &mixed_table(29, 0.2, 2));
    for query in [
        "r.g, sum(DISTINCT s.b), count(*) FROM r JOIN s ON r.a > s.a GROUP BY r.g",
        "r.g, s.g AS h, count(*) FROM r JOIN s ON r.a > s.a GROUP BY r.g, s.g",
        "s.g, count(*) FROM r LEFT JOIN s ON r.a > s.a GROUP BY s.g",
        "r.g, count(*) FROM r RIGHT JOIN s ON r.a > s.a GROUP BY r.g",
        "count(*), sum(r.a) FROM r FULL JOIN s ON r.a > s.a",
        "sum(r.a + s.a) FROM r JOIN s ON r.a > s.a",
        "sum(r.a) FILTER (WHERE s.b > 3) FROM r JOIN s ON r.a > s.a",
        "stddev(s.b) FROM r JOIN s ON r.a > s.a",
        "array_agg(s.b ORDER BY s.b) FROM r JOIN s ON r.a > s.a",
        "r.g, count(*) FROM r JOIN s ON r.a > s.a GROUP BY ROLLUP (r.g)",
    ] {
        check(&ctx, &format!("SELECT {query}"), false, &tunings(7, 3)).await;
    }
}

/// Expressions as arguments, groups and filters; projections between the aggregation and the join.
#[tokio::test]
async fn expressions_and_projections() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(47, 0.2, 1));
    register(&ctx, "s", &mixed_table(29, 0.2, 2));
    for query in [
        "sum(s.a * s.b), avg(s.c - s.a), max(-s.b) FROM r JOIN s ON r.a > s.a",
        "r.a % 3 AS m, count(*) FROM r JOIN s ON r.a > s.a GROUP BY r.a % 3",
        "r.a + r.b AS m, sum(s.b) FROM r JOIN s ON r.a > s.a GROUP BY r.a + r.b",
        "sum(CASE WHEN s.b > 4 THEN s.a ELSE 0 END), sum(CASE WHEN s.b > 4 THEN s.a END) FROM r JOIN s ON r.a > s.a",
        "sum(x + y), sum(x - y), count(*) FROM (SELECT s.hi + s.lo AS x, s.b AS y, r.g FROM r JOIN s ON r.a > s.a)",
        "g, sum(x) FILTER (WHERE x > y) FROM (SELECT s.hi * 2 AS x, s.lo AS y, r.g FROM r JOIN s ON r.a > s.a) GROUP BY g",
        "sum(s.hi * 2 + s.lo), sum(s.hi * 2 - s.b), min(s.hi * 2) FROM r JOIN s ON r.a > s.a",
        "count(*), sum(j.i) FROM (SELECT r.id AS i FROM r JOIN s ON r.a > s.a) j JOIN s x ON j.i < x.a",
    ] {
        let sql = format!("SELECT {query}");
        let stock = stock(&ctx, &sql).await.unwrap();
        for tuning in tunings(11, 3) {
            let given = forced(&ctx, &sql, &tuning).await.unwrap();
            assert_offloaded(&sql, &given.plan, &["Bowtie"]);
            if let Err(difference) = similar_rows(&stock, &given) {
                panic!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan);
            }
        }
    }
}

/// DataFusion turns a single DISTINCT into a GROUP BY, which is fused.
#[tokio::test]
async fn distinct_as_groups() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(47, 0.2, 1));
    register(&ctx, "s", &mixed_table(29, 0.2, 2));
    for query in [
        "count(DISTINCT s.b) FROM r JOIN s ON r.a > s.a",
        "DISTINCT s.b, s.t FROM r JOIN s ON r.a > s.a AND r.c < s.c",
    ] {
        check(&ctx, &format!("SELECT {query}"), true, &tunings(7, 3)).await;
    }
}

/// A common subexpression of several aggregates, which the optimizer moves to a projection.
#[tokio::test]
async fn columns_through_a_projection() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(47, 0.0, 1));
    register(&ctx, "s", &mixed_table(29, 0.0, 2));
    let query = "SELECT sum(s.hi + s.b * s.b), sum(s.b * s.b + s.lo), max(s.b * s.b) FROM r JOIN s ON r.a > s.a";
    check(&ctx, query, true, &[Tuning::PLAIN]).await;
}

/// No match, or an empty side.
#[tokio::test]
async fn empty_results() {
    let ctx = session();
    register(&ctx, "rows", &mixed_table(19, 0.2, 1));
    let (none, some) = (
        "(SELECT * FROM rows WHERE a + b < -1)",
        "(SELECT * FROM rows WHERE a + b > -1)",
    );
    for (left, right) in [(none, some), (some, none), (none, none), (some, some)] {
        for kind in ["INNER", "LEFT", "RIGHT"] {
            let group = if kind == "RIGHT" { "s.g" } else { "r.g" };
            for condition in ["r.a > s.a + 1000", "r.a > s.a AND r.b + s.b > 1000"] {
                let sql = format!(
                    "SELECT {AGGREGATES} FROM {left} r {kind} JOIN {right} s ON {condition}"
                );
                check(&ctx, &sql, true, &tunings(5, 2)).await;
                let sql = format!(
                    "SELECT {group}, count(*), sum(s.b) FROM {left} r {kind} JOIN {right} s ON {condition} GROUP BY {group}"
                );
                check(&ctx, &sql, true, &tunings(5, 2)).await;
            }
        }
    }
}

/// −0.0 and 0.0 are one group, as are NaNs; NULL is a group.
#[tokio::test]
async fn groups_of_special_floats() {
    let ctx = session();
    register(&ctx, "r", &keyed_table(&DataType::Float64, 60, 0.2, 3));
    register(&ctx, "s", &keyed_table(&DataType::Float64, 40, 0.2, 4));
    for sql in [
        "SELECT r.k, count(*), sum(s.id) FROM r JOIN s ON r.id > s.id GROUP BY r.k",
        "SELECT r.k, r.l, count(*) FROM r LEFT JOIN s ON r.k > s.k GROUP BY r.k, r.l",
    ] {
        check(&ctx, sql, true, &tunings(1, 4)).await;
    }
}
