//! Which nodes a pipeline has.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode, PiecewiseMergeJoinExec,
    SortMergeJoinExec,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::plan::stage::hidden_order::limits_hidden_order;

type Plan = Arc<dyn ExecutionPlan>;

/// Whether a node makes rows of its inputs' rows.
fn computes(node: &Plan) -> bool {
    works_by_partition(node)
        || node.is::<SortPreservingMergeExec>()
        || node.is::<UnionExec>()
        || node.is::<InterleaveExec>()
        || node.is::<GlobalLimitExec>()
}

/// Whether each partition of a node is made of the same partition of its inputs, or of an input that all partitions read.
pub(crate) fn works_by_partition(node: &Plan) -> bool {
    node.is::<HashJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<PiecewiseMergeJoinExec>()
        || node.is::<AggregateExec>()
        || node.is::<FilterExec>()
        || node.is::<ProjectionExec>()
        || node.is::<SortExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<WindowAggExec>()
        || node.is::<BoundedWindowAggExec>()
}

/// Whether a pipeline may begin with a node, or go on with it.
pub(crate) fn may_compute(node: &Plan) -> Result<bool> {
    Ok(computes(node) && !limits_hidden_order(node)?)
}

/// Whether a node does no more than to hand on rows in this process, each in its partition.
pub(crate) fn hands_on(node: &Plan) -> bool {
    node.is::<CooperativeExec>() || node.is::<BufferExec>()
}

/// Whether a node does no more than to move rows between partitions of this process, or to hand them on.
pub(crate) fn moves_rows(node: &Plan) -> bool {
    hands_on(node)
        || node.is::<RepartitionExec>()
        || node
            .downcast_ref::<CoalescePartitionsExec>()
            .is_some_and(|node| node.fetch().is_none())
}

/// Whether a node sorts each of its partitions for the first rows of it, which are others than those of all partitions as one.
pub(crate) fn has_first_rows_of_partitions(node: &Plan) -> bool {
    node.is::<SortExec>()
        && node.fetch().is_some()
        && node.output_partitioning().partition_count() > 1
}

/// Whether a node reads no more than the first rows of each partition.
fn merges_first_rows(node: &Plan) -> bool {
    node.is::<SortPreservingMergeExec>() && node.fetch().is_some()
}

/// What a node is to the pipeline above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Membership {
    Member,
    /// A scan that the device may do. Where it does not, it is an input.
    Scan,
    /// Its rows come from elsewhere.
    Input,
}

impl Membership {
    /// Of a node below `parent`, as its `child`-th input.
    pub(crate) fn of(
        node: &Plan,
        (parent, child): (&Plan, usize),
        by_partition: bool,
    ) -> Result<Self> {
        if limits_hidden_order(node)? {
            return Ok(Self::Input);
        }
        if !by_partition {
            return Ok(match () {
                // Neither does a device do scans that have a limit, nor may such a one be cut to partitions.
                () if node.is::<DataSourceExec>() && node.fetch().is_none() => Self::Scan,
                () if has_first_rows_of_partitions(node) && !merges_first_rows(parent) => {
                    Self::Input
                }
                () if computes(node) || moves_rows(node) => Self::Member,
                () if node.is::<CoalescePartitionsExec>() => Self::Member,
                () => Self::Input,
            });
        }
        let partitions = node.output_partitioning().partition_count();
        let same = partitions == parent.output_partitioning().partition_count();
        let is_member = same && works_by_partition(node) && !unites_partitions(node);
        Ok(match is_member && !is_collected(parent, child) {
            true => Self::Member,
            false => Self::Input,
        })
    }
}

/// Whether rows of an input that all partitions of a join read come out once, by what all of these have found.
pub(crate) fn unites_partitions(node: &Plan) -> bool {
    use JoinType::*;
    let kind = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else if let Some(join) = node.downcast_ref::<PiecewiseMergeJoinExec>() {
        join.join_type()
    } else {
        return false;
    };
    let of_left = matches!(kind, Left | Full | LeftSemi | LeftAnti | LeftMark);
    of_left && is_collected(node, 0) && node.output_partitioning().partition_count() > 1
}

/// Whether a node reads all of an input for each of its partitions.
pub(crate) fn is_collected(node: &Plan, child: usize) -> bool {
    let collects_left = match node.downcast_ref::<HashJoinExec>() {
        Some(join) => *join.partition_mode() != PartitionMode::Partitioned,
        None => {
            node.is::<NestedLoopJoinExec>()
                || node.is::<CrossJoinExec>()
                || node.is::<PiecewiseMergeJoinExec>()
        }
    };
    collects_left && child == 0
}
