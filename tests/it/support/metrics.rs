//! What the metrics of a plan counted while it was executed.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricValue;

/// The metrics of all nodes of a plan but points in time, added up by name.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<String, usize>);

impl Counts {
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut counts = Self::default();
        counts.add(plan);
        counts
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        for metric in plan.metrics().unwrap_or_default().iter() {
            let value = metric.value();
            if let MetricValue::StartTimestamp(_) | MetricValue::EndTimestamp(_) = value {
                continue;
            }
            *self.0.entry(value.name().to_string()).or_default() += value.as_usize();
        }
        for input in plan.children() {
            self.add(input);
        }
    }

    /// 0 of a metric that no node has.
    pub(crate) fn get(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// What sides of joins were indexed by: strategies and techniques.
    pub(crate) fn indexed(&self) -> Vec<&str> {
        let counted = self.0.iter().filter(|(_, count)| **count > 0);
        let indexed = counted.filter_map(|(name, _)| name.strip_prefix("indexed_"));
        indexed.collect()
    }
}
