//! Files that are larger than the store, and little host memory.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlanProperties as _;
use datafusion_bowtie::BowtieRuntime;
use futures::StreamExt;
use tempfile::tempdir;

use crate::cache::parquet::{create, write};
use crate::cache::{GROUPED, batch, lines, measured, session};
use crate::support::answer::plan_of;
use crate::support::pool::greedy;
use crate::support::session::{session_on, set};

/// A part stays, and the rest is read for each query.
#[tokio::test]
async fn a_part_of_large_files_stays() {
    let (ctx, runtime) = session(64 << 20, "1MB");
    set(&ctx, "bowtie.chunk_rows", "4000");
    let files = tempdir().unwrap();
    for n in 0..3 {
        let path = files.path().join(format!("{n}.parquet"));
        write(&path, &[batch(n * 20_000, 20_000)], 1_000);
    }
    create(&ctx, &files).await;
    let first = measured(&ctx, GROUPED).await;
    let second = measured(&ctx, GROUPED).await;
    assert!(first.values > 0 && first.values < 3 * 60_000, "{first:?}");
    assert_eq!(second.values, 0);
    assert!(
        second.resident > 500 << 10 && second.resident <= 1 << 20,
        "{second:?}"
    );
    // What is not stored is uploaded by the reader of the chunks.
    assert!(second.sent > 0, "{second:?}");
    assert!(runtime.device_memory()[0].in_use <= 1 << 20);
    let join =
        "SELECT count(*), sum(a.v), max(b.t) FROM r a JOIN r b ON a.v = b.v AND a.k < b.k + 1";
    measured(&ctx, join).await;
}

/// Rows that the memory pool refuses are streamed.
#[tokio::test]
async fn a_small_pool() {
    let ctx = session_on(greedy(2 << 20), BowtieRuntime::with_device_memory(64 << 20));
    set(&ctx, "bowtie.cache", "32MB");
    set(&ctx, "bowtie.offload", "force");
    set(&ctx, "datafusion.execution.target_partitions", "2");
    let files = tempdir().unwrap();
    write(
        &files.path().join("a.parquet"),
        &[batch(0, 150_000)],
        150_000,
    );
    create(&ctx, &files).await;
    for _ in 0..2 {
        let sql = "SELECT count(*), sum(v), max(k) FROM r";
        let read = measured(&ctx, sql).await;
        assert_eq!(read.resident, 0);
    }
    let stored = lines(&ctx, "SELECT rows FROM bowtie_cache()").await;
    assert!(stored.is_empty(), "{stored:?}");
    let pool = &ctx.runtime_env().memory_pool;
    assert_eq!(pool.reserved(), 0);
}

/// A query that is dropped while files are read gives back what it has reserved.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_are_dropped() {
    let (ctx, runtime) = session(64 << 20, "32MB");
    set(&ctx, "bowtie.chunk_rows", "2000");
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[batch(0, 100_000)], 1_000);
    create(&ctx, &files).await;
    for round in 0..20 {
        let plan = plan_of(&ctx, GROUPED).await.unwrap();
        assert_eq!(plan.output_partitioning().partition_count(), 1);
        let mut rows = plan.execute(0, ctx.task_ctx()).unwrap();
        let wait = std::time::Duration::from_micros(round * 700);
        drop(tokio::time::timeout(wait, rows.next()).await);
        drop(rows);
    }
    measured(&ctx, GROUPED).await;
    assert_eq!(measured(&ctx, GROUPED).await.values, 0);
    for _ in 0..500 {
        if ctx.runtime_env().memory_pool.reserved() == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
    lines(&ctx, "SELECT * FROM bowtie_unpin('r')").await;
    crate::cache::released(&runtime).await;
}

/// Concurrent sessions that share what is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_sessions() {
    let runtime = BowtieRuntime::with_device_memory(4 << 20);
    let files = Arc::new(tempdir().unwrap());
    for n in 0..4 {
        write(
            &files.path().join(format!("{n}.parquet")),
            &[batch(n * 9_000, 9_000)],
            800,
        );
    }
    let sessions = (0..6).map(|n| {
        let (runtime, files) = (Arc::clone(&runtime), Arc::clone(&files));
        tokio::spawn(async move {
            let ctx = session_on(greedy(256 << 20), runtime);
            set(&ctx, "bowtie.cache", ["2MB", "1MB", "3MB"][n % 3]);
            set(&ctx, "bowtie.offload", "force");
            set(&ctx, "bowtie.chunk_rows", ["auto", "3000"][n / 3]);
            create(&ctx, &files).await;
            for _ in 0..4 {
                measured(&ctx, GROUPED).await;
            }
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
}
