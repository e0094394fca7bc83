//! [`Policy`]: which nodes of a recognised plan are offloaded.

use crate::error::Decline;
use crate::options::{BowtieOptions, Offload};
use crate::plan::choose::cost::{Gpu, Host};
use crate::plan::choose::node_costs::{Cache, NodeCosts};
use crate::plan::choose::placement::{Estimate, place};
use crate::plan::recognise::candidate::{
    AggregateCandidate, JoinCandidate, NodeId, OWN_AGGREGATION,
};
use crate::plan::recognise::gain::Gain;
use crate::plan::recognise::recognised_plan::RecognisedPlan;
use crate::plan::recognise::refusal::Refusal;
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::runtime::host_memory::host_cache_bytes;
use crate::runtime::planning::Planning;
use crate::spec::aggregate::GroupSpec;
use crate::spec::join::JoinSpec;

/// The options, and what a GPU was estimated to run sooner than DataFusion.
pub(crate) struct Policy<'a> {
    pub(crate) options: &'a BowtieOptions,
    /// Whether equi-joins and aggregations are offloaded at all, where they gain.
    pub(crate) by_itself: bool,
    /// By a node's number; nothing of nodes without a choice.
    placed: Vec<Option<Placed>>,
}

/// Whether a node runs on the GPU, or why not; and what it costs, where that is known.
#[derive(Debug, Clone)]
struct Placed {
    offloaded: Result<(), Decline>,
    /// The host reads its rows from the GPU.
    downloads: bool,
    estimate: Option<Estimate>,
}

impl<'a> Policy<'a> {
    /// For the nodes of `plan`. `gpu` is where offloaded nodes run, unless they run on the host. `estimates`: whether what is offloaded
    /// anyway is estimated, too, for who looks at the plan.
    pub(crate) fn new(
        plan: &RecognisedPlan,
        options: &'a BowtieOptions,
        statistics: &StatisticsCache,
        (gpu, host): (Option<Gpu>, Host),
        estimates: bool,
    ) -> Self {
        let mut placed = vec![None; plan.nodes().len()];
        let is_forced = options.offload == Offload::Force;
        if let Some(gpu) = gpu.filter(|_| estimates || !is_forced) {
            let cache = Cache {
                on_device: options.cache.bytes(true, gpu.memory) as f64,
                on_host: host_cache_bytes(options, true, Planning::pool()) as f64,
            };
            let costs = NodeCosts::of(plan, statistics, gpu, host, cache);
            let min_speedup = match is_forced {
                // As if a device were soon enough at any price.
                true => 1e-6,
                false => options.min_speedup.factor(),
            };
            let nodes = place(&costs.nodes, min_speedup);
            for optional in &costs.optional {
                let node = nodes[optional.node];
                placed[optional.node] = Some(Placed {
                    offloaded: match optional.unknown {
                        _ if is_forced => Ok(()),
                        Some(unknown) => Err(Decline(unknown.into())),
                        None if node.on_device => Ok(()),
                        None => Err(node.estimate.decline(min_speedup)),
                    },
                    downloads: node.downloads,
                    estimate: optional.unknown.is_none().then_some(node.estimate),
                });
            }
        }
        Self {
            options,
            by_itself: options.offload == Offload::Force || gpu.is_some(),
            placed,
        }
    }

    /// The spec of a join that is offloaded.
    pub(crate) fn join<'p>(
        &self,
        id: NodeId,
        join: &'p JoinCandidate,
    ) -> Result<&'p JoinSpec, Refusal> {
        let gains = match &join.gain {
            _ if self.options.offload == Offload::Force => Ok(()),
            Gain::OnAnyDevice => Ok(()),
            Gain::OnAnyGpu(_) if self.by_itself => Ok(()),
            Gain::OnAnyGpu(decline) => Err(decline),
            Gain::Nowhere(decline) => Err(decline),
            Gain::ByEstimate(decline) => self.offloaded(id, decline),
        };
        match (&join.spec, gains) {
            // The strategy of the options does not matter to a join that is declined.
            (Ok(_) | Err(Refusal::Error(_)), Err(decline)) => Err(decline.clone().into()),
            (spec, _) => spec.as_ref().map_err(Refusal::clone),
        }
    }

    /// The spec of an aggregation that is offloaded by itself, or above a join.
    pub(crate) fn aggregate<'p>(
        &self,
        id: NodeId,
        aggregate: &'p AggregateCandidate,
    ) -> Result<&'p GroupSpec, Refusal> {
        // What cannot be offloaded says so, whatever it would cost.
        if aggregate.is_unsupported() {
            return aggregate.spec.as_ref().map_err(Refusal::clone);
        }
        if self.options.offload != Offload::Force {
            let own = Decline(OWN_AGGREGATION.into());
            self.offloaded(id, &own).map_err(Decline::clone)?;
        }
        aggregate.spec.as_ref().map_err(Refusal::clone)
    }

    /// Whether a sort or a limit is offloaded, where its rows are on the device.
    pub(crate) fn end(&self, id: NodeId) -> Result<(), Decline> {
        if self.options.offload == Offload::Force {
            return Ok(());
        }
        let own = Decline("its input is not resident on a GPU: it stays DataFusion's; bowtie.offload = 'force' offloads it".into());
        self.offloaded(id, &own).map_err(Decline::clone)
    }

    /// Whether the device runs a filter, a projection or a scan of which the host reads the rows, where its input is there.
    pub(crate) fn ends_rows(&self, id: NodeId, plan: &RecognisedPlan) -> bool {
        match (self.options.offload, &self.placed[id]) {
            (Offload::Force, _) => plan.is_read_on_host(id) && plan.may_end_rows(id),
            (_, Some(placed)) => placed.downloads,
            (_, None) => false,
        }
    }

    /// Whether a GPU was estimated to run the node later than DataFusion.
    pub(crate) fn is_slower(&self, id: NodeId) -> bool {
        let placed = self.placed[id].as_ref();
        placed.is_some_and(|placed| placed.offloaded.is_err())
    }

    /// What a node of the plan costs, where that was estimated.
    pub(crate) fn estimate(&self, id: NodeId) -> Option<Estimate> {
        self.placed[id].as_ref()?.estimate
    }

    fn offloaded<'d>(&'d self, id: NodeId, otherwise: &'d Decline) -> Result<(), &'d Decline> {
        match &self.placed[id] {
            Some(placed) => placed.offloaded.as_ref().copied(),
            None => Err(otherwise),
        }
    }
}

#[cfg(test)]
mod recognised_once;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod timing;
#[cfg(test)]
mod tpch;
