//! Aggregations over any rows: forced and stock give the same rows, floats up to rounding.
//!
//! MIN and MAX of floats with NaN depend on the order of rows in DataFusion itself, so no argument holds NaN here.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, Int8Array, Int32RunArray, Int64Array, RecordBatch,
    StringArray,
};
use arrow::datatypes::{DataType, Int8Type};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;

use crate::answer::{declines, forced, similar_rows, stock};
use crate::domains::orderable_types;
use crate::session::{Tuning, session};
use crate::tables::{keyed_table, mixed_table, register};

const NODE: &str = "BowtieAggregateExec";

/// Checks that `sql` gives the rows of DataFusion, or its error, and that no aggregation of DataFusion is left.
pub async fn check(ctx: &SessionContext, sql: &str, tunings: impl Iterator<Item = Tuning>) {
    assert!(is_taken(ctx, sql, tunings).await, "{sql}");
}

/// Checks that `sql` gives the rows of DataFusion, or its error; says whether all its aggregations were taken.
pub async fn is_taken(
    ctx: &SessionContext,
    sql: &str,
    tunings: impl Iterator<Item = Tuning>,
) -> bool {
    let stock = stock(ctx, sql).await;
    let mut taken = true;
    for tuning in tunings {
        match (&stock, forced(ctx, sql, &tuning).await) {
            (Ok(stock), Ok(given)) => {
                taken &= given.plan.contains(NODE) && !given.plan.contains(" AggregateExec");
                if let Err(difference) = similar_rows(stock, &given) {
                    panic!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan);
                }
            }
            // What cannot be planned tests nothing.
            (Err(error), Err(_)) => assert!(
                !matches!(
                    error.find_root(),
                    DataFusionError::Plan(_) | DataFusionError::SchemaError(..)
                ),
                "{sql}\n{error}"
            ),
            (Ok(_), Err(error)) => panic!("{sql}\n{tuning:?}\nfails when forced: {error}"),
            (Err(error), Ok(_)) => panic!("{sql}\n{tuning:?}\nfails only in stock: {error}"),
        }
    }
    taken
}

pub fn tunings(first: usize, count: usize) -> impl Iterator<Item = Tuning> {
    (first..first + count).map(Tuning::nth)
}

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

/// A set of nothing has a row even of no rows, and may be the only one.
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

/// CASE makes no NULLs of types that keep them elsewhere than in a bitmap.
#[tokio::test]
async fn filtered_counts_of_runs() {
    let ctx = session();
    let runs: Int32RunArray = [
        Some(1),
        Some(1),
        None,
        Some(4),
        Some(4),
        None,
        None,
        Some(2),
    ]
    .map(|value: Option<i32>| value.map(|v| v.to_string()))
    .iter()
    .map(|value| value.as_deref())
    .collect();
    let ids = Int64Array::from_iter_values(0..runs.len() as i64);
    let batch =
        RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef), ("runs", Arc::new(runs))]);
    register(&ctx, "c", &batch.unwrap());
    for sql in [
        "SELECT count(runs) FILTER (WHERE id > 2), count(runs) FROM c",
        "SELECT id % 2 AS m, count(runs) FILTER (WHERE id > 2) FROM c GROUP BY id % 2",
    ] {
        check(&ctx, sql, tunings(2, 4)).await;
    }
    let sql =
        "SELECT count(x.runs) FILTER (WHERE x.id > 2), count(*) FROM c x JOIN c y ON x.id < y.id";
    let expected = stock(&ctx, sql).await.unwrap();
    for tuning in tunings(1, 4) {
        let given = forced(&ctx, sql, &tuning).await.unwrap();
        assert!(
            given.plan.contains("BowtieJoinAggregateExec"),
            "{}",
            given.plan
        );
        similar_rows(&expected, &given).unwrap();
    }
}

