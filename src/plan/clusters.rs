//! Clusters of pairs that are on a device: their node is there too, and only ids with their clusters are downloaded.
//!
//! ```text
//! ClustersExec                        BowtieDownloadExec
//!   ProjectionExec, FilterExec, … ──►   BowtieClustersExec
//!     BowtieDownloadExec                  BowtieProjectionExec, BowtieFilterExec, …
//!       …                                   …
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

use crate::error::Decline;
use crate::exec::chunk::chunk_limits::Role;
use crate::exec::clusters::exec::ClustersExec;
use crate::exec::clusters::node::ClustersOperator;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::options::Offload;
use crate::plan::compile::key_types::is_orderable;
use crate::plan::device_plan::{device_node, downloaded};
use crate::plan::explain::decision::Decision;
use crate::plan::query_ends::{EndDecline, FINISHED_ON_HOST, Origin, origin_of};
use crate::plan::recognise::candidate::NodeId;
use crate::plan::rewrite::{Rewrite, log_declined};

type Plan = Arc<dyn ExecutionPlan>;

/// Why clusters of pairs on the host are made there.
const ON_HOST: &str =
    "its pairs are not on a device, and an upload only to cluster them gains nothing";
const BY_CPU: &str = "the CPU backend would keep all pairs, which ClustersExec reads batch by batch; bowtie.offload = 'force' offloads it";

/// Whether a plan has clusters of pairs that may be on a device.
pub(crate) fn has_clusters(plan: &Plan) -> bool {
    let children = plan.children();
    let is_such_node =
        plan.is::<ClustersExec>() && children.iter().any(|input| has_download(input));
    is_such_node || children.into_iter().any(has_clusters)
}

fn has_download(plan: &Plan) -> bool {
    plan.is::<BowtieDownloadExec>() || plan.children().into_iter().any(has_download)
}

/// Whether a device numbers and orders ids of a type as `ClustersExec` does. Floats have two zeros, of which that one gives 0.0.
fn is_exact(data_type: &DataType) -> bool {
    let on_host = data_type.is_floating() || matches!(data_type, DataType::Interval(_));
    is_orderable(data_type) && !on_host
}

impl Rewrite<'_> {
    /// Clusters above their pairs.
    pub(crate) fn clusters(&mut self, id: NodeId) -> Result<Plan> {
        let below = self.unchanged(id)?;
        let outcome = self.clusters_on_device(id, &below)?;
        let outcome = self.declined_end(id, outcome)?;
        let plan = &self.plan.node(id).plan;
        log_declined(plan.name(), outcome.as_ref().err());
        self.recorder.decided(id, || {
            let children = plan.children();
            Decision::of_end(
                plan.name(),
                String::new(),
                outcome
                    .as_ref()
                    .map(|_| "its pairs stay on the device, and only ids with their clusters are downloaded"),
                children.first().map(|input| self.statistics.rows(input)),
                None,
            )
        });
        Ok(outcome.unwrap_or(below))
    }

    fn clusters_on_device(&mut self, id: NodeId, above: &Plan) -> Result<Result<Plan, EndDecline>> {
        let (Some(clusters), [input]) = (
            above.downcast_ref::<ClustersExec>(),
            &self.plan.node(id).inputs[..],
        ) else {
            return Ok(EndDecline::because("it does not have exactly one input"));
        };
        // The device is asked for only if there may be something on it.
        if !has_download(clusters.input()) {
            return Ok(EndDecline::because(ON_HOST));
        }
        let spec = clusters.spec();
        if !is_exact(&spec.data_type) {
            let decline = Decline(format!(
                "ids of type {} are clustered on the host alone",
                spec.data_type
            ));
            return Ok(Err(EndDecline {
                decline,
                is_unsupported: self.reads_downloaded(*input, clusters.input()),
            }));
        }
        let device = self.device()?;
        if !device.is_gpu() && self.policy.options.offload != Offload::Force {
            return Ok(EndDecline::because(BY_CPU));
        }
        let mut steps = vec![];
        let pairs =
            self.transfers(&device, &mut steps)
                .resident(*input, clusters.input(), Role::Sorted)?;
        let Some(pairs) = pairs else {
            return Ok(Err(self.not_on_device(
                &steps,
                (*input, clusters.input()),
                ON_HOST,
            )));
        };
        if origin_of(&pairs) == Origin::Host {
            return Ok(EndDecline::because(FINISHED_ON_HOST));
        }
        let operator = ClustersOperator(Arc::new(spec.clone()));
        let clusters = device_node(operator, vec![pairs], &device)?;
        Ok(Ok(downloaded(clusters, &device)))
    }
}
