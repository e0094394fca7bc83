//! FIRST_VALUE and LAST_VALUE by an ORDER BY.

use crate::aggregate::check::{by_groups, check, tunings};
use crate::support::answer::declines;
use crate::support::session::session;
use crate::support::tables::{mixed_table, register, register_whole};

/// Values of all types, by orders without ties.
#[tokio::test]
async fn first_and_last_values() {
    by_groups(
        "first_value(a ORDER BY id), last_value(a ORDER BY id), first_value(t ORDER BY id DESC), last_value(c ORDER BY b, id), \
         first_value(id ORDER BY a NULLS FIRST, t DESC NULLS LAST, id), last_value(t ORDER BY c NULLS LAST, id DESC), \
         first_value(b ORDER BY b), last_value(a + b ORDER BY b DESC NULLS LAST, a NULLS FIRST), \
         first_value(a ORDER BY id) IGNORE NULLS, last_value(t ORDER BY a, id) IGNORE NULLS, \
         last_value(g ORDER BY id) FILTER (WHERE b > 4), first_value(c ORDER BY id) FILTER (WHERE a < 12 AND t > 'd'), \
         first_value(a > 5 ORDER BY id), last_value(t ORDER BY id) FILTER (WHERE false), \
         first_value(10 / a ORDER BY 7 / b, id) FILTER (WHERE a > 0 AND b > 0), count(*), median(a), sum(b)",
        "first_value(a ORDER BY id), first_value(t ORDER BY id DESC), first_value(a ORDER BY id) IGNORE NULLS, \
         last_value(b ORDER BY b), last_value(a + b ORDER BY b DESC NULLS LAST, a NULLS FIRST), first_value(a > 5 ORDER BY id), \
         first_value(c ORDER BY id) FILTER (WHERE a < 12 AND t > 'd'), first_value(t ORDER BY id) FILTER (WHERE false), \
         last_value(id ORDER BY id) FILTER (WHERE b > 4), first_value(10 / a ORDER BY 7 / b, id) FILTER (WHERE a > 0 AND b > 0)",
    )
    .await;
}

/// Of rows that tie, the first one of the input decides, where the input has one partition.
#[tokio::test]
async fn ties() {
    let ctx = session();
    let batch = mixed_table(500, 0.2, 9);
    for group in ["g", "a", "b, g"] {
        register_whole(&ctx, "r", batch.clone());
        let sql = format!(
            "SELECT {group}, first_value(id ORDER BY lo), last_value(id ORDER BY hi NULLS FIRST), \
             first_value(id ORDER BY lo DESC) IGNORE NULLS FROM r WHERE id % 5 > 0 GROUP BY {group}"
        );
        // Rows of several partitions have no order.
        let tunings = tunings(0, 40).filter(|tuning| tuning.partitions == 1);
        check(&ctx, &sql, tunings).await;
    }
}

#[tokio::test]
async fn what_ties_may_show_is_declined() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.2, 1));
    let tie = "depends on which of the rows that tie in its ORDER BY is first: add keys that make the order unique";
    for (query, reason) in [
        ("last_value(a ORDER BY b) FROM r", tie),
        ("last_value(a > 1 ORDER BY b) FROM r GROUP BY g", tie),
        (
            "first_value(r.a ORDER BY s.b) FROM r JOIN r AS s ON r.a > s.a",
            tie,
        ),
        (
            "first_value(a ORDER BY b) FROM (SELECT a, b FROM r UNION ALL SELECT b, a FROM r)",
            tie,
        ),
        ("first_value(a) FROM r", "has no ORDER BY"),
        (
            "first_value(DISTINCT a ORDER BY a) FROM r",
            "has DISTINCT, which is not implemented on a device",
        ),
    ] {
        let sql = format!("SELECT {query}");
        declines(&ctx, &sql, "BowtieAggregateExec", reason).await;
    }
}

/// The result does not depend on the order of the input.
#[tokio::test]
async fn orders_that_decide() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(80, 0.2, 2));
    for sql in [
        "SELECT first_value(r.a ORDER BY r.a), last_value(s.b + s.a ORDER BY s.a, s.b) FROM r JOIN r AS s ON r.a > s.a GROUP BY s.g",
        "SELECT DISTINCT ON (g) g, a, b FROM r ORDER BY g, a, b",
        "SELECT last_value(a + b ORDER BY a, t, b) FROM r",
    ] {
        check(&ctx, sql, tunings(3, 8)).await;
    }
}
