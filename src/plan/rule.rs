//! The physical optimizer rule: recognise each node of a plan once, choose which of them are offloaded, rewrite the plan, and record
//! the decisions.

use std::cell::OnceCell;
use std::sync::{Arc, Once};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::compat::node_names;
use crate::device::counters::Counted;
use crate::device::machine_rates::{HostRates, MachineRates};
use crate::device::trace;
use crate::error::Decline;
use crate::exec::clusters::exec::ClustersExec;
use crate::exec::node::DeviceNode;
use crate::exec::scan::table::Table;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::options::{BowtieOptions, DeviceChoice, Offload};
use crate::plan::choose::cost::{Gpu, Host};
use crate::plan::choose::policy::Policy;
use crate::plan::clusters::has_clusters;
use crate::plan::entrance::{Entrance, keeps_schema};
use crate::plan::explain::decision::Decision;
use crate::plan::explain::node_kind::NodeKind;
use crate::plan::explain::recorder::Recorder;
use crate::plan::partners::replace::replace_ranked;
use crate::plan::query_ends::end_detail;
use crate::plan::recognise::recognised_plan::{RecognisedPlan, Scope};
use crate::plan::rewrite::{Rewrite, not_offloaded};
use crate::plan::set_values::with_values;
use crate::plan::snapshots::scans::without_snapshots;
use crate::plan::sources::aggregate_source::group_source;
use crate::plan::sources::join_nodes::join_source;
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::plan::transfers::Why;
use crate::runtime::planned_device::PlannedDevice;
use crate::runtime::planning::Planning;
use crate::runtime::process::BowtieRuntime;
use crate::runtime::session_devices::SessionDevices;

/// Replaces joins and aggregations, and what is above them or stored tables, by device nodes. It scans no files, and of tables in memory a sample
/// alone. It opens no device, and waits for nothing but the start of the NVIDIA driver, once in the process, and a measurement of the host, once on a
/// machine.
///
/// It stands before `EnsureRequirements`: join sides are chosen by then, Partial and Final aggregates stand one above the
/// other, and the distribution that our nodes declare is honoured.
#[derive(Debug)]
pub(crate) struct BowtieRule {
    devices: Arc<SessionDevices>,
    /// What was decided, for `bowtie_explain`.
    recorder: Recorder,
    /// The GPU that it decides for, in place of the one of this machine, and the rates of its host.
    #[cfg(test)]
    machine: Option<(Gpu, HostRates)>,
}

/// Warns, once in the process, of a session whose configuration was replaced after bowtie's options were in it.
fn warn_without_options(config: &ConfigOptions) {
    static WARNED: Once = Once::new();
    if config.extensions.get::<BowtieOptions>().is_none() {
        WARNED.call_once(|| {
            log::warn!(
                "a session's configuration has no options of bowtie, so that their defaults hold: call with_config before with_bowtie, or give \
                 that configuration options by with_bowtie_options"
            );
        });
    }
}

impl BowtieRule {
    pub(crate) const NAME: &'static str = "bowtie";

    pub(crate) fn new(devices: Arc<SessionDevices>) -> Self {
        Self {
            devices,
            recorder: Recorder::default(),
            #[cfg(test)]
            machine: None,
        }
    }

    /// The runtime whose devices it plans for.
    pub(crate) fn runtime(&self) -> &Arc<BowtieRuntime> {
        self.devices.runtime()
    }

