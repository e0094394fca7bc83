//! Memory, and queries that are cancelled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::support::answer::{answer, plan_of};
use crate::support::pool::{greedy, released_within};
use crate::support::session::{session_in, set};

const SOON: Duration = Duration::from_secs(20);

const NUMBERS: &str = "SELECT value, value + 1 FROM generate_series(1, 60000)";
const TEXT: &str = "SELECT ''id '' || value, ''id '' || (value + 1) FROM generate_series(1, 60000)";

fn of(query: &str) -> String {
    format!("SELECT * FROM bowtie_clusters('{query}')")
}

/// No node but the one of the clusters reserves memory.
fn of_one_partition(pool: &Arc<dyn MemoryPool>) -> SessionContext {
    let ctx = session_in(Arc::clone(pool));
    set(&ctx, "datafusion.execution.target_partitions", "1");
    ctx
}

#[tokio::test]
async fn a_small_pool_refuses() {
    for query in [NUMBERS, TEXT] {
        for bytes in [0, 1_000, 100_000, 1_000_000] {
            let pool = greedy(bytes);
            let ctx = of_one_partition(&pool);
            let error = answer(&ctx, &of(query)).await.unwrap_err().to_string();
            assert!(error.contains("Resources exhausted"), "{error}");
            assert!(error.contains("ClustersExec"), "{error}");
            released_within(SOON, &pool, query).await;
        }
    }
}

#[tokio::test]
async fn memory_is_reserved_until_the_end() {
    for query in [NUMBERS, TEXT] {
        let pool = greedy(64 << 20);
        let ctx = of_one_partition(&pool);
        let plan = plan_of(&ctx, &of(query)).await.unwrap();
        assert_eq!(pool.reserved(), 0);
        let mut stream = execute_stream(plan, ctx.task_ctx()).unwrap();
        let mut rows = stream.next().await.unwrap().unwrap().num_rows();
        // The words, or the text with its ends; parents, and the least ids.
        assert!(pool.reserved() > 60_000 * 16, "{}", pool.reserved());
        assert!(pool.reserved() < 60_000 * 160, "{}", pool.reserved());
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows();
        }
        assert_eq!(rows, 60_001);
        drop(stream);
        released_within(SOON, &pool, query).await;
    }
}

/// Pairs take no memory, whatever their number.
#[tokio::test]
async fn many_pairs_of_few_ids() {
    let pool = greedy(2_000_000);
    let ctx = of_one_partition(&pool);
    let query = "SELECT value % 1000, value * 7 % 1000 FROM generate_series(1, 2000000)";
    let sql = format!("SELECT count(*) FROM bowtie_clusters('{query}')");
    let plan = plan_of(&ctx, &sql).await.unwrap();
    let counted = datafusion::physical_plan::collect(plan, ctx.task_ctx());
    assert_eq!(counted.await.unwrap()[0].num_rows(), 1);
    released_within(SOON, &pool, query).await;
}

/// A stream that is dropped while pairs are read, or between two batches of the result, releases its memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stream_releases_its_memory() {
    let pool: Arc<dyn MemoryPool> = greedy(1 << 30);
    let ctx = of_one_partition(&pool);
    let endless =
        of("SELECT value % 100000, value * 7 % 100000 FROM generate_series(1, 100000000000)");
    let plan = plan_of(&ctx, &endless).await.unwrap();
    let mut stream = execute_stream(plan, ctx.task_ctx()).unwrap();
    let reading = tokio::spawn(async move { stream.next().await });
    let begun = Instant::now();
    while pool.reserved() == 0 {
        assert!(begun.elapsed() < SOON, "nothing is reserved");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    reading.abort();
    released_within(SOON, &pool, "while it reads").await;

    let plan = plan_of(&ctx, &of(NUMBERS)).await.unwrap();
    let mut stream = execute_stream(plan, ctx.task_ctx()).unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    assert!(pool.reserved() > 0);
    drop(stream);
    released_within(SOON, &pool, "between batches").await;
}
