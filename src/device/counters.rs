//! [`Counted`]: what a device did for a plan node, beyond what the node counts itself, and for the process; [`Meter`]: who takes a node's.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Queries whose plan has a node on a device.
    OffloadedQueries,
    /// Queries that bowtie looked at and left to DataFusion as a whole.
    DeclinedQueries,
    /// Joins, aggregations and sorts on a device.
    OffloadedNodes,
    /// Joins, aggregations and sorts that were left to DataFusion.
    DeclinedNodes,
    /// Rules of the optimizer that failed, so that a query was left to DataFusion.
    PlanningErrors,
    /// Operators whose device failed before their first row, so that DataFusion's ran.
    Fallbacks,
    /// Kernels that were launched.
    Launches,
    /// Bytes that were copied host-to-device, as they are stored there.
    SentBytes,
    /// Bytes that were copied device-to-host.
    ReceivedBytes,
    /// Nanoseconds in which a thread waited for the device.
    WaitTime,
    /// Nanoseconds in which kernels were loaded, translated or compiled.
    TranslationTime,
    /// Nanoseconds in which a step waited for device memory that others held.
    MemoryWaitTime,
    /// Steps that were done again after device memory was refused.
    Retries,
    /// Bytes of stored columns that left the device, and of chunks that were taken to the host, for others.
    EvictedBytes,
    /// Nanoseconds of kernels on the card, of nodes whose work is timed.
    KernelTime,
    /// Nanoseconds of copies to the card, of nodes whose work is timed.
    HostToDeviceTime,
    /// Nanoseconds of copies from the card, of nodes whose work is timed.
    DeviceToHostTime,
}

/// How an amount is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Count,
    Bytes,
    Nanoseconds,
}

impl Counted {
    pub(crate) const ALL: [Self; 17] = [
        Self::OffloadedQueries,
        Self::DeclinedQueries,
        Self::OffloadedNodes,
        Self::DeclinedNodes,
        Self::PlanningErrors,
        Self::Fallbacks,
        Self::Launches,
        Self::SentBytes,
        Self::ReceivedBytes,
        Self::WaitTime,
        Self::TranslationTime,
        Self::MemoryWaitTime,
        Self::Retries,
        Self::EvictedBytes,
        Self::KernelTime,
        Self::HostToDeviceTime,
        Self::DeviceToHostTime,
    ];

    /// The metric's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OffloadedQueries => "offloaded_queries",
            Self::DeclinedQueries => "declined_queries",
            Self::OffloadedNodes => "offloaded_nodes",
            Self::DeclinedNodes => "declined_nodes",
            Self::PlanningErrors => "planning_errors",
            Self::Fallbacks => "fallbacks",
            Self::Launches => "launches",
            Self::SentBytes => "sent_bytes",
            Self::ReceivedBytes => "received_bytes",
            Self::WaitTime => "wait_time",
            Self::TranslationTime => "translation_time",
            Self::MemoryWaitTime => "memory_wait_time",
            Self::Retries => "retries",
            Self::EvictedBytes => "evicted_bytes",
            Self::KernelTime => "kernel_time",
            Self::HostToDeviceTime => "h2d_time",
            Self::DeviceToHostTime => "d2h_time",
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::OffloadedQueries
            | Self::DeclinedQueries
            | Self::OffloadedNodes
            | Self::DeclinedNodes
            | Self::PlanningErrors
            | Self::Fallbacks
            | Self::Launches
            | Self::Retries => Unit::Count,
            Self::SentBytes | Self::ReceivedBytes | Self::EvictedBytes => Unit::Bytes,
            Self::WaitTime
            | Self::TranslationTime
            | Self::MemoryWaitTime
            | Self::KernelTime
            | Self::HostToDeviceTime
            | Self::DeviceToHostTime => Unit::Nanoseconds,
        }
    }

    pub(crate) fn unit_name(self) -> &'static str {
        match self.unit() {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "ns",
        }
    }

    /// In words, for `bowtie_stats`.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::OffloadedQueries => "queries that were planned with operators on a device",
            Self::DeclinedQueries => {
                "queries that were planned without, though they have a join, an aggregation or a sort"
            }
            Self::OffloadedNodes => {
                "joins, aggregations, sorts, limits and clusters that were planned on a device, and filters and projections whose rows are downloaded"
            }
            Self::DeclinedNodes => {
                "joins, aggregations, sorts, limits and clusters that were left on the host"
            }
            Self::PlanningErrors => {
                "failures of bowtie while planning, each of which left a query to DataFusion"
            }
            Self::Fallbacks => {
                "operators that ran in DataFusion, as their device failed before their first row"
            }
            Self::Launches => "kernels that were launched",
            Self::SentBytes => "bytes that were copied to GPUs",
            Self::ReceivedBytes => "bytes that were copied from GPUs",
            Self::WaitTime => "time in which threads waited for a GPU, added up over all threads",
            Self::TranslationTime => "time in which kernels were loaded, translated or compiled",
            Self::MemoryWaitTime => "time in which steps waited for device memory that others held",
            Self::Retries => "steps that were done again after device memory was refused",
            Self::EvictedBytes => {
                "bytes of stored columns that left a device, and of chunks that were taken to the host, for others"
            }
            Self::KernelTime => "time of kernels on GPUs, in queries that EXPLAIN ANALYZE ran",
            Self::HostToDeviceTime => "time of copies to GPUs, in queries that EXPLAIN ANALYZE ran",
            Self::DeviceToHostTime => {
                "time of copies from GPUs, in queries that EXPLAIN ANALYZE ran"
            }
        }
    }

    /// The sum of the process.
    pub(crate) fn of_process(self) -> u64 {
        PROCESS[self as usize].load(Ordering::Relaxed)
    }

    pub(super) fn add_to_process(self, amount: u64) {
        PROCESS[self as usize].fetch_add(amount, Ordering::Relaxed);
    }
}

static PROCESS: [AtomicU64; Counted::ALL.len()] = [const { AtomicU64::new(0) }; Counted::ALL.len()];

/// Takes what is counted for a node: its metrics, in product code.
pub(crate) trait Meter: fmt::Debug + Send + Sync {
    fn add(&self, what: Counted, amount: u64);
}

/// For tests: how often each was counted.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Tally([AtomicU64; Counted::ALL.len()]);

#[cfg(test)]
impl Tally {
    pub(crate) fn is_counted(&self, what: Counted) -> bool {
        self.0[what as usize].load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
impl Meter for Tally {
    fn add(&self, what: Counted, _amount: u64) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }
}
