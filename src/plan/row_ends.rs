//! Filters and projections whose rows the host reads: SELECT and PROJECT of \[D\] table 1 at the top of what runs on the device. Only the
//! rows and columns of their result are downloaded.
//!
//! ```text
//! FilterExec                          BowtieDownloadExec
//!   DataSourceExec              ──►     BowtieFilterExec
//!                                         BowtieScanExec: columns that stay on the device
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::chunk::chunk_limits::Role;
use crate::exec::scan::table::Table;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::plan::device_plan::downloaded;
use crate::plan::explain::decision::Decision;
use crate::plan::query_ends::{Origin, origin_of};
use crate::plan::recognise::candidate::NodeId;
use crate::plan::rewrite::Rewrite;
use crate::plan::sources::partitions::only_partitions;

type Plan = Arc<dyn ExecutionPlan>;

impl Rewrite<'_> {
    /// A filter, a projection or another node, above its inputs: on the device if that ends there.
    pub(crate) fn rows(&mut self, id: NodeId) -> Result<Plan> {
        let below = self.unchanged(id)?;
        let ended = self.rows_on_device(id, &below)?;
        if ended.is_some() {
            let plan = &self.plan.node(id).plan;
            self.recorder.decided(id, || {
                let children = plan.children();
                let input = children.first().map(|input| self.statistics.rows(input));
                let (reason, estimate) = (
                    "only the rows of its result are downloaded",
                    self.policy.estimate(id),
                );
                Decision::of_end(plan.name(), String::new(), Ok(reason), input, estimate)
            });
        }
        Ok(ended.unwrap_or(below))
    }

    /// The rows of `rewritten`, which node `id` became, by the device, if the host reads them there and all nodes that make them can be on it.
    fn rows_on_device(&mut self, id: NodeId, rewritten: &Plan) -> Result<Option<Plan>> {
        // What only moves rows is left as it is: DataFusion decides later on partitions.
        if only_partitions(rewritten) || !self.policy.ends_rows(id, self.plan) {
            return Ok(None);
        }
        // The device is asked for only if there may be something on it.
        let may_be = |node: &Plan| Ok(node.is::<BowtieDownloadExec>() || Table::of(node).is_some());
        if !rewritten.exists(may_be)? {
            return Ok(None);
        }
        let device = self.device()?;
        let mut steps = vec![];
        let resident =
            self.transfers(&device, &mut steps)
                .resident(id, rewritten, Role::Downloaded)?;
        if let (None, Some(step)) = (&resident, steps.into_iter().next()) {
            let (id, node) = (step.id, Decision::of_host_step(step));
            self.recorder.decided(id, || node);
        }
        let resident = resident.filter(|below| origin_of(below) != Origin::Host);
        Ok(resident.map(|below| downloaded(below, &device)))
    }
}
