//! A soak: clients of one small device run random queries over tables that come, change and go, and cancel some of them.
//!
//! A client compares each query's rows with DataFusion's. That is sound, since a table either never changes or belongs to one client, which
//! changes it between its queries.
//!
//! `BOWTIE_SOAK_SECONDS` says for how long (10 by default), `BOWTIE_SOAK_SEED` with which random numbers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieRuntime;

use crate::cache::lines;
use crate::memory::soak::client::{Client, Count};
use crate::memory::soak::tables::{SharedTables, table};
use crate::support::pool::greedy;
use crate::support::session::{session_on, set};

mod client;
mod queries;
mod tables;

const CLIENTS: u64 = 16;

const MEMORY: u64 = 2 << 20;

/// How long the batches of a dropped table may live: a snapshot of them goes within 2 s, and a cancelled query's step on a busy machine may
/// take longer than that.
const OUTLIVE: Duration = Duration::from_secs(4);

/// Where `BOWTIE_SOAK_SEED` is not set: a change is tested by the same queries as the one before.
const SEED: u64 = 1;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_of_one_device() {
    let seconds = variable("BOWTIE_SOAK_SECONDS").unwrap_or(10);
    let seed = variable("BOWTIE_SOAK_SEED").unwrap_or(SEED);
    println!("BOWTIE_SOAK_SEED={seed}");
    let until = Instant::now() + Duration::from_secs(seconds);
    let runtime = BowtieRuntime::with_device_memory(MEMORY);
    let shared = SharedTables::new();
    let mut clients = vec![];
    for n in 0..CLIENTS {
        let client = Client::new(n, seed, &runtime, &shared).await;
        clients.push(tokio::spawn(client.run(until)));
    }
    let mut count = Count::default();
    let mut dropped = vec![];
    let mut own_files = vec![];
    for client in clients {
        let ended = client.await.unwrap();
        count.add(&ended.count);
        dropped.extend(ended.dropped);
        own_files.push(ended.files);
    }
    println!("{count:?}");
    assert!(count.offloaded > count.queries / 3, "{count:?}");
    assert!(count.refused < count.queries / 4, "{count:?}");

    let stopped = Instant::now();
    let holders_of_any = || {
        let mut holders = dropped.iter().map(|(_, array)| array.strong_count());
        holders.find(|holders| *holders > 0)
    };
    while let Some(holders) = holders_of_any() {
        assert!(stopped.elapsed() < OUTLIVE, "{holders} hold a batch");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let last = session_on(greedy(256 << 20), Arc::clone(&runtime));
    set(&last, "bowtie.cache", "1MB");
    set(&last, "bowtie.offload", "force");
    shared.register(&last).await;
    in_use_is_stored(&last, &runtime).await;
    for directory in own_files.iter().chain([&shared.files]) {
        tables::forget(&last, directory).await;
    }
    for name in shared.names() {
        last.deregister_table(name).unwrap();
    }
    drop(shared);
    last.register_table("one", table(0, 1, 1)).unwrap();
    lines(&last, "SELECT k, sum(v) FROM one GROUP BY k").await;
    let in_store =
        "SELECT \"table\" FROM bowtie_cache() WHERE \"table\" <> 'one' OR \"table\" IS NULL";
    assert_eq!(lines(&last, in_store).await, [""; 0]);
    last.deregister_table("one").unwrap();
    assert_eq!(in_use_is_stored(&last, &runtime).await, 0);
    let memory = &runtime.device_memory()[0];
    assert!(memory.peak <= MEMORY, "{memory:?}");
    assert!(memory.peak > MEMORY / 2, "too little was done: {memory:?}");
}

/// Waits until the device memory in use is that of the stored columns. Returns it.
async fn in_use_is_stored(ctx: &SessionContext, runtime: &BowtieRuntime) -> u64 {
    let begun = Instant::now();
    loop {
        let sql = "SELECT count(*) || ' ' || coalesce(sum(bytes), 0) FROM bowtie_cache()";
        let listed = lines(ctx, sql).await.remove(0);
        let mut numbers = listed.split_whitespace().filter_map(|n| n.parse().ok());
        let (columns, bytes): (u64, u64) = (numbers.next().unwrap(), numbers.next().unwrap());
        let in_use: u64 = runtime.device_memory().iter().map(|m| m.in_use).sum();
        // A GPU's buffers are a little longer than their values.
        if (bytes..=bytes + bytes / 50 + columns * 1024).contains(&in_use) {
            return in_use;
        }
        assert!(
            begun.elapsed() < 5 * OUTLIVE,
            "{in_use} bytes in use, {bytes} stored\n{:?}",
            runtime.device_memory()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
