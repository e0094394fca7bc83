//! LIMIT and OFFSET, with and without an order.

use datafusion::prelude::SessionContext;

use crate::sort::check::Sorted;
use crate::support::answer::{Answer, declines, forced, stock};
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

fn tables() -> SessionContext {
    let ctx = session();
    register(&ctx, "r", &mixed_table(200, 0.1, 1));
    register(&ctx, "s", &mixed_table(150, 0.1, 2));
    ctx
}

const GROUPS: &str = "SELECT a, b, count(*) AS n, sum(lo) AS total FROM r GROUP BY a, b";

#[tokio::test]
async fn the_first_rows_after_an_offset() {
    let ctx = tables();
    for (turn, (limit, rows)) in [
        ("LIMIT 1", 1),
        ("LIMIT 7", 7),
        ("LIMIT 7 OFFSET 3", 7),
        ("LIMIT 100 OFFSET 10", 100),
        ("LIMIT 10000", 135),
        ("OFFSET 100", 35),
        ("LIMIT 5 OFFSET 10000", 0),
        ("", 135),
    ]
    .into_iter()
    .enumerate()
    {
        let sql = format!("{GROUPS} ORDER BY n DESC, total, a NULLS FIRST, b {limit}");
        // A difference in the number of groups is that of the tables.
        let groups = row_count(&stock(&ctx, GROUPS).await.unwrap());
        let sql =
            format!("SELECT n, total, a, b FROM ({sql}) ORDER BY n DESC, total, a NULLS FIRST, b");
        for n in [turn, turn + 11, turn + 22] {
            let sorted = Sorted {
                sql: &sql,
                keys: 4,
                limited: false,
                nodes: &["BowtieSortExec", "BowtieAggregateExec"],
            };
            let given = sorted.check(&ctx, &Tuning::nth(n)).await;
            let most = match rows {
                135 => groups,
                35 => groups - 100,
                rows => rows,
            };
            assert_eq!(row_count(&given), most, "{sql}");
        }
    }
}

fn row_count(answer: &Answer) -> usize {
    answer.batches.iter().map(|batch| batch.num_rows()).sum()
}

/// LIMIT 0 is no query.
#[tokio::test]
async fn nothing() {
    let ctx = tables();
    let sql = format!("{GROUPS} ORDER BY a LIMIT 0");
    let given = forced(&ctx, &sql, &Tuning::PLAIN).await.unwrap();
    assert_eq!(row_count(&given), 0);
    for (sql, rows) in [
        (
            "SELECT a, count(*) AS n FROM r WHERE a > 1000 GROUP BY a ORDER BY n",
            0,
        ),
        (
            "SELECT a, count(*) AS n FROM r WHERE a = 3 GROUP BY a ORDER BY n",
            1,
        ),
        (
            "SELECT a, count(*) AS n FROM r WHERE a > 1000 GROUP BY a ORDER BY n LIMIT 3",
            0,
        ),
    ] {
        let sorted = Sorted {
            sql,
            keys: 2,
            limited: false,
            nodes: &["BowtieSortExec"],
        };
        let given = sorted.check(&ctx, &Tuning::PLAIN).await;
        assert_eq!(row_count(&given), rows, "{sql}");
    }
}

/// Any rows are an answer, as long as there are enough and all are groups.
#[tokio::test]
async fn a_limit_without_an_order() {
    let ctx = tables();
    let all = crate::sort::check::key_rows(&stock(&ctx, GROUPS).await.unwrap(), 4);
    for (turn, (limit, rows)) in [
        ("LIMIT 9", 9),
        ("LIMIT 20 OFFSET 4", 20),
        ("LIMIT 9999", all.len()),
    ]
    .into_iter()
    .enumerate()
    {
        let sql = format!("{GROUPS} {limit}");
        for n in 0..12 {
            let tuning = Tuning::nth(n * 7 + turn);
            let given = forced(&ctx, &sql, &tuning).await.unwrap();
            let plan = &given.plan;
            assert_eq!(plan.matches("BowtieLimitExec").count(), 1, "{sql}\n{plan}");
            assert_eq!(plan.matches("BowtieDownloadExec").count(), 1, "{plan}");
            let mut given = crate::sort::check::key_rows(&given, 4);
            assert_eq!(given.len(), rows, "{sql}\n{tuning:?}");
            assert!(given.iter().all(|row| all.contains(row)), "{sql}");
            given.sort();
            given.dedup();
            assert_eq!(given.len(), rows, "{sql}\n{tuning:?}");
        }
    }
}

/// A limit above a join is the join's own.
#[tokio::test]
async fn joins_end_by_themselves() {
    let ctx = tables();
    let sql = "SELECT r.id, s.id FROM r JOIN s ON r.a = s.a LIMIT 5";
    let reason = "a join ends by itself once there are enough rows";
    declines(&ctx, sql, "BowtieLimitExec", reason).await;
    let given = forced(&ctx, sql, &Tuning::PLAIN).await.unwrap();
    assert!(given.plan.contains("fetch=5"), "{}", given.plan);
    assert_eq!(row_count(&given), 5);
}

/// The rows within a limit are joined and grouped without leaving the device.
#[tokio::test]
async fn limits_below_other_nodes() {
    let ctx = tables();
    for sql in [
        format!("SELECT sum(n), count(*) FROM ({GROUPS} ORDER BY n DESC, total, a, b LIMIT 20)"),
        format!(
            "SELECT s.id, x.n FROM ({GROUPS} ORDER BY n DESC, total, a, b LIMIT 20 OFFSET 5) AS x JOIN s ON x.a = s.a"
        ),
        format!("SELECT count(*) FROM ({GROUPS} LIMIT 30)"),
    ] {
        for n in 0..6 {
            let stock = stock(&ctx, &sql).await.unwrap();
            let given = forced(&ctx, &sql, &Tuning::nth(n * 5)).await.unwrap();
            crate::support::compare::same_rows(&stock, &given)
                .unwrap_or_else(|difference| panic!("{sql}\n{}\n{difference}", given.plan));
        }
    }
}
