//! The metrics that EXPLAIN ANALYZE shows: [`DeviceMetrics`] of a device node, [`OutputMetrics`] of a download, [`ClusterCounts`] of
//! clusters.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricCategory,
    MetricType, Time, Timestamp,
};
use parking_lot::Mutex;

use crate::device::data::results::{Counter, SetTally};
use crate::exec::chunk::DeviceChunk;
use crate::ir::strategies::{Grouping, Materialization};

/// How aggregates of a tile of a join are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AggregatedBy {
    /// Values of rows weighted by the numbers of their matches.
    Weights,
    /// Folds over the ranges of probe rows.
    Ranges,
    /// Folds over the ranges that cover build rows.
    Covers,
    /// Folds over ranges under a tested inequality.
    Levels,
    /// Folds of matches as a walk finds them.
    Walk,
    /// From enumerated matches.
    Pairs,
}

/// Metrics of one execution of a device node. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct DeviceMetrics {
    /// Shared, since a node's end is noted where one of these is dropped.
    pub baseline: Arc<BaselineMetrics>,
    /// Tiles of the join matrix, or batches of rows, that were processed.
    pub chunks: Count,
    /// Candidate pairs that ranges, tests and compiled filters let through, before the residual filter.
    pub candidate_pairs: Count,
    /// Bytes transferred host-to-device.
    pub uploaded_bytes: Gauge,
    /// Time of transfers host-to-device.
    pub upload_time: Time,
    /// Time to make keys, sort or index the build side, probe and count.
    pub prepare_time: Time,
    /// Time to expand matches, evaluate the residual filter and gather the output; or to aggregate.
    pub output_time: Time,
    /// Most bytes of device memory reserved at a time by all nodes that share this node's stream.
    pub peak_device_bytes: Gauge,
    /// Counters that are shown only once they were incremented: sides indexed by each equi-join strategy or set-join
    /// technique, chunks grouped by each strategy, candidates of set joins.
    named: Arc<Mutex<HashMap<String, Count>>>,
    set: ExecutionPlanMetricsSet,
}

/// A metric of bytes. DataFusion shows the unit of bytes only for memory usage, of all kinds of metrics that can be
/// named.
fn bytes(set: &ExecutionPlanMetricsSet, name: &'static str, partition: usize) -> Gauge {
    MetricBuilder::new(set)
        .with_type(MetricType::Summary)
        .peak_memory_usage(name, partition)
}

impl DeviceMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let partition = 0;
        Self {
            baseline: Arc::new(BaselineMetrics::new(set, partition)),
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

    /// Counts a side that was indexed by an equi-join strategy or a set-join technique.
    pub(crate) fn indexed_by(&self, strategy: impl Display) {
        self.count(format!("indexed_{strategy}"), 1);
    }

    /// Counts a tile of a join whose matches were counted by tests.
    pub(crate) fn counted_by(&self, counter: Counter) {
        self.count(format!("counted_{counter}"), 1);
    }

    /// Counts a tile of a fused aggregation, some of whose aggregates were computed so.
    pub(crate) fn aggregated_by(&self, way: AggregatedBy) {
        let name = match way {
            AggregatedBy::Weights => "weighed",
            AggregatedBy::Ranges => "folded_ranges",
            AggregatedBy::Covers => "folded_covers",
            AggregatedBy::Levels => "folded_levels",
            AggregatedBy::Walk => "folded_walk",
            AggregatedBy::Pairs => "by_pairs",
        };
        self.count(name.into(), 1);
    }

    /// Counts a tile of a fused aggregation whose rows were grouped on the device.
    pub(crate) fn grouped(&self) {
        self.count("grouped".into(), 1);
    }

    /// Counts a tile whose matches left as slices of the sorted side.
    pub(crate) fn sliced(&self) {
        self.count("sliced".into(), 1);
    }

    /// Counts a chunk that was grouped so, for one grouping set.
    pub(crate) fn grouped_by(&self, by: Grouping) {
        if let Some(strategy) = by.strategy {
            self.count(format!("by_{strategy}"), 1);
        }
        if let Some(materialization) = by.materialization {
            self.materialized_by(materialization);
        }
    }

    /// Counts a piece of a table that was filtered, projected and grouped in one pass.
    pub(crate) fn fused_piece(&self) {
        self.count("fused".into(), 1);
    }

    /// Counts a tile of an equi-join whose probe side was indexed in place of its build side.
    pub(crate) fn swapped(&self) {
        self.count("swapped".into(), 1);
    }

    /// Adds rows of the right side that were dropped before they were indexed or probed.
    pub(crate) fn reduced(&self, rows: usize) {
        self.count("reduced_rows".into(), rows as u64);
    }

    /// Counts a tile of an equi-join whose output columns were materialised by `materialization`, or a chunk whose folded columns were.
    pub(crate) fn materialized_by(&self, materialization: Materialization) {
        self.count(format!("materialized_{materialization}"), 1);
    }

    /// Adds pairs whose clusters were made on the host, as they did not fit on the device.
    pub(crate) fn clustered_on_host(&self, pairs: usize) {
        self.count("host_pairs".into(), pairs as u64);
    }

    /// Counts the hash partitions of a node's input.
    pub(crate) fn in_partitions(&self, partitions: u32) {
        self.count("partitions".into(), partitions.into());
    }

    /// Time to copy rows to partitions, added up over all threads.
    pub(crate) fn partition_time(&self) -> Time {
        MetricBuilder::new(&self.set).subset_time("partition_time", 0)
    }

    /// Adds the candidates and the verified pairs of a set join's probe.
    pub(crate) fn probed_sets(&self, tally: SetTally) {
        self.count("set_candidates".into(), tally.candidates);
        self.count("set_verified".into(), tally.verified);
        self.repeated_sets(tally.repeats);
    }

    /// Adds rows of either side of a set join whose set was joined with that of an equal row.
    pub(crate) fn repeated_sets(&self, rows: u64) {
        self.count("set_repeats".into(), rows);
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

/// Metrics of a scan of resident columns.
#[derive(Debug, Clone)]
pub(crate) struct ScanMetrics {
    pub baseline: Arc<BaselineMetrics>,
    /// Bytes of columns that were on the device before.
    pub resident_bytes: Gauge,
    /// Bytes of columns that were uploaded.
    pub uploaded_bytes: Gauge,
    /// Bytes of those of them that were kept in host memory.
    pub host_cache_bytes: Gauge,
    pub upload_time: Time,
}

impl ScanMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        Self {
            baseline: Arc::new(BaselineMetrics::new(set, 0)),
            resident_bytes: bytes(set, "resident_bytes", 0),
            uploaded_bytes: bytes(set, "uploaded_bytes", 0),
            host_cache_bytes: bytes(set, "host_cache_bytes", 0),
            upload_time: MetricBuilder::new(set).subset_time("upload_time", 0),
        }
    }
}

