//! Hash joins that send one side to all tasks.

use std::sync::Arc;

use ballista_core::config::BallistaConfig;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::JoinType;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::executors::task_border::{Border, TaskBorderExec};

type Plan = Arc<dyn ExecutionPlan>;

/// The most bytes that Ballista takes a value for.
const VALUE_BYTES: usize = 32;

/// The most bytes of a side that Ballista sends to all tasks.
pub(super) fn most_bytes(config: &ConfigOptions) -> usize {
    let known = config.extensions.get::<BallistaConfig>();
    let of = |config: &BallistaConfig| config.broadcast_join_threshold_bytes();
    known.map_or_else(|| of(&BallistaConfig::default()), of)
}

/// A join whose left side Ballista will not send to all tasks, with an exchange of both. Ballista would exchange them without a look at the nodes
/// above, which may need one partition, or those of the right side.
pub(super) fn exchanged_unless_short(node: Plan, most_bytes: usize) -> Result<Transformed<Plan>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else {
        return Ok(Transformed::no(node));
    };
    if *join.partition_mode() != PartitionMode::CollectLeft {
        return Ok(Transformed::no(node));
    }
    if join.null_aware {
        // One task has all of it. Ballista refuses a left side that it knows to be long.
        let left = TaskBorderExec::above(Arc::clone(join.left()), Border::OneTask);
        let sides = vec![left, Arc::clone(join.right())];
        return Ok(Transformed::yes(replace_children_if_necessary(
            node, sides,
        )?));
    }
    if preserves_right_alone(*join.join_type()) && is_short(join.left(), most_bytes) {
        return Ok(Transformed::no(node));
    }
    let [left, right] = [join.left(), join.right()].map(|side| {
        let merged = side.downcast_ref::<CoalescePartitionsExec>();
        Arc::clone(merged.map_or(side, |merge| merge.input()))
    });
    let exchanged = join
        .builder()
        .with_partition_mode(PartitionMode::Partitioned);
    let exchanged = exchanged.build_exec()?;
    Ok(Transformed::yes(replace_children_if_necessary(
        exchanged,
        vec![left, right],
    )?))
}

/// Whether no row of the left side is given out on its own: tasks that have all of it do not know of its matches in others.
fn preserves_right_alone(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Inner | Right | RightSemi | RightAnti | RightMark)
}

/// Whether Ballista, too, takes a side for short: it counts these bytes, or fewer where only rows are known.
fn is_short(side: &Plan, most_bytes: usize) -> bool {
    let statistics = StatisticsContext::new().compute(side.as_ref(), &StatisticsArgs::new());
    let Ok(statistics) = statistics else {
        return false;
    };
    let known = |bytes: Option<&usize>| bytes.copied().filter(|bytes| *bytes > 0);
    let row = side.schema().fields().len().max(1) * VALUE_BYTES;
    let rows = known(statistics.num_rows.get_value());
    let bytes = known(statistics.total_byte_size.get_value());
    let bytes = bytes.or_else(|| rows.map(|rows| rows.saturating_mul(row)));
    bytes.is_some_and(|bytes| bytes < most_bytes)
}
