//! A cancelled query stops soon, and releases its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::physical_plan::{collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieRuntime;
use futures::StreamExt;

use crate::support::answer::{plan_of, shown};
use crate::support::pool::{polled_for, released_within};
use crate::support::session::{device, session_in, session_on, set};
use crate::support::tables::register_batches;
use crate::support::tuning::Tuning;

/// In the dev profile a step takes well below this; one that groups half a million rows on a busy machine, below four times as much. On
/// a GPU a step may wait while the driver compiles kernels, once on each machine.
fn soon() -> Duration {
    match device().as_str() {
        "host" => Duration::from_secs(2),
        _ => Duration::from_secs(20),
    }
}

fn huge_tables(rows: i64) -> (SessionContext, Arc<dyn MemoryPool>) {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
    let ctx = session_in(Arc::clone(&pool));
    register_huge(&ctx, rows);
    (ctx, pool)
}

/// Registers the tables `r` and `s`, and forces offloading.
fn register_huge(ctx: &SessionContext, rows: i64) {
    for (name, step) in [("r", 7919), ("s", 104_729)] {
        let batches = (0..rows / 10_000)
            .map(|piece| {
                let ids = piece * 10_000..(piece + 1) * 10_000;
                let scattered = |step: i64| -> ArrayRef {
                    Arc::new(Int64Array::from_iter_values(
                        ids.clone().map(|i| i.wrapping_mul(step) % rows),
                    ))
                };
                RecordBatch::try_from_iter([
                    (
                        "id",
                        Arc::new(Int64Array::from_iter_values(ids.clone())) as ArrayRef,
                    ),
                    ("a", scattered(step)),
                    ("b", scattered(step * 31)),
                ])
                .unwrap()
            })
            .collect::<Vec<_>>();
        register_batches(ctx, name, batches);
    }
    Tuning::PLAIN.apply(ctx);
    set(ctx, "bowtie.offload", "force");
}

async fn started(ctx: &SessionContext, sql: &str) -> SendableRecordBatchStream {
    let plan = plan_of(ctx, sql).await.unwrap();
    assert!(shown(&plan).contains("Bowtie"), "{}", shown(&plan));
    execute_stream(plan, ctx.task_ctx()).unwrap()
}

/// Registers the SQL function `counted(x, y)`, which gives `x`, and returns the number of its calls. It does not compile, so the host calls
/// it for the pairs of a piece at a time, on every device. A call takes 50 ms, so that billions of pairs take minutes on any machine.
fn register_counted(ctx: &SessionContext) -> Arc<AtomicU64> {
    let calls = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&calls);
    let counted = create_udf(
        "counted",
        vec![DataType::Int64, DataType::Int64],
        DataType::Int64,
        Volatility::Immutable,
        Arc::new(move |arguments: &[ColumnarValue]| {
            counter.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(50));
            Ok(arguments[0].clone())
        }),
    );
    ctx.register_udf(counted);
    calls
}

fn device_bytes(runtime: &BowtieRuntime) -> u64 {
    let devices = runtime.device_memory();
    devices.iter().map(|device| device.in_use).sum()
}

