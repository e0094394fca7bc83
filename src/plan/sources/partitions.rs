//! Nodes that divide rows into partitions, or unite them, and do nothing else.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;

/// Whether a node does no more than to divide the rows of its input into partitions, or to unite those of all.
pub(crate) fn only_partitions(node: &Arc<dyn ExecutionPlan>) -> bool {
    let unites = node.downcast_ref::<CoalescePartitionsExec>();
    node.is::<RepartitionExec>() || unites.is_some_and(|node| node.fetch().is_none())
}
