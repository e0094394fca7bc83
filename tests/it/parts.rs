//! Joins and aggregations whose rows go to parts by the hashes of their keys, as they are more than the device takes at once: here
//! because chunks are short. Each test says that there were parts.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::answer::{Answer, assert_offloaded, plan_of, same_rows, shown, similar_rows, stock};
use crate::differential::kinds::KINDS;
use crate::domains::orderable_types;
use crate::session::{Tuning, session, session_in, session_without_files, set};
use crate::tables::{keyed_table, mixed_table, register};

/// Short chunks.
const SHORT: Tuning = Tuning {
    chunk_rows: "7",
    ..Tuning::PLAIN
};

/// What the nodes of a plan counted.
fn counted(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name));
    let own = own.map_or(0, |value| value.as_usize());
    let below = plan.children().into_iter();
    own + below.map(|below| counted(below, name)).sum::<usize>()
}

/// The answer by force under the options as they are, and how many parts it had.
async fn by_parts(ctx: &SessionContext, sql: &str) -> (Answer, usize) {
    set(ctx, "bowtie.offload", "force");
    let plan = plan_of(ctx, sql).await.unwrap();
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await;
    let batches = batches.unwrap_or_else(|error| panic!("{sql}\n{}\n{error}", shown(&plan)));
    let answer = Answer {
        plan: shown(&plan),
        schema: plan.schema(),
        batches,
    };
    assert_offloaded(sql, &answer.plan, &["Bowtie"]);
    (answer, counted(&plan, "parts"))
}

/// Checks that the query has parts, and gives DataFusion's rows.
async fn check(ctx: &SessionContext, sql: &str, tuning: Tuning) {
    let stock = stock(ctx, sql).await.unwrap();
    tuning.apply(ctx);
    let (given, parts) = by_parts(ctx, sql).await;
    assert!(parts > 0, "no parts: {sql}\n{}", given.plan);
    if let Err(difference) = similar_rows(&stock, &given) {
        panic!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan);
    }
}

/// A session whose joins are not by bits of keys, which need no parts.
fn hashing() -> SessionContext {
    let ctx = session();
    set(&ctx, "bowtie.join_strategy", "hash");
    // A side that is short goes left otherwise, and has too few chunks.
    set(&ctx, "datafusion.optimizer.join_reordering", "false");
    ctx
}

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

/// `NOT IN`: a NULL on the right side is one for all parts.
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

#[tokio::test]
async fn keys_of_all_types() {
    let mut parted = 0;
    for data_type in orderable_types() {
        let ctx = hashing();
        for (seed, nulls) in [(0, 0.0), (10, 0.3)] {
            register(&ctx, "r", &keyed_table(&data_type, 53, nulls, seed + 1));
            register(&ctx, "s", &keyed_table(&data_type, 41, nulls, seed + 2));
            for sql in [
                "SELECT r.id AS i, s.id AS j, r.k, s.l FROM r FULL JOIN s ON r.k = s.k",
                "SELECT r.id AS i, s.id AS j FROM r JOIN s ON (r.k IS NOT DISTINCT FROM s.k) AND (r.l IS NOT DISTINCT FROM s.l)",
                "SELECT k, l, count(*), min(id) FROM r GROUP BY k, l",
            ] {
                let Ok(stock) = stock(&ctx, sql).await else {
                    println!("skipped {data_type}: DataFusion refuses it");
                    continue;
                };
                SHORT.apply(&ctx);
                set(&ctx, "bowtie.offload", "force");
                if !shown(&plan_of(&ctx, sql).await.unwrap()).contains("Bowtie") {
                    println!("skipped {data_type}: bowtie leaves it to DataFusion");
                    continue;
                }
                let (given, parts) = by_parts(&ctx, sql).await;
                parted += usize::from(parts > 0);
                if let Err(difference) = same_rows(&stock, &given) {
                    panic!("{data_type}: {sql}\n{}\n{difference}", given.plan);
                }
            }
        }
    }
    assert!(parted > 200, "{parted} queries had parts");
}