    /// The same rule, which records what it decides.
    pub(crate) fn recording(&self, recorder: Recorder) -> Self {
        Self {
            devices: Arc::clone(&self.devices),
            recorder,
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

    /// Whether a plan that is only shown is made for a GPU which this machine does not have.
    pub(crate) fn is_imagined(&self, options: &BowtieOptions) -> bool {
        let named = matches!(options.device, DeviceChoice::Cuda(_));
        self.recorder.only_shows()
            && named
            && self.devices.gpu_memory(options.device, None).is_none()
    }

    /// Whether offloaded nodes would run on a GPU.
    fn has_gpu(&self, options: &BowtieOptions) -> bool {
        #[cfg(test)]
        if self.machine.is_some() {
            return true;
        }
        let limit = options.device_memory.0;
        self.is_imagined(options) || self.devices.gpu_memory(options.device, limit).is_some()
    }

    /// The GPU that offloaded nodes would run on, `None` for the host; and the rates of the host.
    fn machine(&self, options: &BowtieOptions) -> (Option<Gpu>, HostRates) {
        #[cfg(test)]
        if let Some((gpu, host)) = self.machine {
            return (Some(gpu), host);
        }
        if self.is_imagined(options) {
            let limit = options.device_memory.0.unwrap_or(u64::MAX);
            let gpu = Gpu {
                memory: limit.min(PlannedDevice::IMAGINED_MEMORY),
                rates: MachineRates::REFERENCE.card,
            };
            return (Some(gpu), HostRates::REFERENCE);
        }
        let memory = self
            .devices
            .gpu_memory(options.device, options.device_memory.0);
        // Only what is estimated needs them.
        let is_estimated = options.offload == Offload::Auto || self.recorder.is_wanted();
        let rates = memory
            .filter(|_| is_estimated)
            .and_then(|_| self.devices.rates(options.device));
        let MachineRates { host, card } = rates.unwrap_or(MachineRates::REFERENCE);
        let gpu = memory.map(|memory| Gpu {
            memory,
            rates: card,
        });
        (gpu, host)
    }

    /// Records every join, aggregation, sort and limit, and clusters, as declined for one reason.
    fn record_declined(&self, plan: &Arc<dyn ExecutionPlan>, why: &Decline) {
        let statistics = StatisticsCache::default();
        self.recorder.untouched(plan, &|node| {
            if let Some(source) = group_source(node) {
                return Some(Decision::of_aggregate(
                    node.name(),
                    &source,
                    Err(why),
                    None,
                    &statistics,
                    None,
                ));
            }
            if let Some(source) = join_source(node) {
                let source = source.ok();
                let source = source.as_ref();
                return Some(Decision::of_join(
                    node.name(),
                    source,
                    Err(why),
                    &statistics,
                    None,
                ));
            }
            let detail = match node.is::<ClustersExec>() {
                true => String::new(),
                false => end_detail(node)?,
            };
            let input = node.children().first().map(|input| statistics.rows(input));
            Some(Decision::of_end(node.name(), detail, Err(why), input, None))
        });
    }

    /// The plan with nodes on a device, and whether it had nodes to decide on. Scans of snapshots that are not on it are left. A plan that
    /// cannot be rewritten is left as it is.
    ///
    /// # Errors
    /// As [`Entrance::enter`].
    pub(crate) fn offloaded(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
        warn_without_options(config);
        let options = BowtieOptions::of(config);
        if options.offload == Offload::Off {
            self.record_declined(&plan, &Decline("bowtie.offload is 'off'".into()));
            return Ok((plan, false));
        }
        let entrance = Entrance {
            rule: Self::NAME,
            options: &options,
        };
        let rewritten = entrance.enter(|| {
            let (rewritten, decided) = self.rewritten(Arc::clone(&plan), config, &options)?;
            keeps_schema(&plan, &rewritten)?;
            Ok((rewritten, decided))
        })?;
        Ok(rewritten.unwrap_or_else(|why| {
            self.recorder.abandoned();
            self.record_declined(&plan, &why);
            (plan, true)
        }))
    }

    fn rewritten(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
        options: &BowtieOptions,
    ) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
        // The driver starts for plans with something to decide.
        let may_store = |may_be_gpu: bool| {
            let is_gpu = may_be_gpu || self.has_gpu(options);
            options.cache.bytes(is_gpu, u64::MAX) > 0
        };
        if !can_be_offloaded(&plan, may_store)? {
            self.recorder.untouched(&plan, &|_| None);
            return Ok((plan, false));
        }
        let (gpu, rates) = self.machine(options);
        let host = Host {
            cores: config.execution.target_partitions,
            rates,
        };
        let statistics = StatisticsCache::default();
        let scope = Scope {
            options,
            statistics: &statistics,
            on_gpu: gpu.is_some(),
        };
        let plan = replace_ranked(plan, options, &statistics)?;
        let plan = with_values(plan, options, &statistics)?;
        let recognised = RecognisedPlan::of(&plan, scope);
        let Some(root) = recognised.root() else {
            return Ok((plan, false));
        };
        let policy = Policy::new(
            &recognised,
            options,
            &statistics,
            (gpu, host),
            self.recorder.is_wanted(),
        );
        let (choice, limit) = (options.device, options.device_memory.0);
        let mut rewrite = Rewrite {
            plan: &recognised,
            policy: &policy,
            statistics: &statistics,
            recorder: &self.recorder,
            choose_device: &|| {
                let device = match (self.is_imagined(options), choice) {
                    (true, DeviceChoice::Cuda(ordinal)) => {
                        PlannedDevice::imagined(&self.devices, ordinal, limit)
                    }
                    _ if options.strict => PlannedDevice::strictly(&self.devices, choice, limit)?,
                    _ => PlannedDevice::new(&self.devices, choice, limit)?,
                };
                // EXPLAIN ANALYZE shows the times of the card.
                Ok(device.timed(Planning::is_analyzed()))
            },
            device: OnceCell::new(),
            cache: options.cache,
            memory: gpu.map_or(u64::MAX, |gpu| gpu.memory),
            host_steps: vec![],
        };
        let rewritten = rewrite.node(root)?;
        for step in std::mem::take(&mut rewrite.host_steps) {
            let (id, is_upload, why) = (step.id, step.is_upload, step.why);
            let (node, decision) = (step.node.clone(), Decision::of_host_step(step));
            if options.strict && why == Why::NotCompiled && node != node_names::SCAN {
                return Err(not_offloaded(&node, &Decline(decision.reason)));
            }
            match is_upload {
                true => self.recorder.uploaded(id, || decision),
                false => self.recorder.decided(id, || decision),
            }
        }
        self.recorder.planned(&recognised);
        Ok((rewritten, true))
    }
}

/// Adds the nodes of a plan that were decided on to the counters of the process, and filters and projections whose rows are downloaded.
/// `has_clusters`: of a query with nodes on a device, which was counted when it was planned, and so were the nodes below the clusters.
fn count(plan: &Arc<dyn ExecutionPlan>, has_clusters: bool) -> Result<()> {
    let (mut offloaded, mut declined, mut limits) = (0, 0, 0);
    plan.apply(|node| {
        if NodeKind::of(node).is_decided() {
            match node.is::<DeviceNode>() {
                true => offloaded += 1,
                false => declined += 1,
            }
            if NodeKind::of(node) == NodeKind::Limit && !node.is::<DeviceNode>() {
                limits += 1;
            }
        }
        if let Some(download) = node.downcast_ref::<BowtieDownloadExec>()
            && !NodeKind::of(download.input()).is_decided()
        {
            offloaded += 1;
        }
        Ok(match NodeKind::of(node) {
            NodeKind::Clusters => TreeNodeRecursion::Jump,
            _ => TreeNodeRecursion::Continue,
        })
    })?;
    trace::count(Counted::OffloadedNodes, offloaded);
    trace::count(Counted::DeclinedNodes, declined);
    // A limit alone is nothing to offload.
    if has_clusters || offloaded + declined == limits {
        return Ok(());
    }
    let query = match offloaded > 0 {
        true => Counted::OffloadedQueries,
        false => Counted::DeclinedQueries,
    };
    trace::count(query, 1);
    Ok(())
}

/// Whether a plan has a node that may be offloaded. `may_store`: whether columns of tables may stay on the device, or on
/// a GPU that there may be.
fn can_be_offloaded(
    plan: &Arc<dyn ExecutionPlan>,
    may_store: impl Fn(bool) -> bool,
) -> Result<bool> {
    let has = |of: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool| plan.exists(|node| Ok(of(node)));
    if has(&|node| join_source(node).is_some() || group_source(node).is_some())? {
        return Ok(true);
    }
    if has_clusters(plan) {
        return Ok(true);
    }
    // A sort alone is, of a table that is stored.
    let reads_table = || has(&|node| Table::of(node).is_some());
    if has(&|node| node.is::<SortExec>())? && may_store(true) && reads_table()? {
        return Ok(true);
    }
    let computes = |projection: &ProjectionExec| {
        let mut projected = projection.expr().iter();
        projected.any(|of| !of.expr.is::<Column>())
    };
    let of_rows = |node: &Arc<dyn ExecutionPlan>| {
        let projection = node.downcast_ref::<ProjectionExec>();
        node.is::<FilterExec>() || projection.is_some_and(computes)
    };
    let is_filtered = |table: Table| table.filter().is_some();
    let has_rows = has(&of_rows)?
        || has(&|node| node.children().is_empty() && Table::of(node).is_some_and(is_filtered))?;
    Ok(has_rows && may_store(false) && reads_table()?)
}

impl PhysicalOptimizerRule for BowtieRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let before = has_clusters(&plan);
        let (offloaded, decided) = self.offloaded(plan, config)?;
        if decided && !self.recorder.only_shows() {
            count(&offloaded, before)?;
        }
        without_snapshots(offloaded)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}
