//! Aggregates over joins, fused with them: forced and stock give the same rows, floats up to rounding.
//!
//! MIN and MAX of floats with NaN depend on the order of rows in DataFusion itself, so no argument holds NaN here.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::answer::{assert_offloaded, forced, similar_rows, stock};
use crate::domains::{domain, orderable_types};
use crate::session::{Tuning, session};
use crate::tables::{drawn, keyed_table, mixed_table, register};

const FUSED: &str = "BowtieJoinAggregateExec";

/// Checks that `sql` gives the rows of DataFusion, or its error; `fused` says whether the plan must be fused or not.
async fn check(ctx: &SessionContext, sql: &str, fused: bool, tunings: &[Tuning]) {
    let stock = stock(ctx, sql).await;
    for tuning in tunings {
        match (&stock, forced(ctx, sql, tuning).await) {
            (Ok(stock), Ok(given)) => {
                assert_offloaded(sql, &given.plan, &["Bowtie"]);
                assert_eq!(given.plan.contains(FUSED), fused, "{sql}\n{}", given.plan);
                if let Err(difference) = similar_rows(stock, &given) {
                    panic!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan);
                }
            }
            (Err(_), Err(_)) => {}
            // A cast of a dictionary's values, some of which are NULL: DataFusion looks at its keys alone and promises none.
            (Err(error), Ok(_)) if error.to_string().contains("non-nullable but contains null") => {
            }
            (Ok(_), Err(error)) => panic!("{sql}\n{tuning:?}\nfails when forced: {error}"),
            (Err(error), Ok(_)) => panic!("{sql}\n{tuning:?}\nfails only in stock: {error}"),
        }
    }
}

fn tunings(first: usize, count: usize) -> Vec<Tuning> {
    (first..first + count).map(Tuning::nth).collect()
}

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

/// Strategies lead to different ways of aggregating.
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

/// Aggregates that DataFusion computes above bowtie's join.
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

/// DataFusion makes one DISTINCT a GROUP BY, and that is fused.
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

/// An expression that the optimizer computes once, for several aggregates, reads each column of its own.
#[tokio::test]
async fn columns_through_a_projection() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(47, 0.0, 1));
    register(&ctx, "s", &mixed_table(29, 0.0, 2));
    let query = "SELECT sum(s.hi + s.b * s.b), sum(s.b * s.b + s.lo), max(s.b * s.b) FROM r JOIN s ON r.a > s.a";
    check(&ctx, query, true, &[Tuning::PLAIN]).await;
}

/// Every type as the argument of every aggregate that takes it, and as the group; grouping and side in rotation.
#[tokio::test]
async fn argument_types() {
    let mut turn = 0;
    for data_type in orderable_types() {
        let (ctx, plain) = (session(), session());
        for nulls in [0.0, 0.4, 1.0] {
            for (name, seed, rows) in [("r", 21, 33), ("s", 22, 27)] {
                let batch = arguments(&data_type, rows, nulls, seed);
                register(&ctx, name, &batch);
                register(&plain, name, &without_dictionaries(&batch));
            }
            for (i, (aggregate, condition)) in [
                ("count({}.k)", "r.g > s.g"),
                ("min({}.k), max({}.k)", "r.g > s.g"),
                ("min({}.k), max({}.l)", "r.g < s.g AND r.id > s.id"),
                ("sum({}.k), count(*)", "r.g > s.g"),
                ("avg({}.k), avg({}.l)", "r.g <= s.g"),
            ]
            .into_iter()
            .enumerate()
            {
                // Each aggregate meets the four pairs of a grouping and an argument's side.
                turn += 1;
                let (listed, group) = match (turn + i) % 2 {
                    0 => ("", ""),
                    _ => ("r.g, ", " GROUP BY r.g"),
                };
                let side = if turn / 2 % 2 == 0 { "r" } else { "s" };
                let aggregate = aggregate.replace("{}", side);
                let sql =
                    format!("SELECT {listed}{aggregate} FROM r LEFT JOIN s ON {condition}{group}");
                same_or_both_fail(&ctx, &plain, &sql, &Tuning::nth(turn)).await;
            }
            let sql = "SELECT r.k, count(*), sum(s.g) FROM r JOIN s ON r.g > s.g GROUP BY r.k";
            same_or_both_fail(&ctx, &plain, sql, &Tuning::nth(turn)).await;
        }
    }
}

/// Whether it is fused depends on the type: that its rows are right does not.
///
/// DataFusion promises a column without NULLs where it casts a dictionary by whose keys none is NULL, but some value, and then fails on its
/// own promise. There the answer is that for `plain`, the same rows without dictionaries.
async fn same_or_both_fail(
    ctx: &SessionContext,
    plain: &SessionContext,
    sql: &str,
    tuning: &Tuning,
) {
    let broken_promise = "declared as non-nullable but contains null values";
    let is_broken = |error: &dyn ToString| error.to_string().contains(broken_promise);
    let given = forced(ctx, sql, tuning).await;
    let expected = match (stock(ctx, sql).await, &given) {
        (Err(error), Ok(_)) if is_broken(&error) => stock(plain, sql).await,
        (expected, _) => expected,
    };
    match (expected, given) {
        (Ok(stock), Ok(given)) => {
            if let Err(difference) = similar_rows(&stock, &given) {
                panic!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan);
            }
        }
        (Err(_), Err(_)) => {}
        (Ok(_), Err(error)) => panic!("{sql}\n{tuning:?}\nfails when forced: {error}"),
        (Err(error), Ok(_)) => panic!("{sql}\n{tuning:?}\nfails only in stock: {error}"),
    }
}

