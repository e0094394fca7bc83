//! Key type × operator × NULL density, in full; join type, strategy and tuning in rotation.

use crate::support::answer::{assert_offloaded, forced, stock};
use crate::support::compare::same_rows;
use crate::support::join_types::KINDS;
use crate::support::key_types::orderable_types;
use crate::support::left_out::{By, LeftOut};
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
    let mut left_out = LeftOut::default();
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
                let case = format!("{data_type}: {condition}");
                let Ok(stock) = stock(&ctx, &sql).await else {
                    left_out.leave(case, By::DataFusion);
                    continue;
                };
                // Conditions and strategies have coprime numbers.
                let strategy = ["auto", "auto", "tiles"][turn % 3];
                let tuning = Tuning::nth(turn).with_strategy(strategy);
                let given = forced(&ctx, &sql, &tuning).await;
                let given = given.unwrap_or_else(|e| panic!("{case}: {sql}\n{tuning:?}\n{e}"));
                if !given.plan.contains("Bowtie") {
                    left_out.leave(case, By::Bowtie);
                    continue;
                }
                assert_offloaded(&sql, &given.plan, &["BowtieJoinExec"]);
                if let Err(difference) = same_rows(&stock, &given) {
                    panic!("{case}: {sql}\n{tuning:?}\n{}\n{difference}", given.plan);
                }
                left_out.compared(case);
            }
        }
    }
    // DataFusion has two zeros in a dictionary.
    let equalities = ["r.k = s.k", "r.k = s.k AND r.l > s.l"];
    left_out
        .assert_are(&equalities.map(|on| format!("Dictionary(Int32, Float64): {on} by Bowtie")));
}
