//! [`Rewrite`]: the plan with offloaded nodes, made of a recognised plan in one walk: device nodes with uploads below and a download
//! above, and no transfer between two of them.

use std::cell::OnceCell;
use std::fmt::Display;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::error::Decline;
use crate::exec::chunk::chunk_limits::Role;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::exec::transfer::stands_for::StandsFor;
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::options::{CacheSize, Offload};
use crate::plan::choose::policy::Policy;
use crate::plan::device_plan::{aggregate_plan, fused_plan, join_plan, resident_join};
use crate::plan::explain::decision::Decision;
use crate::plan::explain::recorder::Recorder;
use crate::plan::recognise::candidate::{
    AboveJoin, AggregateCandidate, Candidate, JoinCandidate, NodeId,
};
use crate::plan::recognise::recognised_plan::RecognisedPlan;
use crate::plan::sources::aggregate_source::{GroupSource, group_source};
use crate::plan::sources::extended_join::{ExtendedJoinExec, of_datafusion};
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::plan::transfers::{HostStep, Transfers};
use crate::runtime::host_memory::host_cache_bytes;
use crate::runtime::planned_device::PlannedDevice;
use crate::runtime::planning::Planning;
use crate::spec::aggregate::GroupSpec;
use crate::spec::join::{JoinSpec, SideInput};

type Plan = Arc<dyn ExecutionPlan>;

/// One walk over a recognised plan.
pub(crate) struct Rewrite<'a> {
    pub(crate) plan: &'a RecognisedPlan,
    pub(crate) policy: &'a Policy<'a>,
    pub(crate) statistics: &'a StatisticsCache,
    pub(crate) recorder: &'a Recorder,
    /// The device of the options; asked for once a node is offloaded.
    pub(crate) choose_device: &'a dyn Fn() -> Result<PlannedDevice>,
    pub(crate) device: OnceCell<Arc<PlannedDevice>>,
    /// The columns of tables that may stay on the device.
    pub(crate) cache: CacheSize,
    /// The device memory that the session may use, as far as it is known.
    pub(crate) memory: u64,
    /// Nodes that stay on the host between two device nodes, for want of a compiled expression.
    pub(crate) host_steps: Vec<HostStep>,
}

