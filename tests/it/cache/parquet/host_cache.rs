//! Columns that have no room on the device stay in host memory, in the form in which the device stores them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieRuntime;
use tempfile::{TempDir, tempdir};

use crate::cache::parquet::{create, encoded, listing_session, write, write_at};
use crate::cache::{GROUPED, Read, batch, lines, measured, session};
use crate::support::answer::analyzed;
use crate::support::pool::greedy;
use crate::support::session::{session_on, set};

/// `count` files of table `r`, each of `rows` rows.
fn files(count: i64, rows: i64) -> TempDir {
    let directory = tempdir().unwrap();
    for n in 0..count {
        let path = directory.path().join(format!("{n}.parquet"));
        write(&path, &[batch(n * rows, rows)], 1_000);
    }
    directory
}

/// Bytes on the device and in host memory, by `bowtie_cache()`.
async fn stored(ctx: &SessionContext) -> (usize, usize) {
    let sql = "SELECT coalesce(sum(bytes), 0), coalesce(sum(host_bytes), 0) FROM bowtie_cache()";
    let line = lines(ctx, sql).await.remove(0);
    let mut numbers = line
        .split('|')
        .filter_map(|field| field.trim().parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn reserved(ctx: &SessionContext) -> usize {
    ctx.runtime_env().memory_pool.reserved()
}

/// Fills the device's share of 1 MiB with a pinned table, so that all other columns stay in host memory.
pub(crate) async fn fill_the_device(ctx: &SessionContext) {
    let values = Int64Array::from_iter_values((0..1 << 17).map(|n| n << 33));
    let column: ArrayRef = Arc::new(values);
    let batch = RecordBatch::try_from_iter([("v", column)]).unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    ctx.register_table("filler", Arc::new(table)).unwrap();
    set(ctx, "bowtie.cache", "1MB");
    let pinned = lines(ctx, "SELECT bytes, reason FROM bowtie_pin('filler')").await;
    assert_eq!(pinned, ["| 1048576 |        |"]);
}

#[tokio::test]
async fn what_has_no_room_on_the_device_is_read_once() {
    let (ctx, runtime) = session(64 << 20, "1MB");
    set(&ctx, "bowtie.host_cache", "32MB");
    set(&ctx, "bowtie.chunk_rows", "4000");
    let directory = files(3, 20_000);
    create(&ctx, &directory).await;
    let first = measured(&ctx, GROUPED).await;
    assert_eq!(first.values, 3 * 60_000);
    let (on_device, on_host) = stored(&ctx).await;
    assert!(on_device > 0 && on_device <= 1 << 20, "{on_device}");
    assert!(on_host > 100 << 10, "{on_host}");
    assert_eq!(reserved(&ctx), on_host);
    for sql in [
        GROUPED,
        "SELECT count(*), sum(a.v), max(b.t) FROM r a JOIN r b ON a.v = b.v AND a.k < b.k + 1",
        "SELECT v, t FROM r WHERE v > 59000 ORDER BY v DESC",
    ] {
        let again = measured(&ctx, sql).await;
        assert_eq!((again.bytes, again.values), (0, 0), "{again:?}");
        assert!(again.resident > 0 && again.sent > 0, "{again:?}");
    }
    let plan = analyzed(&ctx, GROUPED).await;
    assert!(plan.contains("host_cache_bytes="), "{plan}");
    // Without a share of host memory the rest is read again. What is there stays.
    let (_, on_host) = stored(&ctx).await;
    set(&ctx, "bowtie.host_cache", "off");
    measured(&ctx, GROUPED).await;
    assert_eq!(stored(&ctx).await.1, on_host);
    lines(&ctx, "SELECT * FROM bowtie_unpin('r')").await;
    assert_eq!((stored(&ctx).await, reserved(&ctx)), ((0, 0), 0));
    crate::cache::released(&runtime).await;
}

/// Columns that leave the device for others are in host memory when they are asked for again.
#[tokio::test]
async fn tables_take_turns_on_the_device() {
    let (ctx, _) = session(64 << 20, "1MB");
    set(&ctx, "bowtie.host_cache", "32MB");
    set(&ctx, "bowtie.chunk_rows", "4000");
    let directories = [files(2, 12_000), files(1, 24_000)];
    create(&ctx, &directories[0]).await;
    let path = directories[1].path().display();
    let sql = format!("CREATE EXTERNAL TABLE s STORED AS PARQUET LOCATION '{path}/'");
    lines(&ctx, &sql).await;
    let of_s = GROUPED.replace("FROM r", "FROM s");
    let mut decoded = vec![];
    for _ in 0..4 {
        for sql in [GROUPED, &of_s] {
            decoded.push(measured(&ctx, sql).await.values);
        }
    }
    assert!(decoded[0] > 0 && decoded[1] > 0, "{decoded:?}");
    assert_eq!(decoded[4..], [0; 4], "{decoded:?}");
}

#[tokio::test]
async fn little_host_memory() {
    let directory = files(3, 20_000);
    // Of a share a part of the table stays, and of a pool what it has left.
    let sums = "SELECT count(*), sum(v), max(t), min(k) FROM r WHERE t LIKE '%1%'";
    for (pool, share, sql) in [(64 << 20, "1MB", GROUPED), (4 << 20, "32MB", sums)] {
        let runtime = BowtieRuntime::with_device_memory(64 << 20);
        let ctx = session_on(greedy(pool), runtime);
        for (option, value) in [
            ("bowtie.host_cache", share),
            ("bowtie.offload", "force"),
            ("bowtie.chunk_rows", "4000"),
            ("datafusion.execution.target_partitions", "2"),
        ] {
            set(&ctx, option, value);
        }
        fill_the_device(&ctx).await;
        create(&ctx, &directory).await;
        for _ in 0..3 {
            measured(&ctx, sql).await;
        }
        let (_, on_host) = stored(&ctx).await;
        assert!(on_host > 0 && on_host <= pool / 4, "{on_host}");
        if share == "1MB" {
            assert!(on_host > 500 << 10 && on_host <= 1 << 20, "{on_host}");
        }
        // Other columns take the place of those that were used longer ago.
        measured(&ctx, "SELECT max(t), min(t) FROM r WHERE t LIKE '%7%'").await;
        measured(&ctx, sql).await;
    }
}

#[tokio::test]
async fn files_that_are_written_again() {
    let (ctx, _) = listing_session(64 << 20, "1MB").await;
    set(&ctx, "bowtie.host_cache", "32MB");
    fill_the_device(&ctx).await;
    let directory = tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    write_at(&path, &encoded(&[batch(0, 9_000)], 700), 0);
    create(&ctx, &directory).await;
    let mut before = Read::default();
    for round in 0..3 {
        let first = measured(&ctx, GROUPED).await;
        let second = measured(&ctx, GROUPED).await;
        assert_eq!((first.values, second.values), (3 * 9_000, 0));
        assert!(second.sent > 0 && second.resident == 0, "{second:?}");
        before = second;
        write_at(
            &path,
            &encoded(&[batch(round + 1, 9_000)], 700),
            round as u64 + 1,
        );
    }
    // The columns of the old versions are gone.
    measured(&ctx, GROUPED).await;
    let (_, on_host) = stored(&ctx).await;
    assert!(on_host < 2 * before.sent, "{on_host} {before:?}");
}

/// Queries of several sessions that evict each other's columns everywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_sessions() {
    let runtime = BowtieRuntime::with_device_memory(8 << 20);
    let directory = Arc::new(files(4, 9_000));
    let sessions = (0..6).map(|n| {
        let (runtime, directory) = (Arc::clone(&runtime), Arc::clone(&directory));
        tokio::spawn(async move {
            let ctx = session_on(greedy(256 << 20), runtime);
            set(&ctx, "bowtie.cache", "1MB");
            set(&ctx, "bowtie.host_cache", ["1MB", "2MB", "8MB"][n % 3]);
            set(&ctx, "bowtie.offload", "force");
            set(&ctx, "bowtie.chunk_rows", ["auto", "3000"][n / 3]);
            create(&ctx, &directory).await;
            for _ in 0..4 {
                measured(&ctx, GROUPED).await;
            }
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
}
