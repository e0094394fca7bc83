//! Borders between device nodes fall away: an upload of what a download brings down, directly or through nodes of DataFusion that a
//! device node can stand for.
//!
//! ```text
//! BowtieJoinExec                              BowtieJoinExec
//!   BowtieUploadExec                 ──►        BowtieJoinExec: … columns of the projection
//!     ProjectionExec: plain columns             …
//!       BowtieDownloadExec
//!         BowtieJoinExec
//!   …
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::device::Device;
use crate::exec::{
    BowtieDownloadExec, BowtieJoinExec, BowtieProjectionExec, BowtieUploadExec, DeviceExec,
};

type Plan = Arc<dyn ExecutionPlan>;

/// The plan without borders between device nodes.
pub(super) fn remove_borders(plan: Plan) -> Result<Plan> {
    plan.transform_up(|node| {
        let Some(upload) = node.downcast_ref::<BowtieUploadExec>() else {
            return Ok(Transformed::no(node));
        };
        if !upload.expressions().is_empty() {
            return Ok(Transformed::no(node));
        }
        Ok(match on_device(upload.input(), upload.device())? {
            Some(below) => Transformed::yes(below),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// The rows of `plan` as they lie on `device`, where all that makes them is there.
fn on_device(plan: &Plan, device: &Arc<dyn Device>) -> Result<Option<Plan>> {
    if let Some(download) = plan.downcast_ref::<BowtieDownloadExec>() {
        if !Arc::ptr_eq(download.device().budget(), device.budget()) {
            return Ok(None);
        }
        let below = download.input();
        return Ok(Some(match below.downcast_ref::<BowtieJoinExec>() {
            // Who brings the rows down cuts them.
            Some(join) if join.fetch_rows().is_some() => return Ok(None),
            Some(join) => Arc::new(join.staying()?),
            None => Arc::clone(below),
        }));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let Some(below) = on_device(projection.input(), device)? else {
            return Ok(None);
        };
        return projected(projection, below, device);
    }
    Ok(None)
}

/// A projection of the rows of a device node, where it is one of columns.
fn projected(
    projection: &ProjectionExec,
    below: Plan,
    device: &Arc<dyn Device>,
) -> Result<Option<Plan>> {
    let expressions = projection.expr().iter();
    let columns = expressions.map(|e| Some(e.expr.downcast_ref::<Column>()?.index()));
    let Some(columns) = columns.collect::<Option<Vec<usize>>>() else {
        return Ok(None);
    };
    // A join need not gather the others.
    if let Some(join) = below.downcast_ref::<BowtieJoinExec>() {
        return Ok(Some(Arc::new(join.with_output(&columns)?)));
    }
    Ok(Some(Arc::new(BowtieProjectionExec::new(
        below,
        columns.into(),
        projection.schema(),
        Arc::clone(device),
    ))))
}
