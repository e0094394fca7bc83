//! Checks an aggregation: forced and stock give the same rows, floats up to rounding.
//!
//! MIN and MAX of floats with NaN depend on the order of rows in DataFusion itself, so no argument holds NaN here.

use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;

use crate::support::answer::{forced, stock};
use crate::support::compare::similar_rows;
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

pub(crate) const NODE: &str = "BowtieAggregateExec";

/// Checks that `sql` gives the rows of DataFusion, or its error, and that all its aggregations are offloaded.
pub(crate) async fn check(ctx: &SessionContext, sql: &str, tunings: impl Iterator<Item = Tuning>) {
    assert!(is_offloaded(ctx, sql, tunings).await, "{sql}");
}

/// Checks that `sql` gives the rows of DataFusion, or its error; returns whether all its aggregations are offloaded.
pub(crate) async fn is_offloaded(
    ctx: &SessionContext,
    sql: &str,
    tunings: impl Iterator<Item = Tuning>,
) -> bool {
    let stock = stock(ctx, sql).await;
    let mut taken = true;
    for tuning in tunings {
        match (&stock, forced(ctx, sql, &tuning).await) {
            (Ok(stock), Ok(given)) => {
                let mut lines = given.plan.lines().map(str::trim_start);
                let is_left = lines.any(|line| line.starts_with("AggregateExec"));
                taken &= given.plan.contains(NODE) && !is_left;
                if let Err(difference) = similar_rows(stock, &given) {
                    panic!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan);
                }
            }
            // An error of planning would test nothing.
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

pub(crate) fn tunings(first: usize, count: usize) -> impl Iterator<Item = Tuning> {
    (first..first + count).map(Tuning::nth)
}

const GROUPS: [&str; 6] = ["", "g", "t", "a, g", "id", "g, t, c"];

/// Checks `aggregates` of `r` by each of [`GROUPS`] and by grouping sets, for several row counts; `of_all` without GROUP BY.
pub(crate) async fn by_groups(aggregates: &str, of_all: &str) {
    let ctx = session();
    register(&ctx, "r", &mixed_table(3, 0.2, 0));
    for aggregates in [aggregates, of_all] {
        let sql = format!("SELECT {aggregates} FROM r");
        stock(&ctx, &sql).await.unwrap();
    }
    for (seed, rows) in [0, 1, 31, 150, 700].into_iter().enumerate() {
        register(&ctx, "r", &mixed_table(rows, 0.2, seed as u64));
        for (turn, group) in GROUPS.iter().enumerate() {
            let sql = match group.is_empty() {
                true => format!("SELECT {of_all} FROM r"),
                false => format!("SELECT {group}, {aggregates} FROM r GROUP BY {group}"),
            };
            check(&ctx, &sql, tunings(turn * 7 + seed, 4)).await;
        }
        for (turn, sets) in ["ROLLUP (g, b)", "GROUPING SETS ((g), (b, g), ())"]
            .iter()
            .enumerate()
        {
            let sql = format!("SELECT g, b, grouping(b), {aggregates} FROM r GROUP BY {sets}");
            check(&ctx, &sql, tunings(turn * 5 + seed, 4)).await;
        }
    }
}
