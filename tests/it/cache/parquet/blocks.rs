//! Blocks of a stored column whose least and greatest value a predicate excludes are skipped.

use tempfile::tempdir;

use crate::cache::parquet::{create, write};
use crate::cache::{batch, lines, session, stock_lines};
use crate::support::session::set;

#[tokio::test]
async fn blocks_are_skipped_and_no_row_is_lost() {
    let (ctx, _) = session(128 << 20, "64MB");
    let files = tempdir().unwrap();
    // `v` ascends, three blocks and a bit.
    write(
        &files.path().join("a.parquet"),
        &[batch(0, 200_123)],
        1 << 20,
    );
    create(&ctx, &files).await;
    for predicate in [
        "v < 10",
        "v >= 200122",
        "v BETWEEN 65535 AND 65536",
        "v BETWEEN 131071 AND 131073 AND k > 1",
        "v = 70000 OR v = 150000",
        "v > 190000 OR v < 100",
        "NOT (v < 199999)",
        "v > 300000",
        "v < 0 AND t LIKE '%7%'",
        "v + 1 > 200100 AND k <> 3",
        "CAST(v AS DECIMAL(20, 2)) > 200000.50",
        "k = 9",
        "v < 66000 AND v % 7 = 3",
        "v IN (5, 66000, 199000) AND t IS NOT NULL",
    ] {
        for sql in [
            format!("SELECT v, k, t FROM r WHERE {predicate} ORDER BY v LIMIT 1000"),
            format!("SELECT count(*), sum(v), min(k), max(v) FROM r WHERE {predicate}"),
            format!("SELECT k, count(t) FROM r WHERE {predicate} GROUP BY k ORDER BY k"),
        ] {
            let expected = stock_lines(&ctx, &sql).await;
            for _ in 0..2 {
                assert_eq!(lines(&ctx, &sql).await, expected, "{sql}");
            }
        }
    }
}

/// An error in a row of a block that another condition would exclude is raised where DataFusion raises it.
#[tokio::test]
async fn errors_are_not_skipped() {
    let (ctx, _) = session(128 << 20, "64MB");
    let files = tempdir().unwrap();
    write(
        &files.path().join("a.parquet"),
        &[batch(0, 140_000)],
        1 << 20,
    );
    create(&ctx, &files).await;
    // DataFusion evaluates every row, too.
    for pruning in ["pruning", "enable_page_index"] {
        set(
            &ctx,
            &format!("datafusion.execution.parquet.{pruning}"),
            "false",
        );
    }
    for predicate in [
        "1 / (v - 5) >= 0 AND v > 139000",
        "v > 139000 AND 1 / (v - 5) >= 0",
        "v > 150000 AND 1 / (v - v) > 0",
        "1 / (v - v) > 0 AND v > 150000",
    ] {
        let sql = format!("SELECT count(*), sum(v) FROM r WHERE {predicate}");
        let mut made = vec![];
        for offload in ["off", "force"] {
            set(&ctx, "bowtie.offload", offload);
            let answer = ctx.sql(&sql).await.unwrap().collect().await;
            made.push(match answer {
                Ok(_) => Ok(lines(&ctx, &sql).await),
                Err(error) => Err(error.strip_backtrace()),
            });
        }
        // DataFusion's own scan may not read the row that fails.
        let is_stricter = made[0].is_ok() && made[1].is_err();
        assert!(is_stricter || made[0] == made[1], "{sql}: {made:?}");
    }
}
