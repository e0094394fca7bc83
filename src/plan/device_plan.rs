//! Nodes of a device for specs: uploads below, a download above.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

use crate::device::primitives::device::Device;
use crate::exec::aggregate::node::AggregateOperator;
use crate::exec::join::node::JoinOperator;
use crate::exec::join_aggregate::node::JoinAggregateOperator;
use crate::exec::node::{DeviceNode, DeviceOperator};
use crate::exec::transfer::chunk_limits::Role;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::exec::transfer::upload::UploadOperator;
use crate::ir::side::Side;
use crate::plan::recognise::aggregate_source::GroupSource;
use crate::plan::recognise::source::JoinSource;
use crate::spec::aggregate::GroupSpec;
use crate::spec::join::JoinSpec;
use crate::spec::join_aggregate::JoinAggregateSpec;

pub(crate) fn group_plan(
    source: &GroupSource<'_>,
    spec: GroupSpec,
    device: &Arc<dyn Device>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let upload = UploadOperator {
        columns: spec.input.clone(),
        role: Role::Grouped,
    };
    let upload = on(upload, vec![Arc::clone(source.bottom.input())], device)?;
    grouped(upload, spec, device)
}

/// A node of a device.
pub(crate) fn on(
    operator: impl DeviceOperator,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    device: &Arc<dyn Device>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let device = Arc::clone(device);
    let node = DeviceNode::try_new(Arc::new(operator), inputs, device)?;
    Ok(Arc::new(node))
}

/// The rows of a node of a device on the host.
fn downloaded(node: Arc<dyn ExecutionPlan>, device: &Arc<dyn Device>) -> Arc<dyn ExecutionPlan> {
    Arc::new(BowtieDownloadExec::new(node, Arc::clone(device)))
}

/// An aggregation above a device node.
pub(crate) fn grouped(
    input: Arc<dyn ExecutionPlan>,
    spec: GroupSpec,
    device: &Arc<dyn Device>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let groups = on(AggregateOperator(Arc::new(spec)), vec![input], device)?;
    Ok(downloaded(groups, device))
}

pub(crate) fn uploads(
    source: &JoinSource,
    spec: &JoinSpec,
    device: &Arc<dyn Device>,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>)> {
    let upload = |side: Side, plan: &Arc<dyn ExecutionPlan>| -> Result<Arc<dyn ExecutionPlan>> {
        let upload = UploadOperator {
            columns: spec.input(side).clone(),
            role: side.into(),
        };
        on(upload, vec![Arc::clone(plan)], device)
    };
    Ok((
        upload(Side::Left, &source.left)?,
        upload(Side::Right, &source.right)?,
    ))
}

pub(crate) fn join_plan(
    source: &JoinSource,
    spec: JoinSpec,
    device: &Arc<dyn Device>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (left, right) = uploads(source, &spec, device)?;
    let join = on(JoinOperator(Arc::new(spec)), vec![left, right], device)?;
    Ok(downloaded(join, device))
}

pub(crate) fn aggregate_plan(
    source: &JoinSource,
    spec: JoinAggregateSpec,
    device: &Arc<dyn Device>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (left, right) = uploads(source, &spec.join, device)?;
    let operator = JoinAggregateOperator(Arc::new(spec));
    let groups = on(operator, vec![left, right], device)?;
    Ok(downloaded(groups, device))
}
