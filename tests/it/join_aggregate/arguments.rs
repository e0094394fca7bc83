//! Arguments of fused aggregates: every type, sums that overflow, and NULLs alone.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::join_aggregate::check::check;
use crate::support::answer::{forced, stock};
use crate::support::compare::similar_rows;
use crate::support::key_types::{domain, orderable_types};
use crate::support::session::session;
use crate::support::tables::{drawn, keyed_table, mixed_table, register};
use crate::support::tuning::Tuning;

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
                // Each aggregate is combined with both groupings and both sides of the argument.
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

/// Whether it is fused depends on the type; the rows must be right either way.
///
/// DataFusion declares the cast of a dictionary as non-nullable where no key is NULL, and fails where a value is. There the expected answer
/// is that of `plain`, the same rows without dictionaries.
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
        // The extremes cancel out in an average, so its rounding error depends on the order of rows.
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

/// Sums that overflow wrap or fail as DataFusion's do.
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
    // An infinity, or a value that absorbs others in a sum, has no effect on other groups.
    let sql = "SELECT r.id, sum(s.f), avg(s.f) FROM r JOIN s ON r.id = s.id OR r.id > s.id + 10 GROUP BY r.id";
    check(&ctx, sql, true, &[Tuning::PLAIN]).await;
    let sql =
        "SELECT r.id, sum(s.f), avg(s.f) FROM r JOIN s ON s.id BETWEEN r.id AND r.id GROUP BY r.id";
    check(&ctx, sql, true, &[Tuning::PLAIN]).await;
}

/// Without GROUP BY and without a match there is one row, in which all but the counts are NULL.
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
