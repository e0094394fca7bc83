//! [`NodeCounters`]: what a device did for a plan node, among the node's metrics.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricType, Time,
};

use crate::device::counters::{Counted, Meter, Unit};

/// A metric of DataFusion's, shown once something was counted.
#[derive(Debug)]
enum Shown {
    Count(Count),
    Bytes(Gauge),
    Time(Time),
}

/// The counters of a node.
#[derive(Debug)]
pub(crate) struct NodeCounters {
    metrics: ExecutionPlanMetricsSet,
    shown: [OnceLock<Shown>; Counted::ALL.len()],
}

impl NodeCounters {
    /// Counters that are shown among a node's metrics.
    pub(crate) fn shared(metrics: &ExecutionPlanMetricsSet) -> Arc<dyn Meter> {
        Arc::new(Self {
            metrics: metrics.clone(),
            shown: Default::default(),
        })
    }
}

impl Meter for NodeCounters {
    fn add(&self, what: Counted, amount: u64) {
        let shown = self.shown[what as usize].get_or_init(|| {
            let metric = MetricBuilder::new(&self.metrics).with_type(MetricType::Dev);
            match what.unit() {
                Unit::Count => Shown::Count(metric.counter(what.name(), 0)),
                // DataFusion shows the unit of bytes only for memory usage.
                Unit::Bytes => Shown::Bytes(metric.peak_memory_usage(what.name(), 0)),
                Unit::Nanoseconds => Shown::Time(metric.subset_time(what.name(), 0)),
            }
        });
        let counted = usize::try_from(amount).unwrap_or(usize::MAX);
        match shown {
            Shown::Count(count) => count.add(counted),
            Shown::Bytes(bytes) => bytes.add(counted),
            Shown::Time(time) => time.add_duration(Duration::from_nanos(amount)),
        }
    }
}
