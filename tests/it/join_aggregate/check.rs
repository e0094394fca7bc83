//! Aggregates over joins, fused with them: forced and stock give the same rows, floats up to rounding.
//!
//! MIN and MAX of floats with NaN depend on the order of rows in DataFusion itself, so no argument holds NaN here.

use datafusion::prelude::SessionContext;

use crate::support::answer::{assert_offloaded, forced, stock};
use crate::support::compare::similar_rows;
use crate::support::tuning::Tuning;

const FUSED: &str = "BowtieJoinAggregateExec";

/// Checks that `sql` gives the rows of DataFusion, or its error; `fused` says whether the plan must be fused or not.
pub(crate) async fn check(ctx: &SessionContext, sql: &str, fused: bool, tunings: &[Tuning]) {
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
            // DataFusion declares the cast of a dictionary as non-nullable where no key is NULL, and fails where a value is.
            (Err(error), Ok(_)) if error.to_string().contains("non-nullable but contains null") => {
            }
            (Ok(_), Err(error)) => panic!("{sql}\n{tuning:?}\nfails when forced: {error}"),
            (Err(error), Ok(_)) => panic!("{sql}\n{tuning:?}\nfails only in stock: {error}"),
        }
    }
}

pub(crate) fn tunings(first: usize, count: usize) -> Vec<Tuning> {
    (first..first + count).map(Tuning::nth).collect()
}
