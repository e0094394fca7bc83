//! The physical optimizer rule: recognise a node, replace it by device nodes between an upload and a download, or leave
//! it and keep the reason.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use crate::device::primitives::device::Device;
use crate::error::Decline;
use crate::exec::join::node::JoinOperator;
use crate::ir::strategies::Strategy;
use crate::options::{BowtieOptions, DeviceChoice, Offload};
use crate::plan::choose::cost::{Gpu, Host};
use crate::plan::choose::fusion::apart;
use crate::plan::choose::policy::Policy;
use crate::plan::choose::statistics::StatisticsCache;
use crate::plan::choose::strategy::Taking;
use crate::plan::device_plan::{aggregate_plan, group_plan, grouped, join_plan, on, uploads};
use crate::plan::explain::decision::Decision;
use crate::plan::recognise::aggregate::{group_above_join, group_spec};
use crate::plan::recognise::aggregate_source::{GroupSource, group_source};
use crate::plan::recognise::join::{Refusal, join_spec};
use crate::plan::recognise::join_aggregate::{
    AggregateSource, aggregate_source, join_aggregate_spec,
};
use crate::plan::recognise::source::join_source;
use crate::plan::transfers;
use crate::runtime::session_devices::SessionDevices;
use crate::spec::aggregate::GroupSpec;
use crate::spec::join::SideInput;

/// Replaces joins and aggregations by device nodes.
///
/// It stands before `EnsureRequirements`: join sides are chosen by then, Partial and Final aggregates stand one above the
/// other, and the distribution that our nodes declare is honoured.
#[derive(Debug)]
pub(crate) struct BowtieRule {
    devices: Arc<SessionDevices>,
    /// Where decisions are noted, for `bowtie_explain`.
    decisions: Option<Arc<Mutex<Vec<Decision>>>>,
    /// The GPU that it decides for, in place of the one that there is.
    #[cfg(test)]
    gpu: Option<Gpu>,
}

impl BowtieRule {
    pub(crate) const NAME: &'static str = "bowtie";
    /// The rule of DataFusion that this one goes before.
    pub(crate) const BEFORE: &'static str = "EnsureRequirements";

    pub(crate) fn new(devices: Arc<SessionDevices>) -> Self {
        Self {
            devices,
            decisions: None,
            #[cfg(test)]
            gpu: None,
        }
    }

    /// The same rule, which notes what it decides.
    pub(crate) fn noting(&self, decisions: Arc<Mutex<Vec<Decision>>>) -> Self {
        Self {
            devices: Arc::clone(&self.devices),
            decisions: Some(decisions),
            #[cfg(test)]
            gpu: self.gpu,
        }
    }

    /// The GPU that taken nodes would run on; `None` for the host. Asked only for plans with something to decide, as the driver
    /// starts when it is first asked.
    fn gpu(&self, plan: &Arc<dyn ExecutionPlan>, options: &BowtieOptions) -> Result<Option<Gpu>> {
        #[cfg(test)]
        if self.gpu.is_some() {
            return Ok(self.gpu);
        }
        let is_candidate = |node: &Arc<dyn ExecutionPlan>| {
            Ok(join_source(node).is_some() || group_source(node).is_some())
        };
        if options.offload != Offload::Auto || !plan.exists(is_candidate)? {
            return Ok(None);
        }
        let memory = self
            .devices
            .gpu_memory(options.device, options.device_memory.0);
        Ok(memory.map(|memory| Gpu { memory }))
    }

    /// Whether taken nodes would run on a GPU.
    fn is_for_gpu(&self, options: &BowtieOptions) -> bool {
        #[cfg(test)]
        if self.gpu.is_some() {
            return true;
        }
        let (choice, limit) = (options.device, options.device_memory.0);
        self.devices.gpu_memory(choice, limit).is_some()
    }

    /// The same rule, which decides as for a GPU, whatever device it plans for.
    #[cfg(test)]
    pub(crate) fn deciding_for(self, gpu: Gpu) -> Self {
        Self {
            gpu: Some(gpu),
            ..self
        }
    }

