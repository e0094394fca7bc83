//! What a physical optimizer rule is not told of the query that is planned: [`Planning`], which the query planner hands over.

use std::future::Future;

use datafusion::execution::memory_pool::MemoryLimit;

/// The query that is planned.
pub(crate) struct Planning {
    /// The limit of the session's memory pool.
    pub(crate) pool: MemoryLimit,
    /// Whether EXPLAIN ANALYZE runs it.
    pub(crate) is_analyzed: bool,
}

tokio::task_local! {
    static PLANNED: Planning;
}

impl Planning {
    /// Plans the query.
    pub(crate) async fn run<T>(self, planning: impl Future<Output = T>) -> T {
        PLANNED.scope(self, planning).await
    }

    /// The limit of the memory pool of the session whose query is planned. Where another planner is in use it is unknown.
    pub(crate) fn pool() -> MemoryLimit {
        let known = PLANNED.try_with(|planned| match planned.pool {
            MemoryLimit::Infinite => MemoryLimit::Infinite,
            MemoryLimit::Finite(limit) => MemoryLimit::Finite(limit),
            MemoryLimit::Unknown => MemoryLimit::Unknown,
        });
        known.unwrap_or(MemoryLimit::Unknown)
    }

    /// Whether EXPLAIN ANALYZE runs the query that is planned.
    pub(crate) fn is_analyzed() -> bool {
        PLANNED
            .try_with(|planned| planned.is_analyzed)
            .unwrap_or(false)
    }
}
