//! Expressions that fail on some row: forced fails only where DataFusion fails.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::prelude::SessionContext;

use crate::support::answer::{assert_offloaded, forced, stock};
use crate::support::compare::same_rows;
use crate::support::session::session;
use crate::support::tables::register;
use crate::support::tuning::Tuning;

fn tables() -> SessionContext {
    let ctx = session();
    let rows = 40;
    let a = Int64Array::from_iter_values((0..rows).map(|i| i % 10));
    let b = Int64Array::from_iter_values((0..rows).map(|i| i % 4));
    let t: StringArray = (0..rows)
        .map(|i| match i % 8 {
            3 => Some("no number".to_string()),
            i => Some(i.to_string()),
        })
        .collect();
    let batch = RecordBatch::try_from_iter([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef,
        ),
        ("a", Arc::new(a)),
        ("b", Arc::new(b)),
        ("t", Arc::new(t)),
    ])
    .unwrap();
    register(&ctx, "r", &batch);
    register(&ctx, "s", &batch);
    ctx
}

/// Checks that forced gives the rows of stock; `stock_fails` is the message where stock fails.
async fn check(ctx: &SessionContext, sql: &str, stock_fails: Option<&str>) {
    let stock = stock(ctx, sql).await;
    match (&stock, stock_fails) {
        (Ok(_), None) => {}
        (Err(error), Some(message)) => {
            assert!(error.to_string().contains(message), "{sql}\n{error}");
        }
        (stock, _) => panic!("{sql}\nexpected {stock_fails:?} of DataFusion: {stock:?}"),
    }
    for n in 0..5 {
        for strategy in ["auto", "tiles"] {
            let tuning = Tuning::nth(n).with_strategy(strategy);
            match (&stock, forced(ctx, sql, &tuning).await) {
                (Ok(stock), Ok(given)) => {
                    assert_offloaded(sql, &given.plan, &["Bowtie"]);
                    if let Err(difference) = same_rows(stock, &given) {
                        panic!("{sql}\n{tuning:?}\n{difference}");
                    }
                }
                (Err(_), Err(error)) => {
                    let message = stock_fails.unwrap_or_default();
                    assert!(error.to_string().contains(message), "{sql}\n{error}");
                }
                (Ok(_), Err(error)) => {
                    panic!("{sql}\n{tuning:?}\nfails only when forced: {error}")
                }
                // The failing expression may be evaluated on fewer pairs; then an answer is right.
                (Err(_), Ok(_)) => {}
            }
        }
    }
}

const NO_NUMBER: &str = "Cannot cast string 'no number'";

const BY_ZERO: &str = "Divide by zero";

#[tokio::test]
async fn failing_keys() {
    let ctx = tables();
    for condition in [
        "CAST(r.t AS INT) > s.a",
        "r.a > s.a AND CAST(s.t AS INT) < r.b",
        "r.b = s.b AND CAST(r.t AS INT) > s.a",
        "CAST(r.t AS INT) = s.a AND r.b > s.b",
        "CAST(r.t AS INT) = s.a",
    ] {
        for kind in ["INNER", "LEFT", "FULL"] {
            let sql = format!("SELECT r.id AS i, s.id AS j FROM r {kind} JOIN s ON {condition}");
            check(&ctx, &sql, Some(NO_NUMBER)).await;
        }
    }
    let sql = "SELECT r.id AS i, s.id AS j FROM r JOIN s ON 10 / r.b > s.a";
    check(&ctx, sql, Some(BY_ZERO)).await;
}

/// A key that every pair needs: forced must fail too.
#[tokio::test]
async fn failing_keys_fail_forced_too() {
    let ctx = tables();
    for sql in [
        "SELECT r.id AS i FROM r JOIN s ON CAST(r.t AS INT) > s.a",
        "SELECT r.id AS i FROM r JOIN s ON CAST(r.t AS INT) = s.a AND r.b > s.b",
        "SELECT count(*) FROM r JOIN s ON CAST(r.t AS INT) > s.a",
        "SELECT r.id AS i FROM r JOIN s ON r.a / s.b > 1",
        "SELECT r.id AS i FROM r WHERE EXISTS (SELECT 1 FROM s WHERE r.a / s.b > 1)",
        "SELECT r.id AS i FROM r LEFT SEMI JOIN s ON CAST(r.t AS INT) = s.a",
        "SELECT s.id AS i FROM r RIGHT ANTI JOIN s ON CAST(r.t AS INT) = s.a",
        "SELECT r.id AS i FROM r LEFT ANTI JOIN s ON r.a = CAST(s.t AS INT)",
        "SELECT s.id AS i FROM r RIGHT SEMI JOIN s ON r.a = CAST(s.t AS INT)",
    ] {
        assert!(stock(&ctx, sql).await.is_err(), "{sql}");
        for n in 0..6 {
            let given = forced(&ctx, sql, &Tuning::nth(n)).await;
            assert!(given.is_err(), "{sql}\n{:?}", Tuning::nth(n));
        }
    }
}