/// Waits until nothing is reserved, for as long as a step on text may take on a busy machine.
async fn released(pool: &Arc<dyn MemoryPool>, what: &str) {
    released_within(4 * soon(), pool, what).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_ends_a_huge_join() {
    let (ctx, pool) = huge_tables(200_000);
    for sql in [
        "SELECT r.id, s.id AS j FROM r JOIN s ON r.a > s.a LIMIT 10",
        "SELECT r.id, s.id AS j FROM r LEFT JOIN s ON r.a <> s.a LIMIT 10 OFFSET 5",
        "SELECT r.id, s.id AS j FROM r CROSS JOIN s LIMIT 10",
        "SELECT r.id, s.id AS j FROM r JOIN s ON r.a + s.a > 100 LIMIT 10",
    ] {
        let from = Instant::now();
        let mut stream = started(&ctx, sql).await;
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows();
        }
        assert_eq!(rows, 10, "{sql}");
        let took = from.elapsed();
        assert!(took < 5 * soon(), "{took:?}: {sql}");
        drop(stream);
        released(&pool, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_stream_after_a_batch_frees_everything() {
    let (ctx, pool) = huge_tables(200_000);
    for sql in [
        "SELECT r.id, s.id AS j FROM r JOIN s ON r.a > s.a",
        "SELECT r.id, s.id AS j FROM r FULL JOIN s ON r.a + s.a > 100",
        "SELECT r.id, s.id AS j FROM r CROSS JOIN s",
        // Of a join of joins, with a projection between them.
        "SELECT x.k, s.id AS j FROM (SELECT r.b + q.b AS k FROM r JOIN s AS q ON r.a = q.a) AS x JOIN s ON x.k > s.a",
    ] {
        let mut stream = started(&ctx, sql).await;
        assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
        assert!(pool.reserved() > 0, "{sql}");
        drop(stream);
        released(&pool, sql).await;
    }
}

/// No thread works on once the stream is dropped, and all memory is free. Left to itself, the query would go on for minutes: of its 40
/// billion pairs a call takes 131,072 at most on the host, and a million on a GPU, where calls follow one another.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_stream_stops_the_work() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
    let runtime = BowtieRuntime::with_device_memory(1 << 30);
    let ctx = session_on(Arc::clone(&pool), Arc::clone(&runtime));
    register_huge(&ctx, 200_000);
    let calls = register_counted(&ctx);
    let sql = "SELECT count(*) FILTER (WHERE s.id > 5), sum(s.id) FROM r JOIN s ON counted(r.a, s.a) >= 0";
    let plan = plan_of(&ctx, sql).await.unwrap();
    assert!(shown(&plan).contains("BowtieJoin"), "{}", shown(&plan));
    let mut stream = execute_stream(plan, ctx.task_ctx()).unwrap();
    let begun = Instant::now();
    while calls.load(Ordering::Relaxed) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "no pair yet");
        let next = tokio::time::timeout(Duration::from_millis(100), stream.next()).await;
        assert!(next.is_err(), "the query is too small for this test");
    }
    assert!(device_bytes(&runtime) > 0, "the budget is another one");
    drop(stream);
    let limit = Duration::from_secs(30).max(4 * soon());
    let dropped = Instant::now();
    released_within(limit, &pool, sql).await;
    while device_bytes(&runtime) > 0 {
        assert!(dropped.elapsed() < limit, "{:?}", runtime.device_memory());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The memory belongs to the steps, so none runs any more.
    let until_then = calls.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(calls.load(Ordering::Relaxed), until_then);
}

/// The step that counts the matches of a tile is bounded too.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_stream_while_matches_are_counted() {
    let (ctx, pool) = huge_tables(60_000);
    for (strategy, sql) in [
        (
            "dominance",
            match device() == "host" {
                // Two inequalities are counted by merging there, which is soon done.
                true => {
                    "SELECT r.id, s.id AS j FROM r JOIN s ON r.a > s.a AND r.b < s.b AND r.id <> s.id"
                }
                false => "SELECT r.id, s.id AS j FROM r JOIN s ON r.a > s.a AND r.b < s.b",
            },
        ),
        (
            "tiles",
            "SELECT r.id, s.id AS j FROM r JOIN s ON r.a > s.a AND r.b < s.b",
        ),
    ] {
        set(&ctx, "bowtie.theta_strategy", strategy);
        let mut is_counting = false;
        // Shorter where the first batch has come by then.
        for wait in [300, 100, 30, 10] {
            let mut stream = started(&ctx, sql).await;
            let mut came = false;
            while !came && pool.reserved() == 0 {
                came = polled_for(Duration::from_millis(1), &mut stream, strategy).await;
            }
            came = came || polled_for(Duration::from_millis(wait), &mut stream, strategy).await;
            is_counting = !came && pool.reserved() > 0;
            drop(stream);
            released(&pool, strategy).await;
            if is_counting {
                break;
            }
        }
        assert!(is_counting, "{strategy}: no stream was dropped at work");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aborting_during_the_build() {
    let (ctx, pool) = huge_tables(400_000);
    let sql = "SELECT r.id, s.id AS j FROM r JOIN s ON r.a > s.a";
    let mut at_work = 0;
    for wait in [0, 1, 3, 10, 30] {
        let mut stream = started(&ctx, sql).await;
        let task = tokio::spawn(async move { stream.next().await.map(|batch| batch.is_ok()) });
        let begun = Instant::now();
        while pool.reserved() == 0 && !task.is_finished() {
            assert!(begun.elapsed() < 4 * soon(), "nothing is reserved");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(wait)).await;
        task.abort();
        match task.await {
            Err(error) => at_work += usize::from(error.is_cancelled()),
            // The first batch came before.
            Ok(first) => assert_eq!(first, Some(true), "after {wait} ms"),
        }
        released(&pool, &format!("after {wait} ms")).await;
    }
    assert!(at_work > 0, "no task was aborted at work");
}

/// The output of long ranges never waits; it yields the thread all the same, so that a timeout can end the query.
#[tokio::test(flavor = "current_thread")]
async fn a_time_limit_ends_a_query_of_long_ranges() {
    let (ctx, _) = huge_tables(400_000);
    // 80 billion pairs.
    let sql = "SELECT stddev(r.b) FROM r JOIN s ON r.a < s.a";
    let plan = plan_of(&ctx, sql).await.unwrap();
    assert!(shown(&plan).contains("BowtieJoinExec"), "{}", shown(&plan));
    let begun = Instant::now();
    let limit = Duration::from_millis(500);
    let ended = tokio::time::timeout(limit, collect(plan, ctx.task_ctx())).await;
    assert!(ended.is_err(), "80 billion pairs in {:?}", begun.elapsed());
    assert!(
        begun.elapsed() < limit + 2 * soon(),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_an_aggregation() {
    let (ctx, pool) = huge_tables(2_000_000);
    for sql in [
        "SELECT CAST(a AS VARCHAR) AS t, max(CAST(b AS VARCHAR)), count(*) FROM r GROUP BY CAST(a AS VARCHAR)",
        "SELECT a, b, count(*) FROM r GROUP BY CUBE (a, b)",
    ] {
        let mut stream = started(&ctx, sql).await;
        // A card is faster, and keeps the rows itself.
        let is_host = device() == "host";
        let wait = Duration::from_millis(if is_host { 400 } else { 50 });
        polled_for(wait, &mut stream, sql).await;
        assert!(pool.reserved() > 0 || !is_host, "{sql}");
        drop(stream);
        released(&pool, sql).await;
    }
}
