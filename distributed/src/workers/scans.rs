//! Files of a scan, dealt out to tasks.

use std::sync::Arc;

use datafusion::catalog::memory::DataSourceExec;
use datafusion::common::tree_node::TreeNode;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    DistributedLeafExec, NetworkBoundaryExt, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
};

use crate::files::{is_compressed, refused};

type Plan = Arc<dyn ExecutionPlan>;

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
    if is_compressed(event.plan.as_ref()) {
        // It stays as it is, and is found below exchanges.
        let one = || Ok(ScaleUpLeafNodeEventResponse::new(Arc::clone(event.plan)));
        return Some(if tasks == 1 { one() } else { refused() });
    }
    let partitions = event.plan.output_partitioning().partition_count();
    let groups = match groups(scan, partitions * tasks) {
        Ok(groups) => groups,
        Err(error) => return Some(Err(error)),
    };
    let each = groups.len().div_ceil(tasks);
    let of_task = |task: usize| -> Plan {
        let own = groups.iter().skip(task).step_by(tasks).cloned();
        let mut scan = scan.clone();
        scan.file_groups = own.collect();
        scan.file_groups.resize(each, FileGroup::new(vec![]));
        DataSourceExec::from_data_source(scan)
    };
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), (0..tasks).map(of_task));
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// A divided plan without compressed files but in the stage at its head, which is not sent. One without exchanges is divided when it runs.
///
/// # Errors
/// Of other ones.
pub(super) fn without_compressed(plan: Plan) -> Result<Plan> {
    let is_cut = plan.exists(|node| Ok(node.is_network_boundary()))?;
    let is_sent = plan.exists(|node| match is_cut {
        true if node.is_network_boundary() => {
            node.exists(|below| Ok(is_compressed(below.as_ref())))
        }
        true => Ok(false),
        false => Ok(is_compressed(node.as_ref())),
    })?;
    match is_sent {
        true => refused(),
        false => Ok(plan),
    }
}

/// The files of a scan in up to `count` groups: in parts, if the format allows it.
fn groups(scan: &FileScanConfig, count: usize) -> Result<Vec<FileGroup>> {
    let order = scan.output_ordering.first().cloned();
    let is_ordered = order.is_some();
    let divided = scan.file_source().repartitioned(count, 0, order, scan)?;
    if let Some(divided) = divided {
        return Ok(divided.file_groups);
    }
    if is_ordered {
        return Ok(scan.file_groups.clone());
    }
    let files = scan.file_groups.iter().flat_map(FileGroup::iter).cloned();
    let files: Vec<_> = files.collect();
    let each = files.len().div_ceil(count).max(1);
    let groups = files
        .chunks(each)
        .map(|files| FileGroup::new(files.to_vec()));
    Ok(groups.collect())
}
