//! Sides of joins that spill.

use datafusion::prelude::SessionContext;

use crate::memory::spill::check::{MIB, check_as, compare};
use crate::support::pool::greedy;
use crate::support::session::set;

/// The left side of a join, with each kind of condition.
#[tokio::test]
async fn left_sides_of_joins() {
    for (columns, join) in [
        ("t.k, t.v, few.v AS w, t.s", "t JOIN few ON t.k = few.k"),
        (
            "t.k, t.v, few.v AS w, t.s",
            "t JOIN few ON t.k = few.k AND t.v <> few.v",
        ),
        (
            "t.k, t.v, few.v AS w, t.s",
            "t LEFT JOIN few ON t.k = few.k",
        ),
        (
            "t.k, t.v, few.v AS w, t.s",
            "t FULL JOIN few ON t.v BETWEEN few.v AND few.v + 3",
        ),
        (
            "t.k, t.v, 0 AS w, t.s",
            "t LEFT ANTI JOIN few ON t.v < few.v AND t.v > few.v - 9",
        ),
        (
            "t.k, t.v, few.v AS w, t.s",
            "t JOIN few ON t.v + 1 < few.v AND t.v > few.v - 30",
        ),
    ] {
        let sql = format!(
            "SELECT count(*), sum(k), sum(v), sum(w), sum(length(s)), sum(k % 1000 * (w % 1000))
             FROM (SELECT {columns} FROM {join})"
        );
        // The sides must not be swapped: the long one is the left one.
        check_as(&sql, 100_000, greedy(2 * MIB), |ctx| {
            set(ctx, "datafusion.optimizer.join_reordering", "false")
        })
        .await;
    }
}

/// Either side of semi, anti and mark joins, whose spilled keys are read more than once.
#[tokio::test]
async fn either_side_of_semi_joins() {
    for (from, both) in [
        ("t LEFT SEMI JOIN few ON t.k = few.k", false),
        ("t LEFT ANTI JOIN few ON t.v = few.v", false),
        ("t a RIGHT SEMI JOIN t ON a.v = t.k", true),
        ("t a RIGHT ANTI JOIN t ON a.v = t.k", true),
        (
            "t WHERE EXISTS (SELECT 1 FROM few WHERE few.k = t.k) OR t.v % 7 = 1",
            false,
        ),
        ("t WHERE t.k NOT IN (SELECT v FROM few)", false),
    ] {
        let sql = format!(
            "SELECT count(*), sum(k), sum(v), sum(length(s)), sum(k % 1000 * (v % 1000))
             FROM (SELECT t.k, t.v, t.s FROM {from})"
        );
        for device_memory in ["1MB", "256MB"] {
            let tune = |ctx: &SessionContext| {
                set(ctx, "datafusion.optimizer.join_reordering", "false");
                set(ctx, "bowtie.device_memory", device_memory);
            };
            match both {
                true => drop(compare(&sql, 100_000, greedy(MIB), tune).await),
                false => check_as(&sql, 100_000, greedy(MIB), tune).await,
            }
        }
    }
}

/// A join above a join, whose left sides share the pool; and an aggregation fused with one.
#[tokio::test]
async fn left_sides_that_share_a_pool() {
    for sql in [
        "SELECT count(*), sum(a.v), sum(b.v), sum(c.v) FROM t a JOIN (t b JOIN few c ON b.k = c.k) ON a.v = b.v",
        "SELECT count(*), sum(few.v), max(few.k) FROM t JOIN few ON t.v > few.v",
    ] {
        check_as(sql, 100_000, greedy(MIB / 2), |ctx| {
            set(ctx, "datafusion.optimizer.join_reordering", "false")
        })
        .await;
    }
}
