//! Joins of hash-partitioned sides.

use datafusion::physical_plan::collect;

use crate::partition::check::{SHORT, check, hashing, run_partitioned};
use crate::support::answer::{Answer, plan_of, shown, stock};
use crate::support::compare::same_rows;
use crate::support::join_types::KINDS;
use crate::support::session::{device, session, set};
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

#[tokio::test]
async fn joins_of_all_types() {
    let ctx = hashing();
    register(&ctx, "r", &mixed_table(60, 0.15, 5));
    register(&ctx, "s", &mixed_table(45, 0.15, 6));
    for condition in [
        "r.a = s.b",
        "r.t = s.t",
        "r.c = s.c",
        "r.g = s.g AND r.a = s.a",
        "r.a = s.a AND r.b + s.b > 9",
        "r.a = s.b AND r.lo < s.hi",
        "r.g = s.g AND r.lo < s.hi AND s.lo < r.hi",
        "r.a IS NOT DISTINCT FROM s.a",
        "(r.g IS NOT DISTINCT FROM s.g) AND r.t <> s.t",
    ] {
        for kind in KINDS {
            let sql = kind.sql("r", "s", &["id", "t", "c"], condition);
            check(&ctx, &sql, SHORT).await;
        }
    }
}

/// A few chunks that are on the device are joined there, tile by tile.
#[tokio::test]
async fn few_chunks_on_the_device() {
    let ctx = hashing();
    set(&ctx, "bowtie.cache", "32MB");
    register(&ctx, "r", &mixed_table(60, 0.15, 5));
    register(&ctx, "s", &mixed_table(45, 0.15, 6));
    for (chunk_rows, is_partitioned) in [("15", false), ("7", true)] {
        let tuning = Tuning {
            chunk_rows,
            ..Tuning::PLAIN
        };
        for condition in ["r.a = s.b", "r.a = s.a AND r.b = s.b"] {
            for kind in KINDS {
                let sql = kind.sql("r", "s", &["id", "t", "c"], condition);
                // Left rows without text are cut by the memory of the device alone.
                if !sql.contains("r.t ") {
                    continue;
                }
                let stock = stock(&ctx, &sql).await.unwrap();
                tuning.apply(&ctx);
                let (given, parts) = run_partitioned(&ctx, &sql).await;
                // The CPU backend copies no rows to the host.
                let is_partitioned = is_partitioned || device() == "host";
                assert_eq!(parts > 0, is_partitioned, "{sql}\n{}", given.plan);
                if let Err(difference) = same_rows(&stock, &given) {
                    panic!("{sql}\n{}\n{difference}", given.plan);
                }
            }
        }
    }
}

/// `NOT IN`: a NULL on the right side decides for all partitions.
#[tokio::test]
async fn null_aware_anti_joins() {
    let ctx = hashing();
    register(&ctx, "r", &mixed_table(60, 0.15, 5));
    for (name, nulls) in [("s", 0.0), ("n", 0.1)] {
        register(&ctx, name, &mixed_table(45, nulls, 6));
        for column in ["a", "t"] {
            let sql =
                format!("SELECT r.id FROM r WHERE r.{column} NOT IN (SELECT {column} FROM {name})");
            check(&ctx, &sql, SHORT).await;
        }
    }
}

/// The right side is read in several rounds, in a join and in an aggregation over one.
#[tokio::test]
async fn rounds() {
    let ctx = hashing();
    register(&ctx, "r", &mixed_table(30, 0.1, 3));
    register(&ctx, "s", &mixed_table(900, 0.1, 4));
    for kind in KINDS {
        let sql = kind.sql("r", "s", &["id", "t"], "r.a = s.a AND r.b <= s.b");
        check(&ctx, &sql, SHORT).await;
    }
    for sql in [
        "SELECT r.g, count(*), sum(s.a), min(s.b), avg(r.lo) FROM r JOIN s ON r.a = s.a GROUP BY r.g",
        "SELECT r.t, count(s.id) FROM r LEFT JOIN s ON r.a = s.a AND r.lo < s.hi GROUP BY r.t",
        "SELECT count(*), sum(r.a) FROM r JOIN s ON r.t = s.t",
    ] {
        check(&ctx, sql, SHORT).await;
    }
}

/// Semi and anti joins on sparse keys are partitioned; those on dense keys have a key bitmap instead.
#[tokio::test]
async fn sparse_keys() {
    let ctx = session();
    set(&ctx, "datafusion.optimizer.join_reordering", "false");
    for (name, rows) in [("r", 50), ("s", 70)] {
        let sql = format!(
            "CREATE TABLE {name} AS SELECT i AS id, (i % 20) * 1000000007 * 1000000009 AS far, i % 20 AS near, to_timestamp_seconds((i % 20) * 86400000) AS t
             FROM (SELECT value AS i FROM generate_series(1, {rows}))"
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    for kind in &KINDS[4..] {
        for (condition, partitioned) in [
            ("r.far = s.far", true),
            ("r.t = s.t", true),
            ("r.near = s.near", false),
        ] {
            let sql = kind.sql("r", "s", &["id"], condition);
            let stock = stock(&ctx, &sql).await.unwrap();
            SHORT.apply(&ctx);
            let (given, parts) = run_partitioned(&ctx, &sql).await;
            assert_eq!(parts > 0, partitioned, "{sql}\n{}", given.plan);
            same_rows(&stock, &given).unwrap_or_else(|e| panic!("{sql}\n{e}"));
        }
    }
}

/// A limit on a partitioned join.
#[tokio::test]
async fn limits() {
    let ctx = hashing();
    register(&ctx, "r", &mixed_table(60, 0.0, 5));
    register(&ctx, "s", &mixed_table(300, 0.0, 6));
    let sql = "SELECT r.id, s.id FROM r JOIN s ON r.a = s.a";
    let rows = |answer: &Answer| answer.batches.iter().map(|batch| batch.num_rows()).sum();
    let all: usize = rows(&stock(&ctx, sql).await.unwrap());
    SHORT.apply(&ctx);
    for limit in [1, 40, 1_000_000] {
        let (given, parts) = run_partitioned(&ctx, &format!("{sql} LIMIT {limit}")).await;
        assert!(parts > 0);
        assert_eq!(rows(&given), all.min(limit), "{limit}");
    }
}

/// A key expression that fails is the query's error, also where the other side has no row in that partition.
#[tokio::test]
async fn keys_that_fail() {
    let ctx = hashing();
    register(&ctx, "r", &mixed_table(60, 0.0, 5));
    register(&ctx, "s", &mixed_table(200, 0.0, 6));
    SHORT.apply(&ctx);
    for sql in [
        "SELECT r.id FROM r JOIN s ON 10 / (r.id - 40) = s.a",
        "SELECT r.id FROM r JOIN s ON r.a = 10 / (s.id - 150)",
        "SELECT r.id FROM (SELECT id, id - id + 1 AS one FROM r) AS r JOIN s ON r.one = 10 / (s.id - 199)",
        "SELECT r.id FROM r FULL JOIN (SELECT id, id - id + 1 AS one FROM s) AS s ON 10 / (r.id - 59) = s.one",
        "SELECT 10 / (id - 150) AS k, count(*) FROM s GROUP BY 10 / (id - 150), a",
    ] {
        set(&ctx, "bowtie.offload", "force");
        let plan = plan_of(&ctx, sql).await.unwrap();
        assert!(shown(&plan).contains("Bowtie"), "{sql}");
        let error = collect(plan, ctx.task_ctx()).await.unwrap_err().to_string();
        assert!(error.contains("Divide by zero"), "{sql}\n{error}");
    }
}
