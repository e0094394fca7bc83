//! [`Place`]: names the executor in the metrics that say where a pipeline ran, as the scheduler adds those of all executors.

use std::fs;
use std::sync::Arc;

use ballista_executor::executor_process::ExecutorProcessConfig;
use datafusion::physical_plan::metrics::{Metric, MetricValue, MetricsSet};

/// What metrics say before the name of a device.
const ON: &str = "on_";

/// The host and the port of an executor.
#[derive(Debug, Clone)]
pub(super) struct Place(Arc<str>);

impl Place {
    pub(super) fn of(config: &ExecutorProcessConfig) -> Self {
        // Linux tells the name of the machine here.
        let of_machine = || fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let host = config.external_host.clone().or_else(of_machine);
        let host = host.unwrap_or_else(|| config.bind_host.clone());
        Self(format!("{}:{}", host.trim(), config.port).into())
    }

    /// The metrics of a node, with `on_host:port_cuda_0` for `on_cuda_0`.
    pub(super) fn named(&self, metrics: &MetricsSet) -> MetricsSet {
        let mut named = MetricsSet::new();
        for metric in metrics.iter() {
            named.push(match metric.value() {
                MetricValue::Count { name, count } => match name.strip_prefix(ON) {
                    Some(device) => {
                        let value = MetricValue::Count {
                            name: format!("{ON}{}_{device}", self.0).into(),
                            count: count.clone(),
                        };
                        Arc::new(Metric::new(value, metric.partition()))
                    }
                    None => Arc::clone(metric),
                },
                _ => Arc::clone(metric),
            });
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};

    use super::*;

    #[test]
    fn the_executor_stands_before_the_device() {
        let place = Place::of(&ExecutorProcessConfig {
            external_host: Some("gpu-1".into()),
            port: 50051,
            ..Default::default()
        });
        let set = ExecutionPlanMetricsSet::new();
        for name in ["on_cuda_0", "rows", "on_cuda_0"] {
            MetricBuilder::new(&set).counter(name, 0).add(2);
        }
        let named = place.named(&set.clone_inner());
        let sum = |name| named.sum_by_name(name).map(|sum| sum.as_usize());
        assert_eq!(sum("on_gpu-1:50051_cuda_0"), Some(4));
        assert_eq!(sum("rows"), Some(2));
        assert_eq!(sum("on_cuda_0"), None);
    }
}
