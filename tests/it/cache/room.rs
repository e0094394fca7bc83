//! Stored columns make room for others, and for queries.

use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieRuntime;

use crate::cache::{GROUPED, batch, lines, read, session, spread, stock_lines, table};
use crate::support::pool::greedy;
use crate::support::session::{session_on, set};

const ROWS: i64 = 20_000;

fn tables(ctx: &SessionContext, count: i64) {
    for n in 0..count {
        let batches = (0..4).map(|part| spread(&batch(n * ROWS + part * ROWS / 4, ROWS / 4)));
        let name = format!("r{n}");
        ctx.register_table(name.as_str(), table(vec![batches.collect()]))
            .unwrap();
    }
}

fn over(n: i64) -> String {
    GROUPED.replace(" r ", &format!(" r{n} "))
}

/// The columns that were used longest ago go, and the store never exceeds its size.
#[tokio::test]
async fn columns_that_were_used_longest_ago_go() {
    const SIZE: usize = 3 << 19;
    let (ctx, runtime) = session(64 << 20, &SIZE.to_string());
    tables(&ctx, 4);
    let (_, each) = read(&ctx, &over(0)).await;
    assert_eq!(SIZE / each, 2, "{each} bytes: two tables fit");
    // Whether all columns of table `n` were stored.
    let stored = async |n| {
        // A task of the query before may hold its columns a little longer, and they are not evicted then.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let (resident, sent) = read(&ctx, &over(n)).await;
        assert!(resident + sent >= each, "{n}: {resident} {sent}");
        sent == 0
    };
    assert!(!stored(1).await && stored(0).await);
    // Columns of table 1 go.
    assert!(!stored(2).await && stored(0).await && !stored(1).await);
    assert!(runtime.device_memory()[0].in_use <= SIZE as u64);
}

/// Of a table that is larger than the store a part stays, and the rest is uploaded for each query.
#[tokio::test]
async fn a_part_of_a_large_table_stays() {
    let (ctx, runtime) = session(64 << 20, "1MB");
    set(&ctx, "bowtie.chunk_rows", "5000");
    tables(&ctx, 1);
    read(&ctx, &over(0)).await;
    let (resident, _) = read(&ctx, &over(0)).await;
    assert!(resident > 1 << 19, "{resident}");
    let again = read(&ctx, &over(0)).await;
    assert_eq!(again.0, resident, "the same part");
    assert!(runtime.device_memory()[0].in_use <= 1 << 20);
}

/// Queries take the memory that stored columns have.
#[tokio::test]
async fn queries_take_the_memory_of_stored_columns() {
    const MEMORY: u64 = 3 << 20;
    let (ctx, runtime) = session(MEMORY, "3MB");
    tables(&ctx, 4);
    for n in 0..4 {
        lines(&ctx, &over(n)).await;
    }
    let kept = runtime.device_memory()[0].in_use;
    assert!(kept > 2 << 20, "{kept}");
    let join = "SELECT count(*), sum(a.v), max(b.t) FROM r0 a JOIN r1 b ON a.k = b.k AND a.v * 2 > b.v AND a.v % 100 = 4";
    let expected = stock_lines(&ctx, join).await;
    set(&ctx, "bowtie.cache", "off");
    assert_eq!(lines(&ctx, join).await, expected);
    let memory = &runtime.device_memory()[0];
    assert!(
        memory.in_use < kept && memory.peak <= MEMORY,
        "{memory:?}, {kept} were kept"
    );
}

/// Concurrent sessions whose columns do not fit together, with queries that need memory too.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_sessions() {
    const MEMORY: u64 = 3 << 20;
    let runtime = BowtieRuntime::with_device_memory(MEMORY);
    let sessions = (0..8).map(|n| {
        let runtime = Arc::clone(&runtime);
        tokio::spawn(async move {
            let ctx = session_on(greedy(256 << 20), runtime);
            set(&ctx, "bowtie.cache", ["2MB", "off", "1MB", "3MB"][n % 4]);
            set(&ctx, "bowtie.offload", "force");
            set(&ctx, "bowtie.chunk_rows", ["auto", "3000"][n / 4]);
            tables(&ctx, 3);
            let join = "SELECT count(*), sum(a.v), max(b.t) FROM r0 a JOIN r1 b ON a.k = b.k AND a.v % 1000 = b.v % 1000";
            let queries = [over(0), over(1), over(2), join.to_string()];
            let mut expected = vec![];
            for sql in &queries {
                expected.push(stock_lines(&ctx, sql).await);
            }
            for round in 0..6 {
                let at = (n + round) % queries.len();
                assert_eq!(lines(&ctx, &queries[at]).await, expected[at], "{}", queries[at]);
            }
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
    assert!(runtime.device_memory()[0].peak <= MEMORY);
}
