//! Nested keys: lists, structs and maps in joins of all types, groups and set operations.

use datafusion::prelude::SessionContext;

use crate::aggregate::check;
use crate::support::answer::{check, stock};
use crate::support::compare::same_rows;
use crate::support::join_types::KINDS;
use crate::support::session::session;
use crate::support::tuning::Tuning;

/// Keys of row `i`: NULLs at every depth, empty lists, and floats that are equal or differ in their bits alone.
const KEYS: [(&str, &str); 8] = [
    (
        "lists",
        "CASE i % 7 WHEN 0 THEN [1, 2] WHEN 1 THEN [1, NULL] WHEN 2 THEN arrow_cast([], 'List(Int64)') WHEN 3 THEN [2, 1] \
         WHEN 4 THEN [arrow_cast(NULL, 'Int64')] WHEN 5 THEN NULL ELSE [i % 3] END",
    ),
    (
        "floats",
        "CASE i % 7 WHEN 0 THEN [0.0::DOUBLE] WHEN 1 THEN [-0.0::DOUBLE] WHEN 2 THEN ['NaN'::DOUBLE] WHEN 3 THEN [1.5::DOUBLE, NULL] \
         WHEN 4 THEN NULL WHEN 5 THEN ['-Infinity'::DOUBLE] ELSE [1.5::DOUBLE] END",
    ),
    (
        "fixed",
        "arrow_cast([i % 2, nullif(i % 3, 1)], 'FixedSizeList(2, Int32)')",
    ),
    (
        "large",
        "CASE WHEN i % 5 > 0 THEN arrow_cast(['t' || (i % 3), nullif('u' || (i % 2), 'u1')], 'LargeList(Utf8)') END",
    ),
    (
        "structs",
        "CASE WHEN i % 6 > 0 THEN named_struct('a', nullif(i % 3, 2), 'b', 't' || (i % 2), 'c', i % 2 > 0) END",
    ),
    (
        "lists_of_structs",
        "CASE WHEN i % 6 > 0 THEN [named_struct('a', nullif(i % 3, 2)), named_struct('a', i % 2)] END",
    ),
    (
        "lists_of_lists",
        "CASE WHEN i % 6 > 0 THEN [[i % 2, NULL], [nullif(i % 3, 2)], NULL] END",
    ),
    (
        "maps",
        "CASE WHEN i % 6 > 0 THEN MAP {'a': i % 3, 'b': nullif(i % 2, 1)} END",
    ),
];

/// Tables r and s with the key expression `key`.
async fn tables(key: &str) -> SessionContext {
    let ctx = session();
    for (name, first, rows) in [("r", 0, 40), ("s", 3, 31)] {
        let sql = format!(
            "CREATE TABLE {name} AS SELECT i AS id, {key} AS k, i % 3 AS g, i * 1.5::DOUBLE AS x
             FROM (SELECT value AS i FROM generate_series({first}, {}))",
            first + rows
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    ctx
}

#[tokio::test]
async fn joins() {
    let mut n = 0;
    for (name, key) in KEYS {
        let ctx = tables(key).await;
        for condition in [
            "r.k = s.k",
            "r.g = s.g AND r.k = s.k",
            "r.k IS NOT DISTINCT FROM s.k",
            "r.k = s.k AND r.x < s.x",
        ] {
            for kind in KINDS {
                let sql = kind.sql("r", "s", &["id", "k"], condition);
                let stock = stock(&ctx, &sql).await;
                let stock = stock.unwrap_or_else(|error| panic!("{name}: {sql}\n{error}"));
                for _ in 0..2 {
                    n += 1;
                    check(&ctx, &sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
                }
            }
        }
        for right in ["SELECT k FROM s", "SELECT k FROM s WHERE k IS NOT NULL"] {
            let sql = format!("SELECT id FROM r WHERE k NOT IN ({right})");
            let stock = stock(&ctx, &sql).await.unwrap();
            n += 1;
            check(&ctx, &sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
        }
    }
}

#[tokio::test]
async fn groups_and_set_operations() {
    for (n, (_, key)) in KEYS.into_iter().enumerate() {
        let ctx = tables(key).await;
        for (turn, sql) in [
            "SELECT k, count(*), sum(id), min(x), avg(x) FROM r GROUP BY k",
            "SELECT g, k, count(DISTINCT id), median(x) FROM r GROUP BY g, k",
            "SELECT g, k, count(*) FROM r GROUP BY ROLLUP (g, k)",
            "SELECT DISTINCT k FROM r",
            "SELECT k FROM r UNION SELECT k FROM s",
            "SELECT k, count(n) FROM (SELECT r.k, s.id AS n FROM r FULL JOIN s ON r.k = s.k) GROUP BY k",
        ]
        .into_iter()
        .enumerate()
        {
            check::check(&ctx, sql, check::tunings(turn * 3 + n, 5)).await;
        }
        for sql in [
            "SELECT r.k, sum(s.id) FROM r JOIN s ON r.k = s.k GROUP BY r.k",
            "SELECT k FROM r INTERSECT SELECT k FROM s",
            "SELECT k FROM r EXCEPT ALL SELECT k FROM s",
            "SELECT k, g FROM r EXCEPT SELECT k, g FROM s",
        ] {
            let stock = stock(&ctx, sql).await.unwrap();
            for turn in 0..3 {
                let tuning = Tuning::nth(n * 3 + turn);
                let given = crate::support::answer::forced(&ctx, sql, &tuning)
                    .await
                    .unwrap();
                assert!(!given.plan.contains("HashJoinExec"), "{}", given.plan);
                same_rows(&stock, &given).unwrap();
            }
        }
    }
}
