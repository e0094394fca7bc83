//! The memory of a device while a query runs.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use parking_lot::Mutex;

use crate::device::trace::Trace;
use crate::runtime::process::BowtieRuntime;

/// How often memory is looked at.
const EVERY: Duration = Duration::from_millis(1);
/// Samples that are kept; of more every second one is dropped, and it is looked at half as often.
const MOST_SAMPLES: usize = 4096;

/// A device's memory over time.
#[derive(Debug, Clone, Default)]
pub(super) struct MemoryCurve {
    pub(super) limit: u64,
    /// Bytes reserved from a time on, from the begin of the trace.
    pub(super) samples: Vec<(Duration, u64)>,
}

/// Looks at a device's memory until it is dropped.
pub(super) struct Sampler {
    curve: Arc<Mutex<MemoryCurve>>,
    _task: SpawnedTask<()>,
}

impl Sampler {
    /// Looks at the memory of `device` in `runtime`.
    pub(super) fn start(runtime: &Arc<BowtieRuntime>, device: String, trace: Arc<Trace>) -> Self {
        let curve = Arc::new(Mutex::new(MemoryCurve::default()));
        let (runtime, seen) = (Arc::clone(runtime), Arc::clone(&curve));
        let task = SpawnedTask::spawn(async move {
            let mut every = EVERY;
            loop {
                let memory = runtime.device_memory().into_iter();
                if let Some(memory) = memory.into_iter().find(|memory| memory.device == device) {
                    let mut curve = seen.lock();
                    curve.limit = memory.limit;
                    if curve
                        .samples
                        .last()
                        .is_none_or(|last| last.1 != memory.in_use)
                    {
                        curve.samples.push((trace.now(), memory.in_use));
                    }
                    if curve.samples.len() > MOST_SAMPLES {
                        let mut keep = false;
                        curve.samples.retain(|_| {
                            keep = !keep;
                            keep
                        });
                        every *= 2;
                    }
                }
                tokio::time::sleep(every).await;
            }
        });
        Self { curve, _task: task }
    }

    /// What was seen.
    pub(super) fn curve(&self) -> MemoryCurve {
        self.curve.lock().clone()
    }
}
