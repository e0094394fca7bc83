//! What EXPLAIN ANALYZE shows of a device node.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricCategory,
    MetricType, Time, Timestamp,
};
use parking_lot::Mutex;

use crate::device::data::results::SetTally;
use crate::ir::strategies::{GroupStrategy, Materialization};

#[derive(Debug, Clone)]
pub(crate) struct DeviceMetrics {
    pub baseline: BaselineMetrics,
    /// Rectangles of the join matrix, or batches of rows, that were processed.
    pub chunks: Count,
    /// Pairs that ranges, tests and programs let through, before the residual.
    pub candidate_pairs: Count,
    /// Bytes host → device.
    pub uploaded_bytes: Gauge,
    /// Copying columns host → device.
    pub upload_time: Time,
    /// Keys, sorting, searching and counting.
    pub prepare_time: Time,
    /// Expanding pairs, the residual, and gathering the output; or aggregating.
    pub output_time: Time,
    /// Most bytes leased from the device at once by this node and those that it shares a queue with.
    pub peak_device_bytes: Gauge,
    /// How many sides were indexed by each strategy of equi-joins or technique of set joins, and what set joins looked at.
    named: Arc<Mutex<HashMap<String, Count>>>,
    set: ExecutionPlanMetricsSet,
}

/// A metric of bytes. Of the kinds of DataFusion's metrics that a name can be given, that of memory usage is the one that is shown with the
/// unit of bytes.
fn bytes(set: &ExecutionPlanMetricsSet, name: &'static str, partition: usize) -> Gauge {
    MetricBuilder::new(set)
        .with_type(MetricType::Summary)
        .peak_memory_usage(name, partition)
}

impl DeviceMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let partition = 0;
        Self {
            baseline: BaselineMetrics::new(set, partition),
            chunks: MetricBuilder::new(set).counter("chunks", partition),
            candidate_pairs: MetricBuilder::new(set)
                .with_category(MetricCategory::Rows)
                .counter("candidate_pairs", partition),
            uploaded_bytes: bytes(set, "uploaded_bytes", partition),
            upload_time: MetricBuilder::new(set).subset_time("upload_time", partition),
            prepare_time: MetricBuilder::new(set).subset_time("prepare_time", partition),
            output_time: MetricBuilder::new(set).subset_time("output_time", partition),
            peak_device_bytes: bytes(set, "peak_device_bytes", partition),
            named: Arc::default(),
            set: set.clone(),
        }
    }

    /// A side was indexed by a strategy of equi-joins, or a technique of set joins.
    pub(crate) fn indexed_by(&self, strategy: impl Display) {
        self.count(format!("indexed_{strategy}"), 1);
    }

    /// The rows of a chunk were grouped by a strategy, for one grouping set.
    pub(crate) fn grouped_by(&self, strategy: GroupStrategy) {
        self.count(format!("by_{strategy}"), 1);
    }

    /// Pairs of a tile of an equi-join were put together so.
    pub(crate) fn materialized_by(&self, materialization: Materialization) {
        self.count(format!("materialized_{materialization}"), 1);
    }

    /// A node's rows go to so many parts.
    pub(crate) fn in_partitions(&self, parts: u32) {
        self.count("partitions".into(), parts.into());
    }

    /// Copying rows to parts, on all threads.
    pub(crate) fn partition_time(&self) -> Time {
        MetricBuilder::new(&self.set).subset_time("partition_time", 0)
    }

    /// What a search of sets looked at.
    pub(crate) fn probed_sets(&self, tally: SetTally) {
        self.count("set_candidates".into(), tally.candidates);
        self.count("set_verified".into(), tally.verified);
    }

    /// Adds to a metric that is shown once it was counted.
    fn count(&self, name: String, count: u64) {
        let new = || MetricBuilder::new(&self.set).counter(name.clone(), 0);
        self.named
            .lock()
            .entry(name.clone())
            .or_insert_with(new)
            .add(usize::try_from(count).unwrap_or(usize::MAX));
    }
}

/// What a node shows whose batches leave the device. DataFusion's `BaselineMetrics` adds up the buffers of every batch,
/// which costs more than to make a batch of shared columns.
#[derive(Debug)]
pub(crate) struct OutputMetrics {
    pub rows: Count,
    /// Bytes of the rows, shared or not.
    pub bytes: Count,
    pub batches: Count,
    /// Bytes device → host.
    pub downloaded_bytes: Gauge,
    pub elapsed_compute: Time,
    end: Timestamp,
}

impl Drop for OutputMetrics {
    fn drop(&mut self) {
        self.end.record();
    }
}

impl OutputMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let summary = || MetricBuilder::new(set).with_type(MetricType::Summary);
        summary().start_timestamp(partition).record();
        Self {
            rows: summary().output_rows(partition),
            bytes: summary().output_bytes(partition),
            batches: summary().output_batches(partition),
            downloaded_bytes: bytes(set, "downloaded_bytes", partition),
            elapsed_compute: summary().elapsed_compute(partition),
            end: summary().end_timestamp(partition),
        }
    }
}