impl Rewrite<'_> {
    /// A node with all that is below it.
    pub(crate) fn node(&mut self, id: NodeId) -> Result<Plan> {
        let node = self.plan.node(id);
        let rewritten = match &node.candidate {
            Candidate::Join(join) => self.join(id, join),
            Candidate::Aggregate(aggregate) => self.aggregate(id, aggregate),
            Candidate::Sort(sort) => self.sort(id, sort),
            Candidate::Limit(limit) => self.limit(id, *limit),
            Candidate::Clusters => self.clusters(id),
            Candidate::Rows(_) | Candidate::Other => self.rows(id),
            Candidate::Union => self.unchanged(id),
        }?;
        Ok(match rewritten.downcast_ref::<BowtieDownloadExec>() {
            Some(download) => Arc::new(download.in_place_of(StandsFor {
                node: Arc::clone(&node.plan),
                restored: of_datafusion,
                options: Arc::new(self.policy.options.clone()),
                limit: None,
            })),
            None => rewritten,
        })
    }

    /// DataFusion's node above inputs that may be rewritten.
    pub(crate) fn unchanged(&mut self, id: NodeId) -> Result<Plan> {
        let node = self.plan.node(id);
        let inputs = node.inputs.iter().map(|input| self.node(*input));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        if let Some(partners) = node.plan.downcast_ref::<ExtendedJoinExec>() {
            let sides = <[Plan; 2]>::try_from(inputs);
            let sides = sides.map_err(|_| unrecognised("a join has two inputs"))?;
            return partners.original(sides);
        }
        replace_children_if_necessary(Arc::clone(&node.plan), inputs)
    }

    pub(crate) fn device(&self) -> Result<Arc<PlannedDevice>> {
        if let Some(device) = self.device.get() {
            return Ok(Arc::clone(device));
        }
        let device = Arc::new((self.choose_device)()?);
        Ok(Arc::clone(self.device.get_or_init(|| device)))
    }

    /// The rows of a node on the device.
    fn upload(
        &mut self,
        input: NodeId,
        columns: &SideInput,
        role: Role,
        device: &Arc<PlannedDevice>,
    ) -> Result<Plan> {
        let rewritten = self.node(input)?;
        let mut host_steps = std::mem::take(&mut self.host_steps);
        let mut transfers = self.transfers(device, &mut host_steps);
        let uploaded = transfers.upload(input, rewritten, columns, role);
        self.host_steps = host_steps;
        uploaded
    }

    pub(crate) fn transfers<'t>(
        &'t self,
        device: &'t Arc<PlannedDevice>,
        host_steps: &'t mut Vec<HostStep>,
    ) -> Transfers<'t> {
        Transfers {
            plan: self.plan,
            device,
            cache: match self.cache.bytes(device.is_gpu(), self.memory) {
                0 => 0,
                // Of a table that is larger than the store a part stays.
                _ if self.policy.options.offload == Offload::Force => u64::MAX,
                bytes => {
                    let on_host =
                        host_cache_bytes(self.policy.options, device.is_gpu(), Planning::pool());
                    bytes.saturating_add(on_host)
                }
            },
            statistics: match self.policy.options.offload {
                Offload::Force => None,
                _ => Some(self.statistics),
            },
            host_steps,
        }
    }

    fn sides(
        &mut self,
        join: NodeId,
        spec: &JoinSpec,
        device: &Arc<PlannedDevice>,
    ) -> Result<[Plan; 2]> {
        let [left, right] = self.plan.node(join).inputs[..] else {
            return Err(unrecognised("a join has two inputs"));
        };
        Ok([
            self.upload(left, &spec.left, Side::Left.into(), device)?,
            self.upload(right, &spec.right, Side::Right.into(), device)?,
        ])
    }

    fn join(&mut self, id: NodeId, join: &JoinCandidate) -> Result<Plan> {
        match self.policy.join(id, join) {
            Ok(spec) => {
                self.refuse_unsuited_join(id, spec)?;
                self.record_join(id, join, Ok(spec));
                let device = self.device()?;
                let sides = self.sides(id, spec, &device)?;
                join_plan(sides, spec.clone(), &device)
            }
            Err(refusal) => {
                let decline = refusal.declined()?;
                let unsupported = join.is_unsupported(self.policy.by_itself);
                self.refuse_if_strict(id, unsupported, &decline)?;
                self.record_join(id, join, Err(&decline));
                self.unchanged(id)
            }
        }
    }

    fn aggregate(&mut self, id: NodeId, aggregate: &AggregateCandidate) -> Result<Plan> {
        let plan = self.plan;
        let Some(source) = group_source(&plan.node(id).plan) else {
            return Err(unrecognised("an aggregation has a source"));
        };
        let mut separate = None;
        if let Some(above) = &aggregate.above {
            match self.fused(id, above)? {
                Fusion::Fused(fused) => return Ok(fused),
                Fusion::Declined(decline) => separate = Some(decline),
                Fusion::NoJoin => {}
            }
        }
        match self.policy.aggregate(id, aggregate) {
            Ok(spec) => {
                self.refuse_unsuited_groups(id, spec)?;
                self.record_aggregate(id, &source, Ok(spec), separate.as_ref());
                let device = self.device()?;
                if let (Some(_), Some(above)) = (&separate, &aggregate.above)
                    && let Some(resident) = self.above_resident_join(above, &device)?
                {
                    return Ok(resident);
                }
                let input = self.upload(aggregate.input, &spec.input, Role::Grouped, &device)?;
                aggregate_plan(input, spec.clone(), &device)
            }
            Err(refusal) => {
                let decline = refusal.declined()?;
                self.refuse_if_strict(id, aggregate.is_unsupported(), &decline)?;
                self.record_aggregate(id, &source, Err(&decline), separate.as_ref());
                self.unchanged(id)
            }
        }
    }

    /// The aggregation and the join below it as one node.
    fn fused(&mut self, id: NodeId, above: &AboveJoin) -> Result<Fusion> {
        let Some((join, _)) = self.plan.join(above.join) else {
            return Ok(Fusion::NoJoin);
        };
        let spec = match self.policy.join(above.join, join) {
            Ok(spec) => spec,
            Err(refusal) => {
                // A join that is declined says so itself.
                refusal.declined()?;
                return Ok(Fusion::NoJoin);
            }
        };
        // A join that gains on any device gains the more without its pairs.
        if let Strategy::Equi(_) = spec.theta.strategy()
            && self.policy.is_slower(id)
        {
            return Ok(Fusion::NoJoin);
        }
        if let Some(decline) = &above.separate {
            return Ok(Fusion::Declined(decline.clone()));
        }
        let spec = match &above.fused {
            Ok(spec) => spec,
            Err(refusal) => return Ok(Fusion::Declined(refusal.clone().declined()?)),
        };
        self.refuse_unsuited_join(above.join, &spec.join)?;
        let name = self.plan.node(id).plan.name();
        self.recorder.decided(id, || Decision {
            detail: spec.aggregate_display.join(", "),
            reason: "fused with the join below it: no join rows are materialised".into(),
            ..self.decision(name, join, Ok(&spec.join), id)
        });
        self.record_join(above.join, join, Ok(&spec.join));
        self.recorder.merged(above.join);
        let device = self.device()?;
        let sides = self.sides(above.join, &spec.join, &device)?;
        Ok(Fusion::Fused(fused_plan(sides, spec.clone(), &device)?))
    }

    /// The aggregation above a join that is offloaded too, whose rows stay on the device; `None` where they cannot.
    fn above_resident_join(
        &mut self,
        above: &AboveJoin,
        device: &Arc<PlannedDevice>,
    ) -> Result<Option<Plan>> {
        let Some((join, _)) = self.plan.join(above.join) else {
            return Ok(None);
        };
        let (join_spec, spec) = match &above.resident {
            Some(Ok(specs)) => specs,
            Some(Err(refusal)) => {
                refusal.clone().declined()?;
                return Ok(None);
            }
            None => return Ok(None),
        };
        self.refuse_unsuited_join(above.join, join_spec)?;
        self.record_join(above.join, join, Ok(join_spec));
        let sides = self.sides(above.join, join_spec, device)?;
        let join = resident_join(sides, join_spec.clone(), device)?;
        let spec = GroupSpec {
            input: SideInput::new(join.schema()),
            ..spec.clone()
        };
        aggregate_plan(join, spec, device).map(Some)
    }

    /// # Errors
    /// Under `bowtie.strict`, of a node that bowtie would offload if it could.
    pub(crate) fn refuse_if_strict(
        &self,
        id: NodeId,
        unsupported: bool,
        decline: &Decline,
    ) -> Result<()> {
        match self.policy.options.strict && unsupported {
            true => Err(not_offloaded(self.plan.node(id).plan.name(), decline)),
            false => Ok(()),
        }
    }

    /// # Errors
    /// Under `bowtie.strict`, of a join for which another strategy stands in than the option of its family asks for.
    fn refuse_unsuited_join(&self, id: NodeId, spec: &JoinSpec) -> Result<()> {
        let options = self.policy.options;
        match spec.theta.strategy() {
            // Each one suits all equalities, as far as the plan tells.
            Strategy::Equi(_) => Ok(()),
            Strategy::Set(technique) => {
                self.refuse_unsuited(id, "set_strategy", options.set_strategy.0, technique)
            }
            strategy @ (Strategy::Range | Strategy::Dominance | Strategy::Tiles) => {
                let wanted = options.theta_strategy.0;
                self.refuse_unsuited(id, "theta_strategy", wanted, Some(strategy))
            }
        }
    }

    /// # Errors
    /// The same of an aggregation.
    fn refuse_unsuited_groups(&self, id: NodeId, spec: &GroupSpec) -> Result<()> {
        let wanted = self.policy.options.group_strategy.0;
        // One group needs no strategy.
        let wanted = wanted.filter(|_| !spec.keys.is_empty());
        self.refuse_unsuited(id, "group_strategy", wanted, spec.grouping.strategy)
    }

    fn refuse_unsuited<S: PartialEq + Display>(
        &self,
        id: NodeId,
        option: &str,
        wanted: Option<S>,
        chosen: Option<S>,
    ) -> Result<()> {
        match (wanted, chosen) {
            (Some(wanted), Some(chosen)) if self.policy.options.strict && wanted != chosen => {
                let node = self.plan.node(id).plan.name();
                Err(DataFusionError::Plan(format!(
                    "bowtie.strict = true, and bowtie.{option} = '{wanted}' does not suit {node}: '{chosen}' would stand in; SET bowtie.strict = false allows it"
                )))
            }
            _ => Ok(()),
        }
    }

    fn decision(
        &self,
        name: &str,
        join: &JoinCandidate,
        outcome: Result<&JoinSpec, &Decline>,
        estimated: NodeId,
    ) -> Decision {
        let source = join.source.as_ref().ok();
        let estimate = self.policy.estimate(estimated);
        Decision::of_join(name, source, outcome, self.statistics, estimate)
    }

    fn record_join(&self, id: NodeId, join: &JoinCandidate, outcome: Result<&JoinSpec, &Decline>) {
        let name = self.plan.node(id).plan.name();
        log_declined(name, outcome.err());
        self.recorder
            .decided(id, || self.decision(name, join, outcome, id));
    }

    fn record_aggregate(
        &self,
        id: NodeId,
        source: &GroupSource<'_>,
        outcome: Result<&GroupSpec, &Decline>,
        separate: Option<&Decline>,
    ) {
        let name = self.plan.node(id).plan.name();
        log_declined(name, outcome.err());
        let estimate = self.policy.estimate(id);
        self.recorder.decided(id, || {
            Decision::of_aggregate(name, source, outcome, separate, self.statistics, estimate)
        });
    }
}

/// What became of an aggregation above a join.
enum Fusion {
    Fused(Plan),
    /// The join is offloaded, but not both as one node.
    Declined(Decline),
    /// The join is not offloaded.
    NoJoin,
}

/// Logs why a node falls back, for those who look at no plan.
pub(crate) fn log_declined(node: &str, why: Option<&Decline>) {
    if let Some(decline) = why {
        log::debug!("{node} stays DataFusion's: {decline}");
    }
}

/// The error of a query that falls back, under `bowtie.strict`.
pub(crate) fn not_offloaded(node: &str, why: &Decline) -> DataFusionError {
    DataFusionError::Plan(format!(
        "bowtie.strict = true, and {node} cannot be offloaded: {why}; SET bowtie.strict = false runs it in DataFusion"
    ))
}

fn unrecognised(what: &str) -> DataFusionError {
    let what = format!("{what}, which the recognised plan contradicts");
    crate::error::BowtieError::Internal(what).into()
}