/// Rows of the right side come in several rounds, of a join and of an aggregation over one.
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

/// All rows of one key are of one part, which is longer than a chunk; rows of a NULL are of all parts.
#[tokio::test]
async fn one_key() {
    let ctx = hashing();
    for (name, rows) in [("r", 50), ("s", 70)] {
        let sql = format!(
            "CREATE TABLE {name} AS SELECT i AS id, 7 AS k, CASE WHEN i = 11 THEN 1 END AS n FROM (SELECT value AS i FROM generate_series(1, {rows}))"
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    for kind in KINDS {
        for condition in ["r.k = s.k", "r.n = s.n", "r.n IS NOT DISTINCT FROM s.n"] {
            let sql = kind.sql("r", "s", &["id"], condition);
            check(&ctx, &sql, SHORT).await;
        }
    }
}

/// Semi and anti joins of keys that lie far apart go to parts; bits serve those that lie close together.
#[tokio::test]
async fn keys_far_apart() {
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
        for (condition, parted) in [
            ("r.far = s.far", true),
            ("r.t = s.t", true),
            ("r.near = s.near", false),
        ] {
            let sql = kind.sql("r", "s", &["id"], condition);
            let stock = stock(&ctx, &sql).await.unwrap();
            SHORT.apply(&ctx);
            let (given, parts) = by_parts(&ctx, &sql).await;
            assert_eq!(parts > 0, parted, "{sql}\n{}", given.plan);
            same_rows(&stock, &given).unwrap_or_else(|e| panic!("{sql}\n{e}"));
        }
    }
}

/// Dictionaries that have more values than a part has rows, as keys and beside them.
#[tokio::test]
async fn dictionaries() {
    let ctx = hashing();
    for (name, rows) in [("r", 50), ("s", 70)] {
        let sql = format!(
            "CREATE TABLE {name} AS SELECT i AS id, arrow_cast('t' || (i % 40), 'Dictionary(Int32, Utf8)') AS d,
             arrow_cast(nullif(i % 30, 7), 'Dictionary(Int64, Int32)') AS n, 't' || (i % 40) AS t
             FROM (SELECT value AS i FROM generate_series(1, {rows}))"
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    for kind in KINDS {
        for condition in [
            "r.d = s.d",
            "r.n = s.n",
            "r.id = s.id AND r.d <> s.d",
            "r.d = s.t",
        ] {
            let sql = kind.sql("r", "s", &["id", "d", "n"], condition);
            check(&ctx, &sql, SHORT).await;
        }
    }
    check(
        &ctx,
        "SELECT d, n, count(*), max(t) FROM r GROUP BY d, n",
        SHORT,
    )
    .await;
}

/// Dictionaries that differ from batch to batch, with values of every kind.
#[tokio::test]
async fn dictionaries_of_batches() {
    for values in [
        "Utf8",
        "LargeUtf8",
        "Utf8View",
        "Binary",
        "BinaryView",
        "Int64",
    ] {
        let ctx = hashing();
        for (name, batches) in [("r", 5), ("s", 9)] {
            let batch = |n: usize| {
                let value = match values {
                    "Int64" => "(i * 3) % 19".to_string(),
                    "Utf8" | "LargeUtf8" | "Utf8View" => {
                        format!("arrow_cast('some text of {n}: ' || (i * 3 % 19), '{values}')")
                    }
                    _ => format!(
                        "arrow_cast(arrow_cast('some bytes: ' || (i * 3 % 19), 'Binary'), '{values}')"
                    ),
                };
                format!(
                    "SELECT i AS id, arrow_cast(CASE WHEN i % 7 > 0 THEN {value} END, 'Dictionary(Int64, {values})') AS d
                     FROM (SELECT value AS i FROM generate_series({}, {}))",
                    n * 5,
                    n * 5 + 6
                )
            };
            let all: Vec<String> = (0..batches).map(batch).collect();
            let sql = format!("CREATE TABLE {name} AS {}", all.join(" UNION ALL "));
            ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        for sql in [
            "SELECT r.id AS i, s.id AS j, r.d AS a, s.d AS b FROM r FULL JOIN s ON r.d = s.d",
            "SELECT r.id AS i, s.id AS j, r.d AS a, s.d AS b FROM r LEFT JOIN s ON r.id = s.id + 1",
            "SELECT d, count(*), min(id) FROM s GROUP BY d",
        ] {
            let Ok(stock) = stock(&ctx, sql).await else {
                println!("skipped {values}: DataFusion refuses {sql}");
                continue;
            };
            for tuning in [Tuning::PLAIN, SHORT] {
                tuning.apply(&ctx);
                set(&ctx, "bowtie.offload", "force");
                if !shown(&plan_of(&ctx, sql).await.unwrap()).contains("Bowtie") {
                    println!("skipped {values}: bowtie leaves {sql} to DataFusion");
                    continue;
                }
                let (given, _) = by_parts(&ctx, sql).await;
                same_rows(&stock, &given)
                    .unwrap_or_else(|e| panic!("{values}: {sql}\n{tuning:?}\n{}\n{e}", given.plan));
            }
        }
    }
}

/// Some rows of a join.
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
        let (given, parts) = by_parts(&ctx, &format!("{sql} LIMIT {limit}")).await;
        assert!(parts > 0);
        assert_eq!(rows(&given), all.min(limit), "{limit}");
    }
}

#[tokio::test]
async fn groups() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(400, 0.1, 5));
    for sql in [
        "SELECT a, b, count(*), sum(lo), min(c), max(t), avg(c), bool_and(g > 1) FROM r GROUP BY a, b",
        "SELECT t, a, stddev(c), var_pop(lo), median(hi), approx_distinct(b) FROM r GROUP BY t, a",
        "SELECT a, t, count(DISTINCT b), sum(DISTINCT lo), array_agg(DISTINCT g ORDER BY g) FROM r GROUP BY a, t",
        "SELECT c, lo, first_value(id ORDER BY hi, id), last_value(t ORDER BY id), bit_xor(b) FROM r GROUP BY c, lo",
        "SELECT DISTINCT a, b, g FROM r",
        "SELECT a, lo, sum(b) FILTER (WHERE g = 2) FROM r GROUP BY a, lo HAVING count(*) > 1",
        "SELECT x.a, x.n, r.t FROM (SELECT a, b, count(*) AS n FROM r GROUP BY a, b) AS x JOIN r ON x.b = r.b AND x.a = r.a",
        "SELECT a, b FROM r INTERSECT SELECT b, a FROM r",
        "SELECT n, count(*) FROM (SELECT a, b, c, count(*) AS n FROM r GROUP BY a, b, c) GROUP BY n",
    ] {
        let plan = {
            SHORT.apply(&ctx);
            set(&ctx, "bowtie.offload", "force");
            shown(&plan_of(&ctx, sql).await.unwrap())
        };
        // What is not taken is not parted.
        match plan.contains("BowtieAggregateExec") {
            true => check(&ctx, sql, SHORT).await,
            false => println!("not taken: {sql}"),
        }
    }
    // Few groups, or no keys.
    for sql in [
        "SELECT g, count(*), sum(a) FROM (SELECT arrow_cast(g > 1, 'Boolean') AS g, a FROM r WHERE g IS NOT NULL) GROUP BY g",
        "SELECT count(*), sum(a) FROM r",
        "SELECT a, b, count(*) FROM r GROUP BY ROLLUP (a, b)",
    ] {
        let long = Tuning {
            chunk_rows: "60",
            ..SHORT
        };
        let stock = stock(&ctx, sql).await.unwrap();
        long.apply(&ctx);
        let (given, parts) = by_parts(&ctx, sql).await;
        assert_eq!(parts, 0, "{sql}\n{}", given.plan);
        similar_rows(&stock, &given).unwrap();
    }
}

