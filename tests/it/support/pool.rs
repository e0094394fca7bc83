//! Memory pools, and what they still hold once a query has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};

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

pub(crate) fn greedy(bytes: usize) -> Arc<dyn MemoryPool> {
    Arc::new(GreedyMemoryPool::new(bytes))
}
