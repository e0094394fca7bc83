//! Nodes of a device for specs, with a download above.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::aggregate::node::AggregateOperator;
use crate::exec::aggregate::resident::are_results;
use crate::exec::join::node::JoinOperator;
use crate::exec::join_aggregate::node::JoinAggregateOperator;
use crate::exec::node::{DeviceNode, DeviceOperator};
use crate::exec::scan::node::ScanOperator;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::runtime::planned_device::PlannedDevice;
use crate::spec::aggregate::GroupSpec;
use crate::spec::join::JoinSpec;
use crate::spec::join_aggregate::JoinAggregateSpec;

type Plan = Arc<dyn ExecutionPlan>;

/// A node of a device.
pub(crate) fn device_node(
    operator: impl DeviceOperator,
    inputs: Vec<Plan>,
    device: &Arc<PlannedDevice>,
) -> Result<Plan> {
    let device = Arc::clone(device);
    let node = DeviceNode::try_new(Arc::new(operator), inputs, device)?;
    Ok(Arc::new(node))
}

/// The rows of a node of a device on the host.
pub(crate) fn downloaded(node: Plan, device: &Arc<PlannedDevice>) -> Plan {
    Arc::new(BowtieDownloadExec::new(node, Arc::clone(device)))
}

/// Whether all rows of a device node come from stored tables.
fn reads_stored_tables(node: &Plan) -> bool {
    match node.children()[..] {
        [] => DeviceNode::find::<ScanOperator>(node).is_some(),
        ref inputs => inputs.iter().all(|input| reads_stored_tables(input)),
    }
}

/// An aggregation above a device node. Over stored tables its groups are finished on the device, if its states are the results: only these
/// are downloaded.
pub(crate) fn aggregate_plan(
    input: Plan,
    spec: GroupSpec,
    device: &Arc<PlannedDevice>,
) -> Result<Plan> {
    let stored = reads_stored_tables(&input);
    let spec = GroupSpec {
        views_are_text: stored && device.is_gpu(),
        ..spec
    };
    let spec = GroupSpec {
        output_on_device: stored && are_results(&spec),
        ..spec
    };
    let operator = AggregateOperator(Arc::new(spec));
    let groups = device_node(operator, vec![input], device)?;
    Ok(downloaded(groups, device))
}

/// A join of two device nodes, whose rows stay on the device.
pub(crate) fn resident_join(
    [left, right]: [Plan; 2],
    spec: JoinSpec,
    device: &Arc<PlannedDevice>,
) -> Result<Plan> {
    device_node(JoinOperator(Arc::new(spec)), vec![left, right], device)
}

/// A join of two device nodes.
pub(crate) fn join_plan(
    inputs: [Plan; 2],
    spec: JoinSpec,
    device: &Arc<PlannedDevice>,
) -> Result<Plan> {
    Ok(downloaded(resident_join(inputs, spec, device)?, device))
}

/// A join of two device nodes, and the aggregation above it, as one node.
pub(crate) fn fused_plan(
    [left, right]: [Plan; 2],
    spec: JoinAggregateSpec,
    device: &Arc<PlannedDevice>,
) -> Result<Plan> {
    let operator = JoinAggregateOperator(Arc::new(spec));
    let groups = device_node(operator, vec![left, right], device)?;
    Ok(downloaded(groups, device))
}
