//! Batch size × chunk size × device memory × partitions, in full, on queries that take every path of the executor.

use crate::support::answer::{check, stock};
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

const QUERIES: [&str; 3] = [
    "SELECT r.id AS i, s.id AS j, s.t FROM r FULL JOIN s ON r.a > s.a AND r.b <= s.b AND s.c > 0",
    "SELECT r.id AS i, s.id AS j, r.t, s.c FROM r LEFT JOIN s ON r.g = s.g AND r.a BETWEEN s.lo AND s.hi AND r.b + s.b > 4",
    "SELECT s.id AS j, s.t FROM r RIGHT ANTI JOIN s ON r.a > s.a + 3",
];

#[tokio::test]
async fn any_tuning_gives_the_same_rows() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(37, 0.1, 5));
    register(&ctx, "s", &mixed_table(23, 0.1, 6));
    for sql in QUERIES {
        let stock = stock(&ctx, sql).await.unwrap();
        for n in 0..Tuning::COUNT {
            check(&ctx, sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
        }
    }
}

/// Batches that come out hold at most the session's batch size.
#[tokio::test]
async fn batches_keep_the_sessions_size() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(120, 0.0, 5));
    register(&ctx, "s", &mixed_table(120, 0.0, 6));
    for batch_size in crate::support::tuning::BATCH_SIZES {
        let tuning = Tuning {
            batch_size,
            ..Tuning::PLAIN
        };
        let sql = "SELECT r.id AS i, s.id AS j FROM r JOIN s ON r.a > s.a + 12";
        let answer = crate::support::answer::forced(&ctx, sql, &tuning)
            .await
            .unwrap();
        let rows: Vec<usize> = answer.batches.iter().map(|b| b.num_rows()).collect();
        assert!(rows.iter().all(|rows| *rows <= batch_size), "{rows:?}");
        assert!(rows.iter().sum::<usize>() > 400, "{rows:?}");
    }
}