fn without_dictionaries(batch: &RecordBatch) -> RecordBatch {
    let schema = batch.schema();
    let columns = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| {
            let column = match column.data_type() {
                DataType::Dictionary(_, values) => cast(column, values).unwrap(),
                _ => Arc::clone(column),
            };
            (field.name().clone(), column)
        });
    RecordBatch::try_from_iter(columns.collect::<Vec<_>>()).unwrap()
}

/// As [`keyed_table`], with a group column `g`, and without NaN and infinities.
fn arguments(data_type: &DataType, rows: usize, nulls: f64, seed: u64) -> RecordBatch {
    let batch = keyed_table(data_type, rows, nulls, seed);
    let mut rng = StdRng::seed_from_u64(seed + 100);
    let groups: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]));
    let g = drawn(&mut rng, &groups, rows, 0.1);
    let finite = |column: &ArrayRef, rng: &mut StdRng| match data_type {
        // The last three values of the domain.
        t if t.is_floating() => drawn(rng, &domain(t).slice(6, 3), rows, nulls),
        DataType::Dictionary(_, t) if t.is_floating() => {
            drawn(rng, &domain(data_type).slice(6, 3), rows, nulls)
        }
        // The extremes cancel out in an average: what is left of it depends on the order of rows.
        DataType::Int64 => drawn(rng, &domain(data_type).slice(1, 6), rows, nulls),
        DataType::Dictionary(_, t) if **t == DataType::Int64 => {
            drawn(rng, &domain(data_type).slice(1, 6), rows, nulls)
        }
        _ => Arc::clone(column),
    };
    let k = finite(batch.column(1), &mut rng);
    let l = finite(batch.column(2), &mut rng);
    let id = Arc::clone(batch.column(0));
    RecordBatch::try_from_iter([("id", id), ("g", g), ("k", k), ("l", l)]).unwrap()
}

/// Sums that leave their type's range wrap or fail just as DataFusion's.
#[tokio::test]
async fn sums_beyond_the_range() {
    let ctx = session();
    let most = 10i128.pow(38) - 1;
    let decimals = Decimal128Array::from(vec![Some(most), Some(most), None, Some(-1), Some(most)])
        .with_precision_and_scale(38, 2)
        .unwrap();
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "id",
            Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5])) as ArrayRef,
            false,
        ),
        (
            "i",
            Arc::new(Int64Array::from(vec![
                Some(i64::MAX),
                Some(i64::MAX),
                None,
                Some(i64::MIN),
                Some(7),
            ])),
            true,
        ),
        ("d", Arc::new(decimals), true),
        (
            "f",
            Arc::new(Float64Array::from(vec![
                Some(f64::MAX),
                Some(1.0),
                None,
                Some(f64::INFINITY),
                Some(-f64::MAX),
            ])),
            true,
        ),
    ])
    .unwrap();
    register(&ctx, "r", &batch);
    register(&ctx, "s", &batch);
    for aggregates in [
        "sum(s.i), sum(r.i)",
        "sum(s.d), sum(r.d)",
        "avg(s.d)",
        "avg(r.d)",
    ] {
        for (listed, group) in [("", ""), ("r.id, ", " GROUP BY r.id")] {
            for op in [">", "<", "<>"] {
                let sql =
                    format!("SELECT {listed}{aggregates} FROM r JOIN s ON r.id {op} s.id{group}");
                check(&ctx, &sql, true, &[Tuning::PLAIN, Tuning::nth(1)]).await;
            }
        }
    }
    // An infinity, or a value that swallows others, stays out of groups that do not hold it.
    let sql = "SELECT r.id, sum(s.f), avg(s.f) FROM r JOIN s ON r.id = s.id OR r.id > s.id + 10 GROUP BY r.id";
    check(&ctx, sql, true, &[Tuning::PLAIN]).await;
    let sql =
        "SELECT r.id, sum(s.f), avg(s.f) FROM r JOIN s ON s.id BETWEEN r.id AND r.id GROUP BY r.id";
    check(&ctx, sql, true, &[Tuning::PLAIN]).await;
}

/// Without GROUP BY and without a value there is one row, and all but its counts are NULL.
#[tokio::test]
async fn nothing_to_add_is_null() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(20, 0.0, 1));
    for sql in [
        "SELECT count(*), count(s.a), sum(s.a), min(s.a), max(s.t) FROM r JOIN r s ON r.a > s.a + 1000",
        "SELECT count(*), count(s.a), sum(s.a), min(s.a), max(s.t) FROM r LEFT JOIN r s ON r.a > s.a + 1000",
    ] {
        check(&ctx, sql, true, &[Tuning::PLAIN]).await;
    }
}

/// An average over matches without a value is NULL, not 0 / 0.
#[tokio::test]
async fn an_average_of_nulls_is_null() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(20, 0.0, 1));
    for nulls in [0.5, 1.0] {
        register(&ctx, "s", &mixed_table(20, nulls, 2));
        for sql in [
            "SELECT s.id, avg(s.a), avg(s.c) FROM r JOIN s ON r.id > s.id GROUP BY s.id",
            "SELECT r.id, avg(s.a), avg(s.c) FROM r JOIN s ON r.id > s.id GROUP BY r.id",
            "SELECT avg(s.a), avg(s.c) FROM r JOIN s ON r.id > s.id",
        ] {
            check(&ctx, sql, true, &[Tuning::PLAIN]).await;
        }
    }
}

/// Nothing matches, or nothing is there.
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