    fn device(&self, options: &BowtieOptions) -> Result<Arc<dyn Device>> {
        let (choice, limit) = (options.device, options.device_memory.0);
        self.devices.open(choice, limit).map_err(|error| match choice {
            DeviceChoice::Cuda(_) => DataFusionError::Configuration(format!(
                "bowtie.device = '{choice}' is not available: {error}; SET bowtie.device = 'auto' or 'host'"
            )),
            DeviceChoice::Auto | DeviceChoice::Host => error.into(),
        })
    }

    fn note(&self, decision: impl FnOnce() -> Decision) {
        if let Some(decisions) = &self.decisions {
            decisions.lock().push(decision());
        }
    }

    /// Notes every join and aggregation as declined: nothing is taken while `bowtie.offload` is off.
    fn note_untouched(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let known = StatisticsCache::default();
        plan.apply(|node| {
            let off = Decline("bowtie.offload is 'off'".into());
            if let Some(source) = group_source(node) {
                self.note(|| {
                    Decision::of_groups(node.name(), &source, Err(&off), None, &known, None)
                });
            } else if let Some(source) = join_source(node) {
                self.note(|| {
                    Decision::of_join(node.name(), source.ok().as_ref(), Err(&off), &known, None)
                });
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        policy: &Policy<'_>,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let options = policy.options;
        let mut apart = None;
        let above = aggregate_source(&plan);
        if let Some(source) = &above {
            match self.fuse(&plan, source, policy)? {
                Fusion::Fused(fused) => return Ok(Transformed::yes(fused)),
                Fusion::Declined(decline) => apart = Some(decline),
                Fusion::NoJoin => {}
            }
        }
        if let Some(source) = group_source(&plan) {
            let spec = match group_spec(&source, options, policy.taking(&plan)) {
                Ok(spec) => Ok(spec),
                Err(Refusal::Decline(decline)) => Err(decline),
                Err(Refusal::Error(error)) => return Err(error),
            };
            let estimate = policy.estimate(&plan);
            self.note(|| {
                Decision::of_groups(
                    plan.name(),
                    &source,
                    spec.as_ref(),
                    apart.as_ref(),
                    &policy.known,
                    estimate,
                )
            });
            return match spec {
                Ok(spec) => {
                    let device = self.device(options)?;
                    if apart.is_some()
                        && let Some(above) = &above
                        && let Some(output_on_device) =
                            self.stay(&source, above, policy, &device)?
                    {
                        return Ok(Transformed::yes(output_on_device));
                    }
                    Ok(Transformed::yes(group_plan(&source, spec, &device)?))
                }
                Err(_) => Ok(Transformed::no(plan)),
            };
        }
        let Some(source) = join_source(&plan) else {
            return Ok(Transformed::no(plan));
        };
        let joined = source.map_err(Refusal::from).and_then(|source| {
            let rows = policy.known.sides(&source);
            let spec = join_spec(&source, options, rows, policy.taking(&plan))?;
            Ok((source, spec))
        });
        let estimate = policy.estimate(&plan);
        match joined {
            Ok((source, spec)) => {
                self.note(|| {
                    Decision::of_join(
                        plan.name(),
                        Some(&source),
                        Ok(&spec),
                        &policy.known,
                        estimate,
                    )
                });
                let device = self.device(options)?;
                Ok(Transformed::yes(join_plan(&source, spec, &device)?))
            }
            Err(Refusal::Decline(decline)) => {
                let source = join_source(&plan).and_then(Result::ok);
                self.note(|| {
                    Decision::of_join(
                        plan.name(),
                        source.as_ref(),
                        Err(&decline),
                        &policy.known,
                        estimate,
                    )
                });
                Ok(Transformed::no(plan))
            }
            Err(Refusal::Error(error)) => Err(error),
        }
    }

    /// The aggregation above a join that bowtie takes too, whose rows stay on the device; `None` where they cannot.
    fn stay(
        &self,
        source: &GroupSource<'_>,
        above: &AggregateSource<'_>,
        policy: &Policy<'_>,
        device: &Arc<dyn Device>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(Ok(join)) = join_source(above.join) else {
            return Ok(None);
        };
        let (options, taking) = (policy.options, policy.taking(above.join));
        let specs = join_spec(&join, options, policy.known.sides(&join), taking)
            .and_then(|spec| group_above_join(source, above, options, spec));
        match specs {
            Ok((join_spec, spec)) => {
                let estimate = policy.estimate(above.join);
                self.note(|| {
                    Decision::of_join(
                        above.join.name(),
                        Some(&join),
                        Ok(&join_spec),
                        &policy.known,
                        estimate,
                    )
                });
                let (left, right) = uploads(&join, &join_spec, device)?;
                let join = JoinOperator(Arc::new(join_spec));
                let join = on(join, vec![left, right], device)?;
                let spec = GroupSpec {
                    input: SideInput::new(join.schema()),
                    ..spec
                };
                grouped(join, spec, device).map(Some)
            }
            Err(Refusal::Decline(_)) => Ok(None),
            Err(Refusal::Error(error)) => Err(error),
        }
    }

    /// The aggregation and the join below it as one node.
    fn fuse(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        source: &AggregateSource<'_>,
        policy: &Policy<'_>,
    ) -> Result<Fusion> {
        // A join that is not taken says so itself, when the rule reaches it.
        let Some(Ok(join)) = join_source(source.join) else {
            return Ok(Fusion::NoJoin);
        };
        let rows = policy.known.sides(&join);
        let spec = match join_spec(&join, policy.options, rows, policy.taking(source.join)) {
            Ok(spec) => spec,
            Err(Refusal::Error(error)) => return Err(error),
            Err(Refusal::Decline(_)) => return Ok(Fusion::NoJoin),
        };
        // A join that gains anyway gains the more without its pairs.
        if let (Strategy::Equi(_), Taking::Estimated(Err(_))) =
            (spec.theta.strategy, policy.taking(plan))
        {
            return Ok(Fusion::NoJoin);
        }
        let fused = join_aggregate_spec(source, spec.clone());
        if let (Ok(fused), Some(group)) = (&fused, group_source(plan))
            && self.is_for_gpu(policy.options)
            && let Some(decline) = apart(
                &group,
                source,
                policy.options,
                spec,
                fused,
                &join,
                &policy.known,
            )
        {
            return Ok(Fusion::Declined(decline));
        }
        match fused {
            Ok(spec) => {
                self.note(|| Decision {
                    detail: spec.aggregate_display.join(", "),
                    reason: "fused with the join below it: no pairs leave the device".into(),
                    ..Decision::of_join(
                        plan.name(),
                        Some(&join),
                        Ok(&spec.join),
                        &policy.known,
                        policy.estimate(plan),
                    )
                });
                let estimate = policy.estimate(source.join);
                self.note(|| {
                    Decision::of_join(
                        source.join.name(),
                        Some(&join),
                        Ok(&spec.join),
                        &policy.known,
                        estimate,
                    )
                });
                let device = self.device(policy.options)?;
                Ok(Fusion::Fused(aggregate_plan(&join, spec, &device)?))
            }
            Err(Refusal::Decline(decline)) => Ok(Fusion::Declined(decline)),
            Err(Refusal::Error(error)) => Err(error),
        }
    }
}

/// What became of an aggregation above a join.
enum Fusion {
    Fused(Arc<dyn ExecutionPlan>),
    /// Bowtie takes the join, but not both as one.
    Declined(Decline),
    NoJoin,
}

impl PhysicalOptimizerRule for BowtieRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = BowtieOptions::of(config);
        if options.offload == Offload::Off {
            self.note_untouched(&plan)?;
            return Ok(plan);
        }
        let host = Host {
            cores: config.execution.target_partitions,
        };
        let policy = Policy::new(&plan, &options, self.gpu(&plan, &options)?, host);
        // The policy knows nodes by their addresses, which `kept` keeps.
        let kept = Arc::clone(&plan);
        let taken = plan.transform_down(|node| self.rewrite(node, &policy))?;
        drop(kept);
        match taken.transformed {
            true => {
                let mut borders = vec![];
                let plan = transfers::remove_borders(taken.data, &mut borders)?;
                for border in borders {
                    self.note(|| Decision::of_border(border));
                }
                Ok(plan)
            }
            false => Ok(taken.data),
        }
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}
