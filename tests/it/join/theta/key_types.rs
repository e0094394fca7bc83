//! Key type × operator × NULL density, in full; join type, strategy and tuning in rotation.

use std::collections::BTreeSet;

use arrow::datatypes::DataType;

use crate::support::answer::{check, stock};
use crate::support::join_types::KINDS;
use crate::support::key_types::{is_dictionary_of_floats, orderable_types};
use crate::support::session::session;
use crate::support::tables::{keyed_table, register};
use crate::support::tuning::Tuning;

const CONDITIONS: [&str; 8] = [
    "r.k < s.k",
    "r.k <= s.k",
    "r.k > s.k",
    "r.k >= s.k",
    "r.k <> s.k",
    "r.k = s.k",
    "r.k < s.k AND r.l >= s.l",
    "r.k = s.k AND r.l > s.l",
];

#[tokio::test]
async fn key_types() {
    let mut skipped = BTreeSet::new();
    let mut turn = 0;
    for data_type in orderable_types() {
        let ctx = session();
        for nulls in [0.0, 0.3, 1.0] {
            register(&ctx, "large", &keyed_table(&data_type, 31, nulls, 7));
            register(&ctx, "small", &keyed_table(&data_type, 23, nulls, 8));
            for condition in CONDITIONS {
                turn += 1;
                // Shifted, so that every condition meets every join type.
                let kind = KINDS[(turn + turn / 40) % KINDS.len()];
                let (left, right) = match turn / KINDS.len() % 2 {
                    0 => ("large", "small"),
                    _ => ("small", "large"),
                };
                let sql = kind.sql(left, right, &["id", "k"], condition);
                let stock = match stock(&ctx, &sql).await {
                    Ok(stock) => stock,
                    Err(error) => {
                        let reason = error.strip_backtrace();
                        let reason = reason.lines().next().unwrap_or_default();
                        skipped.insert(format!("{data_type}: DataFusion refuses it: {reason}"));
                        continue;
                    }
                };
                // Conditions and strategies have coprime numbers.
                let strategy = ["auto", "auto", "tiles"][turn % 3];
                let tuning = Tuning::nth(turn).with_strategy(strategy);
                check_or_declined(&ctx, &sql, &data_type, &tuning, &stock).await;
            }
        }
    }
    for skipped in &skipped {
        println!("skipped {skipped}");
    }
}

/// Equality on a dictionary of floats is declined; all else must be offloaded.
async fn check_or_declined(
    ctx: &datafusion::prelude::SessionContext,
    sql: &str,
    data_type: &DataType,
    tuning: &Tuning,
    stock: &crate::support::answer::Answer,
) {
    if is_dictionary_of_floats(data_type) && sql.contains(" = s.k") {
        println!("skipped {data_type}: bowtie leaves equality on it to DataFusion");
        return;
    }
    check(ctx, sql, tuning, stock, &["BowtieJoinExec"]).await;
}