/// Metrics of what a scan of resident columns reads from files.
#[derive(Debug, Clone)]
pub(crate) struct ReadMetrics {
    /// Bytes of files that were read for columns that are not stored.
    pub read_bytes: Gauge,
    /// Values that were decoded of them.
    pub decoded_values: Count,
    /// Rows of pieces that were skipped, as statistics of their row groups say that none is for the scan.
    pub pruned_rows: Count,
}

impl ReadMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let count = |name| MetricBuilder::new(set).counter(name, 0);
        Self {
            read_bytes: bytes(set, "read_bytes", 0),
            decoded_values: count("decoded_values"),
            pruned_rows: count("pruned_rows"),
        }
    }
}

/// Counts of the clusters of a query's pairs.
#[derive(Debug, Clone)]
pub(crate) struct ClusterCounts {
    /// Pairs that were read, those with NULLs included.
    pub input_pairs: Count,
    /// Clusters that were found of them.
    pub clusters: Count,
}

impl ClusterCounts {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let count = |name| {
            MetricBuilder::new(set)
                .with_category(MetricCategory::Rows)
                .counter(name, 0)
        };
        Self {
            input_pairs: count("input_pairs"),
            clusters: count("clusters"),
        }
    }
}

/// Counts a partition that was executed on a device, under the device's name (`host`, `cuda_0`), which engines that merge the metrics of workers keep.
pub(crate) fn count_on(set: &ExecutionPlanMetricsSet, device: &str, partition: usize) {
    let counted = MetricBuilder::new(set).counter(format!("on_{device}"), partition);
    counted.add(1);
}

/// What a node hands to the one above as columns on the device: their bytes there, which columns that are shared count again, and chunks. It
/// adds to metrics that a node's `BaselineMetrics` have and leave at 0.
#[derive(Debug)]
pub(crate) struct ResidentOutput {
    bytes: Count,
    chunks: Count,
}

impl ResidentOutput {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let summary = || MetricBuilder::new(set).with_type(MetricType::Summary);
        Self {
            bytes: summary().output_bytes(0),
            chunks: summary().output_batches(0),
        }
    }

    pub(crate) fn record(&self, chunk: &DeviceChunk) {
        if let DeviceChunk::Resident(batch) = chunk {
            self.bytes.add(batch.bytes() as usize);
            self.chunks.add(1);
        }
    }
}

/// Metrics of a download. DataFusion's `BaselineMetrics` adds up the buffers of every batch, which costs more than
/// making a batch of shared columns.
#[derive(Debug)]
pub(crate) struct OutputMetrics {
    pub rows: Count,
    /// Bytes of the rows, whether or not batches share buffers.
    pub bytes: Count,
    pub batches: Count,
    /// Bytes transferred device-to-host.
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
