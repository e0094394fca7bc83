//! Aggregates of distinct values.

use crate::aggregate::check::{NODE, check, tunings};
use crate::support::answer::{forced, stock};
use crate::support::compare::similar_rows;
use crate::support::key_types::orderable_types;
use crate::support::session::session;
use crate::support::tables::{keyed_table, mixed_table, register};
use crate::support::tuning::Tuning;

/// Several aggregates of distinct values, which DataFusion does not turn into two aggregations, and counts of several columns.
#[tokio::test]
async fn distinct_values() {
    let ctx = session();
    let aggregates = "count(DISTINCT a), count(DISTINCT t), sum(DISTINCT b), count(*), sum(a), count(a, t), count(DISTINCT g), \
        count(DISTINCT b) FILTER (WHERE a > 7), sum(DISTINCT CAST(b + 1 AS DECIMAL(9, 1))) AS u, count(DISTINCT CAST(a + 1 AS DECIMAL(30, 2))) AS v, \
        avg(DISTINCT CAST(b + 1 AS DECIMAL(9, 1))) AS w, avg(DISTINCT a), sum(DISTINCT c), count(DISTINCT c), \
        count(DISTINCT -c * 0) AS zeros, median(DISTINCT c)";
    for (seed, rows) in [0, 1, 40, 300].into_iter().enumerate() {
        register(&ctx, "r", &mixed_table(rows, 0.3, seed as u64));
        for (turn, group) in ["", "g", "t, b", "c", "ROLLUP (g, b)"].iter().enumerate() {
            let sql = match group.is_empty() {
                true => format!("SELECT {aggregates} FROM r"),
                false => format!("SELECT {aggregates} FROM r GROUP BY {group}"),
            };
            check(&ctx, &sql, tunings(turn * 3 + seed, 5)).await;
        }
    }
    for (turn, data_type) in orderable_types().iter().enumerate() {
        register(&ctx, "r", &keyed_table(data_type, 120, 0.2, turn as u64));
        let sql =
            "SELECT id % 5, count(DISTINCT k), count(DISTINCT l), count(*) FROM r GROUP BY id % 5";
        check(&ctx, sql, tunings(turn, 2)).await;
    }
}

/// With groups, DataFusion 55.2 itself fails on it.
#[tokio::test]
async fn distinct_values_of_bit_xor_are_declined() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.2, 1));
    let sql = "SELECT bit_xor(DISTINCT b), count(DISTINCT a) FROM r";
    let stock = stock(&ctx, sql).await.unwrap();
    let given = forced(&ctx, sql, &Tuning::PLAIN).await.unwrap();
    assert!(!given.plan.contains(NODE), "{}", given.plan);
    similar_rows(&stock, &given).unwrap();
}