/// Large tables under a small device, and less room in the memory pool than the sides, or the groups' rows, take.
const LARGE: [&str; 5] = [
    "SELECT count(*), sum(r.v), sum(s.w), sum(length(r.t)) FROM r JOIN s ON r.k = s.k",
    "SELECT count(*), sum(r.v), sum(s.w), count(r.k), count(s.k) FROM r FULL JOIN s ON r.k = s.k AND r.v > s.w",
    "SELECT r.v % 10 AS g, count(*), sum(s.w) FROM r LEFT JOIN s ON r.k = s.k AND r.t <> s.t GROUP BY r.v % 10",
    "SELECT sum(n), max(v), count(*) FROM (SELECT k, t, count(*) AS n, sum(w) AS v FROM s GROUP BY k, t)",
    "SELECT count(*), sum(m.n) FROM (SELECT k, avg(w) AS n FROM s GROUP BY k) AS m JOIN r ON r.k = m.k",
];

async fn large_tables(ctx: &SessionContext) {
    for (name, value, rows, keys) in [("r", "v", 40_000, 30_011), ("s", "w", 150_000, 35_023)] {
        let sql = format!(
            "CREATE TABLE {name} AS SELECT nullif(i * 7919 % {keys}, 17) AS k, i AS {value}, 'text ' || (i % 1000) AS t
             FROM (SELECT value AS i FROM generate_series(1, {rows}))"
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
}

fn small(ctx: &SessionContext, partitions: usize) {
    let tuning = Tuning {
        device_memory: "1MB",
        partitions,
        ..Tuning::PLAIN
    };
    tuning.apply(ctx);
    set(ctx, "datafusion.optimizer.join_reordering", "false");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_devices_and_pools() {
    let free = session();
    large_tables(&free).await;
    let mut expected = vec![];
    for sql in LARGE {
        expected.push(stock(&free, sql).await.unwrap());
    }
    for (pool, files) in [
        (usize::MAX, true),
        (24 << 20, true),
        (3 << 20, true),
        (40 << 20, false),
    ] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(pool));
        let ctx = match files {
            true => session_in(Arc::clone(&pool)),
            false => session_without_files(Arc::clone(&pool)),
        };
        // The tables are not the pool's.
        large_tables(&ctx).await;
        for (sql, expected) in LARGE.iter().zip(&expected) {
            for partitions in [1, 4] {
                small(&ctx, partitions);
                let (given, parts) = by_parts(&ctx, sql).await;
                // What is read has to have room, or may go to files.
                assert_eq!(parts > 0, files, "{sql}\n{}", given.plan);
                similar_rows(expected, &given).unwrap_or_else(|e| panic!("{sql}\n{e}"));
                assert_eq!(pool.reserved(), 0, "{sql}");
            }
        }
    }
}

/// A stream that is dropped on the way leaves nothing reserved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
    let ctx = session_in(Arc::clone(&pool));
    large_tables(&ctx).await;
    small(&ctx, 2);
    set(&ctx, "bowtie.offload", "force");
    for sql in [
        "SELECT r.v, s.w FROM r JOIN s ON r.k = s.k",
        "SELECT k, t, count(*) FROM s GROUP BY k, t",
    ] {
        for wait in [1, 20, 60, 200] {
            let plan = plan_of(&ctx, sql).await.unwrap();
            let mut stream = execute_stream(plan, ctx.task_ctx()).unwrap();
            let _ = tokio::time::timeout(Duration::from_millis(wait), stream.next()).await;
            drop(stream);
            for _ in 0..1_000 {
                if pool.reserved() == 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(pool.reserved(), 0, "{sql} after {wait} ms");
        }
    }
}

/// A key that fails is the query's error, as without parts; also where no row of the other side is of its part.
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