/// Checks that forced has an answer, even where DataFusion fails: its nested loop evaluates an expression of one side without any pair.
async fn never_fails(ctx: &SessionContext, sql: &str) {
    let stock = stock(ctx, sql).await;
    for n in 0..5 {
        let tuning = Tuning::nth(n);
        match (&stock, forced(ctx, sql, &tuning).await) {
            (Ok(stock), Ok(given)) => {
                if let Err(difference) = same_rows(stock, &given) {
                    panic!("{sql}\n{tuning:?}\n{difference}");
                }
            }
            (Err(_), Ok(_)) => {}
            (_, Err(error)) => panic!("{sql}\n{tuning:?}\nfails when forced: {error}"),
        }
    }
}

/// No pair is tested, so nothing fails.
#[tokio::test]
async fn nothing_fails_beside_an_empty_side() {
    let ctx = tables();
    let none = "(SELECT * FROM s WHERE a + b < -1)";
    for condition in [
        "CAST(r.t AS INT) > s.a",
        "r.a / s.b > 1",
        "r.a > s.a AND CAST(r.t AS INT) < s.b AND r.b + s.b > 2",
        "r.b = s.b AND CAST(r.t AS INT) > s.a",
        // No pair has equal keys.
        "r.b + 10 = s.b AND CAST(r.t AS INT) > s.a",
    ] {
        for kind in ["INNER", "LEFT", "RIGHT", "FULL", "LEFT ANTI", "LEFT SEMI"] {
            let sql = format!("SELECT r.id AS i FROM r {kind} JOIN {none} s ON {condition}");
            let sql = match kind {
                "RIGHT" => sql.replace("r.id AS i", "s.id AS i"),
                _ => sql,
            };
            never_fails(&ctx, &sql).await;
        }
    }
    let sql =
        "SELECT r.id AS i, s.id AS j FROM r JOIN s ON r.b + 10 = s.b AND CAST(r.t AS INT) > s.a";
    never_fails(&ctx, sql).await;
}

/// CASE, or AND with few rows left, keeps the rows that would fail from the expression.
#[tokio::test]
async fn guarded_expressions() {
    let ctx = tables();
    for condition in [
        "CASE WHEN s.b <> 0 THEN r.a / s.b ELSE 0 END > 1",
        "r.a > s.a AND CASE WHEN s.b <> 0 THEN r.a / s.b ELSE 0 END > 1",
        "CASE WHEN r.b <> 0 THEN 10 / r.b ELSE 0 END > s.a",
        "r.a > s.a + 7 AND s.b <> 0 AND r.a / s.b > 1",
        "r.a > s.a + 7 AND r.id + s.b <> r.id AND r.a / s.b > 1",
        "r.a > s.a + 6 AND r.b > s.b + 1 AND s.b <> 0 AND r.a / s.b > 1",
    ] {
        for kind in ["INNER", "LEFT", "FULL"] {
            let sql = format!("SELECT r.id AS i, s.id AS j FROM r {kind} JOIN s ON {condition}");
            check(&ctx, &sql, None).await;
        }
    }
}

/// An aggregate's argument, filter or group is evaluated on output rows of the join only.
#[tokio::test]
async fn failing_arguments() {
    let ctx = tables();
    for query in [
        "count(CAST(s.t AS INT)) FROM r JOIN s ON r.a > s.a AND s.t <> 'no number'",
        "sum(10 / s.b) FROM r JOIN s ON r.b > s.b AND s.b > 0",
        "sum(10 / s.b) FROM r JOIN s ON s.b BETWEEN r.b AND r.b AND r.b > 0",
        "count(*) FILTER (WHERE 10 / s.b > 3) FROM r JOIN s ON s.b BETWEEN r.b AND r.b AND r.b > 0",
        "s.b / s.b AS g, count(*) FROM r JOIN s ON s.b BETWEEN r.b AND r.b AND r.b > 0 GROUP BY s.b / s.b",
    ] {
        check(&ctx, &format!("SELECT {query}"), None).await;
    }
}
