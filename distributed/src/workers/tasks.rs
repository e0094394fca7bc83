//! How many tasks a stage has, and which worker runs each.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, Partitioning};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, StatisticsArgs, StatisticsContext,
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DesiredTaskCountHandler, RouteTasksEvent,
    RouteTasksEventResponse, WorkerResolver, get_distributed_worker_resolver,
};
use url::Url;

use crate::files::is_compressed;

/// Workers by their addresses.
pub(super) struct Workers(pub(super) Vec<Url>);

impl WorkerResolver for Workers {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

/// Pairs of rows, with equal keys or not, from which a join by equal keys and a filter is worth a task on each worker: how many of them have equal keys
/// is known of few files, and fewer take less time than tasks do.
const MANY_PAIRS: usize = 1 << 32;

/// How many tasks a node's stage has, where the engine, which counts tasks by the bytes of files, does not say so well.
///
/// Joins of many pairs have a task on each worker, however small their inputs are. Where there is no equality, each task reads the whole build side, and
/// its share of the probe side, or its share of the ranges of both.
pub(super) struct TaskCounts;

#[async_trait]
impl DesiredTaskCountHandler for TaskCounts {
    async fn handle(
        &self,
        event: DesiredTaskCountEvent<'_>,
    ) -> Option<Result<DesiredTaskCountEventResponse>> {
        let plan = event.plan;
        if needs_whole_inputs(plan)
            || is_limited(plan)
            || has_places(plan)
            || is_compressed(plan.as_ref())
        {
            return Some(Ok(DesiredTaskCountEventResponse::maximum(1)));
        }
        let of_all_pairs = plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>();
        if !of_all_pairs && !is_by_ranges(plan) && !filters_many_pairs(plan) {
            return None;
        }
        let workers = get_distributed_worker_resolver(event.session_config);
        let urls = workers.and_then(|workers| workers.get_urls());
        Some(urls.map(|urls| DesiredTaskCountEventResponse::desired(urls.len())))
    }
}

/// Whether a node must see all rows of an input, or all with equal keys, and does because the input has one partition: DataFusion exchanges nothing
/// then, and the engine would divide the files below among tasks, each of which misses rows of the others. Above a merge of partitions there is one
/// task anyway.
fn needs_whole_inputs(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let required = plan.input_distribution_requirements();
    plan.children().into_iter().enumerate().any(|(i, input)| {
        let required = required.child_distribution(i);
        let is_required =
            required.is_some_and(|d| !matches!(d, Distribution::UnspecifiedDistribution));
        let is_merged =
            input.is::<CoalescePartitionsExec>() || input.is::<SortPreservingMergeExec>();
        is_required && !is_merged && input.output_partitioning().partition_count() == 1
    })
}

/// Whether a node gives out a limited number of rows in all: each of several tasks would give out as many.
fn is_limited(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.fetch().is_some() && plan.output_partitioning().partition_count() == 1
}

/// Whether a scan says by their values in which partition its rows are. The engine deals out files anew.
fn has_places(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let known = plan.output_partitioning();
    let is_dealt_out = matches!(
        known,
        Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_)
    );
    plan.children().is_empty() && !is_dealt_out
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

/// Whether a join tests a filter on the pairs of equal keys, and may have many of them.
fn filters_many_pairs(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let join = plan.downcast_ref::<HashJoinExec>();
    let Some(join) = join.filter(|join| join.filter().is_some()) else {
        return false;
    };
    let sides = rows(join.left()).zip(rows(join.right()));
    sides.is_some_and(|(left, right)| left.saturating_mul(right) >= MANY_PAIRS)
}

/// The rows of a node, where statistics tell. The engine's nodes have none of their own, and as many as their input.
fn rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let known = known
        .ok()
        .and_then(|known| known.num_rows.get_value().copied());
    known.or_else(|| match plan.children()[..] {
        [input] => rows(input),
        _ => None,
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::stats::Precision;
    use datafusion::common::{ColumnStatistics, JoinSide, JoinType, NullEquality, Statistics};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::BinaryExpr;
    use datafusion::physical_plan::joins::PartitionMode;
    use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
    use datafusion::physical_plan::test::exec::StatisticsExec;

    use super::*;

    /// A join by equal keys of two sides of `rows` rows.
    fn join(rows: usize, filtered: bool) -> Arc<dyn ExecutionPlan> {
        let schema = Schema::new(vec![Field::new("k", DataType::Int64, false)]);
        let side = || {
            let statistics = Statistics {
                num_rows: Precision::Inexact(rows),
                total_byte_size: Precision::Absent,
                column_statistics: vec![ColumnStatistics::new_unknown()],
            };
            Arc::new(StatisticsExec::new(statistics, schema.clone())) as Arc<dyn ExecutionPlan>
        };
        let column = |name: &str, index| Arc::new(Column::new(name, index)) as _;
        let pair = ["a", "b"].map(|name| Field::new(name, DataType::Int64, false));
        let less = BinaryExpr::new(column("a", 0), Operator::Lt, column("b", 1));
        let indices = [JoinSide::Left, JoinSide::Right];
        let indices = indices.map(|side| ColumnIndex { index: 0, side }).to_vec();
        let filter = JoinFilter::new(
            Arc::new(less),
            indices,
            Arc::new(Schema::new(pair.to_vec())),
        );
        let join = HashJoinExec::try_new(
            side(),
            side(),
            vec![(column("k", 0), column("k", 0))],
            filtered.then_some(filter),
            &JoinType::Inner,
            None,
            PartitionMode::Partitioned,
            NullEquality::NullEqualsNothing,
            false,
        );
        Arc::new(join.unwrap())
    }

    #[test]
    fn joins_that_filter_many_pairs() {
        assert!(filters_many_pairs(&join(1 << 16, true)));
        assert!(!filters_many_pairs(&join((1 << 16) - 1, true)));
        assert!(!filters_many_pairs(&join(1 << 20, false)));
    }
}
