//! What a node of an executed plan did.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};

use crate::device::trace::{Lane, Span};
use crate::exec::node::DeviceNode;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::report::plan_report::NodeReport;

/// A node of a plan that ran.
#[derive(Debug, Clone)]
pub(super) struct NodeProfile {
    pub(super) report: NodeReport,
    pub(super) parent: Option<usize>,
    /// Its address, which names it in the trace.
    pub(super) address: usize,
    pub(super) metrics: Option<MetricsSet>,
    /// Time of its kernels.
    pub(super) device_time: Duration,
}

/// By which a trace knows a node. Another's node around it is looked through.
fn address_of(plan: &Arc<dyn ExecutionPlan>) -> usize {
    if let Some(node) = plan.downcast_ref::<DeviceNode>() {
        return std::ptr::from_ref(node).addr();
    }
    match plan.downcast_ref::<BowtieDownloadExec>() {
        Some(download) => std::ptr::from_ref(download).addr(),
        None => Arc::as_ptr(plan).cast::<()>().addr(),
    }
}

impl NodeProfile {
    /// The nodes of a plan that ran, in the order of its report.
    pub(super) fn of_plan(
        plan: &Arc<dyn ExecutionPlan>,
        reports: Vec<NodeReport>,
        spans: &[Span],
    ) -> Vec<Self> {
        let mut reports = reports.into_iter();
        let mut nodes: Vec<Self> = vec![];
        let mut rest = vec![(plan, None)];
        while let Some((plan, parent)) = rest.pop() {
            let Some(report) = reports.next() else { break };
            let id = nodes.len();
            let address = address_of(plan);
            let kernels = spans
                .iter()
                .filter(|span| span.node == address && span.lane == Lane::Kernels);
            nodes.push(Self {
                report,
                parent,
                address,
                metrics: plan.metrics().map(|metrics| {
                    metrics
                        .aggregate_by_name()
                        .sorted_for_display()
                        .timestamps_removed()
                }),
                device_time: kernels.map(|span| span.took).sum(),
            });
            rest.extend(
                plan.children()
                    .into_iter()
                    .rev()
                    .map(|input| (input, Some(id))),
            );
        }
        nodes
    }

    fn sum(&self, is: impl Fn(&MetricValue) -> bool) -> Option<u64> {
        let metrics = self.metrics.as_ref()?;
        let sum = metrics.sum(|metric| is(metric.value()))?;
        Some(sum.as_usize() as u64)
    }

    fn named(&self, name: &str) -> Option<u64> {
        self.sum(|value| value.name() == name)
    }

    pub(super) fn rows(&self) -> Option<u64> {
        self.sum(|value| matches!(value, MetricValue::OutputRows(_)))
    }

    pub(super) fn batches(&self) -> Option<u64> {
        self.named("output_batches")
            .filter(|_| self.counts_output())
    }

    pub(super) fn bytes(&self) -> Option<u64> {
        self.named("output_bytes").filter(|_| self.counts_output())
    }

    /// Whether it counts the bytes and batches that come out. Operators on a device count rows alone where these are not columns there.
    fn counts_output(&self) -> bool {
        self.named("output_batches") != Some(0) || self.rows() == Some(0)
    }

    /// Time in the node, summed over its partitions.
    pub(super) fn compute(&self) -> Option<Duration> {
        let nanoseconds = self.sum(|value| matches!(value, MetricValue::ElapsedCompute(_)))?;
        Some(Duration::from_nanos(nanoseconds))
    }

    /// Bytes that were copied to the device for it: on a GPU as they are stored there, on the host of the columns that it was given.
    pub(super) fn sent(&self) -> Option<u64> {
        self.named("sent_bytes")
            .or_else(|| self.named("uploaded_bytes"))
    }

    pub(super) fn received(&self) -> Option<u64> {
        self.named("received_bytes")
            .or_else(|| self.named("downloaded_bytes"))
    }

    pub(super) fn resident(&self) -> Option<u64> {
        self.named("resident_bytes")
    }

    pub(super) fn spilled(&self) -> Option<u64> {
        self.sum(|value| matches!(value, MetricValue::SpilledBytes(_)))
    }

    pub(super) fn peak_device(&self) -> Option<u64> {
        self.named("peak_device_bytes")
    }

    /// All metrics as they are displayed.
    pub(super) fn shown(&self) -> Vec<(String, String)> {
        let metrics = self.metrics.iter().flat_map(|metrics| metrics.iter());
        metrics
            .map(|metric| {
                let value = metric.value();
                (value.name().to_string(), value.to_string())
            })
            .collect()
    }
}
