//! Groups by one key and by several, grouping sets, and what is declined.

use crate::aggregate::check::{NODE, check, tunings};
use crate::support::answer::declines;
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

const AGGREGATES: &str = "count(*), count(c), count(1), sum(a), sum(c), avg(b), avg(c), min(a), max(t), min(t), max(c), \
     count(*) FILTER (WHERE b > 4), sum(b) FILTER (WHERE a < 12), max(a) FILTER (WHERE t IS NOT NULL), min(DISTINCT b), \
     bool_and(a > 3), bool_or(a > 18), bit_and(a), bit_or(b), bit_xor(id), sum(id * 2 - a), \
     sum(CAST(a + 1 AS DECIMAL(12, 2))) AS u, avg(CAST(b + 1 AS DECIMAL(12, 2))) AS v";

#[tokio::test]
async fn groups() {
    let ctx = session();
    for (seed, rows) in [0, 1, 31, 150, 700].into_iter().enumerate() {
        register(&ctx, "r", &mixed_table(rows, 0.2, seed as u64));
        for (turn, group) in [
            "",
            "g",
            "t",
            "a, g",
            "g, t, c",
            "id",
            "c",
            "a + b",
            "g IS NULL",
            "t, id % 3",
        ]
        .iter()
        .enumerate()
        {
            let sql = match group.is_empty() {
                true => format!("SELECT {AGGREGATES} FROM r"),
                false => format!("SELECT {group}, {AGGREGATES} FROM r GROUP BY {group}"),
            };
            check(&ctx, &sql, tunings(turn * 7 + seed, 4)).await;
        }
    }
}

#[tokio::test]
async fn grouping_sets() {
    let ctx = session();
    for (seed, rows) in [0, 90].into_iter().enumerate() {
        register(&ctx, "r", &mixed_table(rows, 0.3, seed as u64));
        for (turn, sets) in [
            "ROLLUP (g, t)",
            "CUBE (g, b)",
            "GROUPING SETS ((g), (t, b), ())",
            "GROUPING SETS ((g), (g), (b))",
            "GROUPING SETS ((g, b), (), ())",
        ]
        .iter()
        .enumerate()
        {
            let columns = match sets.contains('t') && !sets.starts_with("GROUPING") {
                true => "g, t, grouping(g), grouping(t)",
                false if sets.contains('t') => "g, t, b, grouping(t)",
                false => "g, b, grouping(b)",
            };
            let sql = format!("SELECT {columns}, count(*), sum(a), max(t) FROM r GROUP BY {sets}");
            check(&ctx, &sql, tunings(turn * 5, 6)).await;
        }
    }
}

/// The empty grouping set has a row even where the input has none, and may be the only set.
#[tokio::test]
async fn sets_of_nothing() {
    let ctx = session();
    for rows in [0, 20] {
        register(&ctx, "r", &mixed_table(rows, 0.3, 1));
        for sets in ["GROUPING SETS (())", "GROUPING SETS ((), ())"] {
            let sql = format!("SELECT count(*), sum(a), max(t) FROM r GROUP BY {sets}");
            check(&ctx, &sql, tunings(3, 4)).await;
        }
    }
}

/// Sums that overflow and expressions that fail give DataFusion's rows or its error.
#[tokio::test]
async fn overflow_and_failures() {
    let ctx = session();
    let sql = "CREATE TABLE r AS SELECT arrow_cast(i, 'Int64') AS i, arrow_cast(u, 'UInt64') AS u, d, z FROM (VALUES
        (9223372036854775807, 18446744073709551615, 99999999999999999999999999999999999999::DECIMAL(38, 0), 1),
        (9223372036854775807, 18446744073709551615, 99999999999999999999999999999999999999::DECIMAL(38, 0), 0),
        (-5, 7, 1::DECIMAL(38, 0), 2)) AS t(i, u, d, z)";
    ctx.sql(sql).await.unwrap().collect().await.unwrap();
    for sql in [
        "SELECT sum(i), sum(u), avg(i) FROM r",
        "SELECT z > 0 AS p, sum(i), sum(u) FROM r GROUP BY z > 0",
        "SELECT sum(d) FROM r",
        "SELECT z > 0 AS p, sum(d), avg(d) FROM r GROUP BY z > 0",
        "SELECT sum(10 / z) FROM r",
        "SELECT 10 / z AS q, count(*) FROM r GROUP BY 10 / z",
        "SELECT sum(10 / z) FILTER (WHERE z > 0) FROM r",
        "SELECT z > 5 AS p, sum(10 / z) FILTER (WHERE z > 0) FROM r GROUP BY z > 5",
    ] {
        check(&ctx, sql, tunings(0, 4)).await;
    }
}

/// So many groups that partial results of chunks are merged several times.
#[tokio::test]
async fn many_groups_of_several_chunks() {
    let ctx = session();
    let sql = "SELECT count(*), sum(n), sum(m), sum(k), count(b) FROM (
        SELECT value % 1500000 AS k, count(*) AS n, max(value * 7) AS m, avg(CASE WHEN value % 3 > 0 THEN value END) AS b
        FROM generate_series(1, 2600000) GROUP BY value % 1500000)";
    check(&ctx, sql, [Tuning::PLAIN].into_iter()).await;
}

/// A declined aggregation has a reason.
#[tokio::test]
async fn declined() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.2, 1));
    for (aggregates, reason) in [
        ("corr(a, b)", "corr(r.a,r.b) is not implemented on a device"),
        (
            "min([a])",
            "min(make_array(r.a)) of type List(Int32) is not implemented on a device",
        ),
        ("array_agg(a ORDER BY b)", "is not implemented on a device"),
    ] {
        let sql = format!("SELECT g, {aggregates} FROM r GROUP BY g");
        declines(&ctx, &sql, NODE, reason).await;
    }
}

/// DataFusion numbers the sets by the bits of their keys, and the device too.
#[tokio::test]
async fn keys_of_grouping_sets() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(40, 0.1, 1));
    let sql = |keys: i64| {
        let all: Vec<String> = (0..keys).map(|key| format!("id + {key}")).collect();
        let all = all.join(", ");
        format!("SELECT count(*), sum(a) FROM r GROUP BY GROUPING SETS (({all}), (id + 1), ())")
    };
    check(&ctx, &sql(48), tunings(0, 2)).await;
    let reason = "its grouping sets have more than 48 keys";
    declines(&ctx, &sql(49), NODE, reason).await;
}
