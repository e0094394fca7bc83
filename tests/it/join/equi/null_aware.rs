//! `NOT IN` as a null-aware anti join, by every strategy.

use crate::join::equi::strategies::{MATERIALIZATIONS, STRATEGIES, turn};
use crate::support::answer::{check, stock};
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

/// NULLs on either side, none, and an empty right side.
#[tokio::test]
async fn null_aware_anti_joins() {
    let ctx = session();
    register(&ctx, "nulls", &mixed_table(60, 0.15, 5));
    register(&ctx, "others", &mixed_table(45, 0.15, 6));
    register(&ctx, "full", &mixed_table(30, 0.0, 7));
    let mut n = 0;
    for (left, right) in [
        ("nulls", "SELECT b FROM full"),
        ("nulls", "SELECT b FROM others"),
        ("full", "SELECT b FROM others"),
        ("nulls", "SELECT b FROM full WHERE b > 100"),
        ("nulls", "SELECT b FROM others WHERE b > 100"),
        ("full", "SELECT b + 3 FROM full"),
        (
            "nulls",
            "SELECT others.b FROM others JOIN full ON others.a = full.a WHERE others.b IS NOT NULL",
        ),
    ] {
        let sql = format!("SELECT l.id, l.a, l.t FROM {left} l WHERE l.a NOT IN ({right})");
        let stock = stock(&ctx, &sql).await.unwrap();
        for _ in 0..STRATEGIES.len() * MATERIALIZATIONS.len() {
            turn(&ctx, n);
            let plan = check(&ctx, &sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
            assert!(plan.contains("null_aware") || left == "full", "{plan}");
            n += 1;
        }
    }
}
