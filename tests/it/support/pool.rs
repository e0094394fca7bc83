//! Memory pools, and what they still hold once a query has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use futures::StreamExt;

/// Waits until nothing is reserved: a step that was at work when its stream was dropped releases its memory when it ends.
pub(crate) async fn released_within(limit: Duration, pool: &Arc<dyn MemoryPool>, what: &str) {
    let from = Instant::now();
    while pool.reserved() > 0 {
        assert!(
            from.elapsed() < limit,
            "{} bytes are still reserved: {what}",
            pool.reserved()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for the first batch of a stream, for `wait` at most; returns whether it came. The query must not have ended by then, nor failed.
pub(crate) async fn polled_for(
    wait: Duration,
    stream: &mut SendableRecordBatchStream,
    what: &str,
) -> bool {
    match tokio::time::timeout(wait, stream.next()).await {
        Err(_) => false,
        Ok(Some(Ok(_))) => true,
        Ok(Some(Err(error))) => panic!("{what}: {error}"),
        Ok(None) => panic!("it has ended, and cannot be cancelled: {what}"),
    }
}

pub(crate) fn greedy(bytes: usize) -> Arc<dyn MemoryPool> {
    Arc::new(GreedyMemoryPool::new(bytes))
}
