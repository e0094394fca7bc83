//! [`Policy`]: by what it is decided which nodes of one plan are taken.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::error::Decline;
use crate::options::{BowtieOptions, Offload};
use crate::plan::choose::address::address;
use crate::plan::choose::candidates::Candidates;
use crate::plan::choose::cost::{Gpu, Host};
use crate::plan::choose::placement::{Estimate, place};
use crate::plan::choose::statistics::StatisticsCache;
use crate::plan::choose::strategy::Taking;

/// The options, and what a GPU was found to pay for.
pub(crate) struct Policy<'a> {
    pub options: &'a BowtieOptions,
    pub known: StatisticsCache,
    placement: Option<Placement>,
}

/// Joins and aggregations that a GPU could take, by address: whether it does, or why not; and what they cost.
type Placement = HashMap<usize, (Result<(), Decline>, Option<Estimate>)>;

impl<'a> Policy<'a> {
    /// For `plan`, whose nodes must live as long. `gpu` is where taken nodes run, unless they run on the host.
    pub(crate) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        options: &'a BowtieOptions,
        gpu: Option<Gpu>,
        host: Host,
    ) -> Self {
        let known = StatisticsCache::default();
        let placement = match (options.offload, gpu) {
            (Offload::Auto, Some(gpu)) => Some(placement(plan, options, &known, gpu, host)),
            _ => None,
        };
        Self {
            options,
            known,
            placement,
        }
    }

    /// By what it is decided whether a node of the plan is taken.
    pub(crate) fn taking(&self, plan: &Arc<dyn ExecutionPlan>) -> Taking<'_> {
        if self.options.offload == Offload::Force {
            return Taking::All;
        }
        let placed = self.placement.as_ref().and_then(|p| p.get(&address(plan)));
        match placed {
            Some((placed, _)) => Taking::Estimated(placed.as_ref().copied()),
            None => Taking::Gains,
        }
    }

    /// What a node of the plan costs, if that was asked.
    pub(crate) fn estimate(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Estimate> {
        let (_, estimate) = self.placement.as_ref()?.get(&address(plan))?;
        *estimate
    }
}

fn placement(
    plan: &Arc<dyn ExecutionPlan>,
    options: &BowtieOptions,
    known: &StatisticsCache,
    gpu: Gpu,
    host: Host,
) -> Placement {
    let steps = Candidates::of(plan, options, known, gpu, host);
    let placed = place(&steps.steps);
    let candidates = steps.candidates.iter().filter_map(|candidate| {
        let placed = &placed[*steps.known.get(&candidate.address)?];
        let found = match (candidate.unknown, placed.on_device) {
            (Some(unknown), _) => (Err(Decline(unknown.into())), None),
            (None, true) => (Ok(()), Some(placed.estimate)),
            (None, false) => (Err(placed.estimate.decline()), Some(placed.estimate)),
        };
        Some((candidate.address, found))
    });
    candidates.collect()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tpch;
