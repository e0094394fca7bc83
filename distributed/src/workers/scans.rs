//! Files of a scan, dealt out to tasks.

use std::sync::Arc;

use datafusion::catalog::memory::DataSourceExec;
use datafusion::datasource::physical_plan::{FileGroup, FileGroupPartitioner, FileScanConfig};
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    DistributedLeafExec, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
};

/// A scan whose tasks have as many partitions each, some of them without files. The engine, which asks DataFusion for as many groups of files and may get
/// fewer, leaves the last tasks less of them, and refuses the query then.
pub(super) fn of_tasks(
    event: ScaleUpLeafNodeEvent,
) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let source = event.plan.downcast_ref::<DataSourceExec>()?.data_source();
    let scan = source.downcast_ref::<FileScanConfig>()?;
    if scan.output_partitioning.is_some() {
        return None;
    }
    let tasks = event.task_count;
    let partitions = event.plan.output_partitioning().partition_count();
    let groups = FileGroupPartitioner::new()
        .with_target_partitions(partitions * tasks)
        .with_repartition_file_min_size(0)
        .with_preserve_order_within_groups(!scan.output_ordering.is_empty())
        .repartition_file_groups(&scan.file_groups)
        .unwrap_or_else(|| scan.file_groups.clone());
    let each = groups.len().div_ceil(tasks);
    let of_task = |task: usize| -> Arc<dyn ExecutionPlan> {
        let own = groups.iter().skip(task).step_by(tasks).cloned();
        let mut scan = scan.clone();
        scan.file_groups = own.collect();
        scan.file_groups.resize(each, FileGroup::new(vec![]));
        DataSourceExec::from_data_source(scan)
    };
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), (0..tasks).map(of_task));
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}
