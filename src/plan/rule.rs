//! The physical optimizer rule: recognise each node of a plan once, choose which of them are offloaded, rewrite the plan, and record
//! the decisions.

use std::cell::OnceCell;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::device::machine_rates::{HostRates, MachineRates};
use crate::error::Decline;
use crate::exec::scan::table::Table;
use crate::options::{BowtieOptions, Offload};
use crate::plan::choose::cost::{Gpu, Host};
use crate::plan::choose::policy::Policy;
use crate::plan::choose::statistics::StatisticsCache;
use crate::plan::explain::decision::{Decision, Decisions};
use crate::plan::query_ends::end_detail;
use crate::plan::recognise::aggregate_source::group_source;
use crate::plan::recognise::recognised_plan::{RecognisedPlan, Scope};
use crate::plan::recognise::source::join_source;
use crate::plan::rewrite::Rewrite;
use crate::plan::snapshots::scans::without_snapshots;
use crate::runtime::planned_device::PlannedDevice;
use crate::runtime::process::BowtieRuntime;
use crate::runtime::session_devices::SessionDevices;

/// Replaces joins and aggregations by device nodes. It scans no rows, opens no device, and waits for nothing but the start of the NVIDIA
/// driver, once in the process, and a measurement of the host, once on a machine.
///
/// It stands before `EnsureRequirements`: join sides are chosen by then, Partial and Final aggregates stand one above the
/// other, and the distribution that our nodes declare is honoured.
#[derive(Debug)]
pub(crate) struct BowtieRule {
    devices: Arc<SessionDevices>,
    /// Decisions, for `bowtie_explain`.
    decisions: Decisions,
    /// The GPU that it decides for, in place of the one of this machine, and the rates of its host.
    #[cfg(test)]
    machine: Option<(Gpu, HostRates)>,
}

impl BowtieRule {
    pub(crate) const NAME: &'static str = "bowtie";
    /// The rule of DataFusion that this one goes before.
    pub(crate) const BEFORE: &'static str = "EnsureRequirements";

    pub(crate) fn new(devices: Arc<SessionDevices>) -> Self {
        Self {
            devices,
            decisions: Decisions::default(),
            #[cfg(test)]
            machine: None,
        }
    }

    /// The runtime whose devices it plans for.
    pub(crate) fn runtime(&self) -> &Arc<BowtieRuntime> {
        self.devices.runtime()
    }

    /// The same rule, which records what it decides.
    pub(crate) fn recording(&self, decisions: Decisions) -> Self {
        Self {
            devices: Arc::clone(&self.devices),
            decisions,
            #[cfg(test)]
            machine: self.machine,
        }
    }

    /// The same rule, which decides as for a GPU, whatever device it plans for.
    #[cfg(test)]
    pub(crate) fn deciding_for(self, gpu: Gpu) -> Self {
        self.deciding_on(gpu, HostRates::REFERENCE)
    }

    /// The same, of a host with these rates.
    #[cfg(test)]
    pub(crate) fn deciding_on(self, gpu: Gpu, host: HostRates) -> Self {
        Self {
            machine: Some((gpu, host)),
            ..self
        }
    }

    /// The GPU that offloaded nodes would run on, `None` for the host; and the rates of the host.
    fn machine(&self, options: &BowtieOptions) -> (Option<Gpu>, HostRates) {
        #[cfg(test)]
        if let Some((gpu, host)) = self.machine {
            return (Some(gpu), host);
        }
        let memory = SessionDevices::gpu_memory(options.device, options.device_memory.0);
        // Only what is estimated needs them.
        let rates = match (options.offload, memory) {
            (Offload::Auto, Some(_)) => SessionDevices::rates(options.device),
            _ => None,
        };
        let MachineRates { host, card } = rates.unwrap_or(MachineRates::REFERENCE);
        let gpu = memory.map(|memory| Gpu {
            memory,
            rates: card,
        });
        (gpu, host)
    }

    /// Records every join and aggregation as declined: `bowtie.offload` is off.
    fn record_untouched(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let statistics = StatisticsCache::default();
        plan.apply(|node| {
            let off = Decline("bowtie.offload is 'off'".into());
            if let Some(source) = group_source(node) {
                self.decisions.record(|| {
                    Decision::of_aggregate(node.name(), &source, Err(&off), None, &statistics, None)
                });
            } else if let Some(source) = join_source(node) {
                let source = source.ok();
                self.decisions.record(|| {
                    Decision::of_join(node.name(), source.as_ref(), Err(&off), &statistics, None)
                });
            } else if let Some(detail) = end_detail(node) {
                let input = node.children().first().map(|input| statistics.rows(input));
                self.decisions
                    .record(|| Decision::of_end(node.name(), detail, Err(&off), input, None));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// The plan with nodes on a device. Scans of snapshots that are not on it are left.
    fn offloaded(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = BowtieOptions::of(config);
        if options.offload == Offload::Off {
            self.record_untouched(&plan)?;
            return Ok(plan);
        }
        // The driver starts for plans with something to decide.
        if !can_be_offloaded(&plan, &options)? {
            return Ok(plan);
        }
        let (gpu, rates) = self.machine(&options);
        let host = Host {
            cores: config.execution.target_partitions,
            rates,
        };
        let statistics = StatisticsCache::default();
        let scope = Scope {
            options: &options,
            statistics: &statistics,
            on_gpu: gpu.is_some(),
        };
        let recognised = RecognisedPlan::of(&plan, scope);
        let Some(root) = recognised.root() else {
            return Ok(plan);
        };
        let policy = Policy::new(&recognised, &options, &statistics, gpu, host);
        let (choice, limit) = (options.device, options.device_memory.0);
        let mut rewrite = Rewrite {
            plan: &recognised,
            policy: &policy,
            statistics: &statistics,
            decisions: &self.decisions,
            choose_device: &|| PlannedDevice::new(&self.devices, choice, limit),
            device: OnceCell::new(),
            cache: options.cache,
            memory: gpu.map_or(u64::MAX, |gpu| gpu.memory),
            host_steps: vec![],
        };
        let rewritten = rewrite.node(root)?;
        for step in rewrite.host_steps {
            self.decisions.record(|| Decision::of_host_step(step));
        }
        Ok(rewritten)
    }
}

/// Whether a plan has a node that may be offloaded.
fn can_be_offloaded(plan: &Arc<dyn ExecutionPlan>, options: &BowtieOptions) -> Result<bool> {
    let has = |of: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool| plan.exists(|node| Ok(of(node)));
    if has(&|node| join_source(node).is_some() || group_source(node).is_some())? {
        return Ok(true);
    }
    // A sort alone is, of a table that is stored.
    let may_store = options.cache.bytes(true, u64::MAX) > 0;
    Ok(may_store && has(&|node| node.is::<SortExec>())? && has(&|node| Table::of(node).is_some())?)
}

impl PhysicalOptimizerRule for BowtieRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        without_snapshots(self.offloaded(plan, config)?)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}