/// Keys and extremes of every type that has an order.
#[tokio::test]
async fn types() {
    let ctx = session();
    let mut extremes = 0;
    for (turn, data_type) in orderable_types().iter().enumerate() {
        register(&ctx, "r", &keyed_table(data_type, 120, 0.2, turn as u64));
        let sql = "SELECT k, count(*), count(l), sum(id), min(id) FROM r GROUP BY k";
        let taken = is_taken(&ctx, sql, tunings(turn, 3)).await;
        // A dictionary may hold both zeros, which are one group.
        let zeros = matches!(data_type, DataType::Dictionary(_, values) if values.is_floating());
        assert_eq!(taken, !zeros, "{data_type}");
        if zeros {
            continue;
        }
        let sql = "SELECT k, l, count(*) FROM r GROUP BY k, l";
        check(&ctx, sql, tunings(turn + 2, 2)).await;
        if !data_type.is_floating() {
            let sql = "SELECT id % 7 AS i, min(k), max(l) FROM r GROUP BY id % 7";
            // DataFusion has no grouped extremes of some types.
            extremes += usize::from(is_taken(&ctx, sql, tunings(turn + 4, 2)).await);
        }
    }
    assert!(extremes > 25, "{extremes}");
}

/// Sums that overflow, and expressions that fail, do what DataFusion's do.
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

/// An aggregation that is not fused with the join below it reads the join's rows where they are.
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

/// More groups than are left to wait: they are merged again and again.
#[tokio::test]
async fn many_groups_of_several_chunks() {
    let ctx = session();
    let sql = "SELECT count(*), sum(n), sum(m), sum(k), count(b) FROM (
        SELECT value % 1500000 AS k, count(*) AS n, max(value * 7) AS m, avg(CASE WHEN value % 3 > 0 THEN value END) AS b
        FROM generate_series(1, 2600000) GROUP BY value % 1500000)";
    check(&ctx, sql, [Tuning::PLAIN].into_iter()).await;
}

/// Dictionaries of several chunks, whose values together are more than their keys can tell apart.
#[tokio::test]
async fn small_dictionaries_of_several_chunks() {
    let ctx = session();
    let batches: Vec<RecordBatch> = (0..6)
        .map(|piece| {
            let values = (0..100).map(|i| format!("value {}", piece * 80 + i));
            let values: StringArray = values.map(Some).collect();
            let keys: Int8Array = (0..100).map(|i| (i % 9 > 0).then_some(i as i8)).collect();
            let k = DictionaryArray::<Int8Type>::new(keys, Arc::new(values));
            let ids = Int64Array::from_iter_values(piece * 100..piece * 100 + 100);
            RecordBatch::try_from_iter([
                ("k", Arc::new(k) as ArrayRef),
                ("id", Arc::new(ids) as ArrayRef),
            ])
            .unwrap()
        })
        .collect();
    let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    ctx.register_table("d", Arc::new(table)).unwrap();
    for sql in [
        "SELECT id % 7 AS m, min(k), max(k), count(k) FROM d GROUP BY id % 7",
        "SELECT CAST(k AS VARCHAR) AS t, count(*) FROM d GROUP BY CAST(k AS VARCHAR)",
    ] {
        check(&ctx, sql, tunings(0, 8)).await;
        assert!(stock(&ctx, sql).await.is_ok(), "{sql}");
    }
    // All of them in one dictionary may be too much for DataFusion too.
    let sql = "SELECT k, count(*), sum(id) FROM d GROUP BY k";
    is_taken(&ctx, sql, tunings(0, 8)).await;
}

/// What is not taken says why.
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

/// DataFusion 55.2 itself fails on it with groups.
#[tokio::test]
async fn distinct_values_of_bit_xor_are_left_to_datafusion() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.2, 1));
    let sql = "SELECT bit_xor(DISTINCT b), count(DISTINCT a) FROM r";
    let stock = stock(&ctx, sql).await.unwrap();
    let given = forced(&ctx, sql, &Tuning::PLAIN).await.unwrap();
    assert!(!given.plan.contains(NODE), "{}", given.plan);
    similar_rows(&stock, &given).unwrap();
}
