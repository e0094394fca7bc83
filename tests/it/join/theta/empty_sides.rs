//! Join type × empty side × kind of condition.

use crate::support::answer::{check, stock};
use crate::support::join_types::KINDS;
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

#[tokio::test]
async fn empty_sides() {
    let ctx = session();
    // Statistics would let DataFusion plan the join away, so the side is emptied by a filter.
    register(&ctx, "some_rows", &mixed_table(23, 0.2, 1));
    let none = "(SELECT * FROM some_rows WHERE a + b < -1)";
    let some = "(SELECT * FROM some_rows WHERE a + b > -1)";
    let conditions = [
        "r.a > s.a",
        "r.a > s.a AND r.b < s.b",
        "r.a + s.b > 10",
        "r.g = s.g AND r.a <> s.a",
        "r.g = s.g AND r.a < s.a AND r.b + s.b > 3",
    ];
    let mut tuning = 0;
    for (left, right) in [(none, some), (some, none), (none, none)] {
        for condition in conditions {
            for kind in KINDS {
                let sql = kind.sql(left, right, &["id", "t"], condition);
                let stock = stock(&ctx, &sql).await.unwrap();
                for strategy in ["auto", "tiles"] {
                    tuning += 1;
                    let tuning = Tuning::nth(tuning).with_strategy(strategy);
                    check(&ctx, &sql, &tuning, &stock, &["BowtieJoinExec"]).await;
                }
            }
        }
    }
}
