//! How many tasks a stage has, and which worker runs each.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DesiredTaskCountHandler, RouteTasksEvent,
    RouteTasksEventResponse, WorkerResolver, get_distributed_worker_resolver,
};
use url::Url;

/// Workers by their addresses.
pub(super) struct Workers(pub(super) Vec<Url>);

impl WorkerResolver for Workers {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

/// Joins without an equality have a task on each worker, however small their inputs are: each reads the whole build side, and its share of
/// the probe side, or its share of the ranges of both. The engine counts tasks by the bytes of files.
pub(super) struct JoinsOnAllWorkers;

#[async_trait]
impl DesiredTaskCountHandler for JoinsOnAllWorkers {
    async fn handle(
        &self,
        event: DesiredTaskCountEvent<'_>,
    ) -> Option<Result<DesiredTaskCountEventResponse>> {
        let plan = event.plan;
        if !plan.is::<NestedLoopJoinExec>() && !plan.is::<CrossJoinExec>() && !is_by_ranges(plan) {
            return None;
        }
        let workers = get_distributed_worker_resolver(event.session_config);
        let urls = workers.and_then(|workers| workers.get_urls());
        Some(urls.map(|urls| DesiredTaskCountEventResponse::desired(urls.len())))
    }
}

/// Whether a join was one of comparisons, and is one of equal ranges.
fn is_by_ranges(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let keys = plan.downcast_ref::<HashJoinExec>().map(HashJoinExec::on);
    let mut keys = keys.into_iter().flatten();
    keys.any(|(left, _)| {
        let column = left.downcast_ref::<Column>();
        column.is_some_and(|column| column.name() == "bowtie_range")
    })
}

/// The n-th task runs on the n-th worker, so that the numbers of tasks in `EXPLAIN ANALYZE VERBOSE` are those of workers. Where single tasks
/// run is up to the engine.
pub(super) fn task_on_worker(
    event: RouteTasksEvent<'_>,
) -> Option<Result<RouteTasksEventResponse>> {
    if event.task_count == 1 {
        return None;
    }
    let workers = get_distributed_worker_resolver(event.task_ctx.session_config());
    let urls = match workers.and_then(|workers| workers.get_urls()) {
        Ok(urls) if urls.is_empty() => return None,
        Ok(urls) => urls,
        Err(error) => return Some(Err(error)),
    };
    let of_tasks = urls.iter().cycle().take(event.task_count);
    Some(Ok(RouteTasksEventResponse::new(
        of_tasks.cloned().collect(),
    )))
}
