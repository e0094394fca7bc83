//! The plan nodes. Between `BowtieUploadExec` and `BowtieDownloadExec` batches are the device's own.

/// What every plan node of one input, a spec and a device says of itself in the same words: methods of `ExecutionPlan`.
macro_rules! one_input {
    () => {
        fn properties(&self) -> &Arc<PlanProperties> {
            &self.properties
        }

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            vec![&self.input]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }

        fn with_new_children(
            self: Arc<Self>,
            children: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            let [input] = exactly(self.name(), children)?;
            let (spec, device) = (Arc::clone(&self.spec), Arc::clone(&self.device));
            Ok(Arc::new(Self::new(input, spec, device)))
        }

        fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
            device_only(self.name())
        }

        fn metrics(&self) -> Option<MetricsSet> {
            Some(self.metrics.clone_inner())
        }
    };
}
pub(crate) use one_input;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::device::data::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::exec::aggregate::node::BowtieAggregateExec;
use crate::exec::join::long_ranges::Runs;
use crate::exec::join::node::BowtieJoinExec;
use crate::exec::join_aggregate::node::BowtieJoinAggregateExec;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::rows::filter::BowtieFilterExec;
use crate::exec::rows::projection::BowtieProjectionExec;
use crate::exec::rows::union::BowtieUnionExec;
use crate::exec::transfer::staged_chunk::StagedChunk;
use crate::exec::transfer::upload::BowtieUploadExec;

/// What flows between device nodes.
#[derive(Debug)]
pub(crate) enum DeviceChunk {
    /// Rows that wait on the host: the node that reads them uploads the columns that it needs, when it has room.
    Staged(StagedChunk),
    /// Rows on the device.
    Resident(DeviceBatch),
    /// Pairs of rows with long ranges of rows.
    Runs(Box<Runs>),
}

impl DeviceChunk {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Staged(chunk) => chunk.rows(),
            Self::Resident(batch) => batch.rows(),
            Self::Runs(runs) => runs.rows(),
        }
    }
}

pub(crate) type DeviceStream = BoxStream<'static, Result<DeviceChunk>>;

/// A plan node whose batches are the device's.
pub(crate) trait DeviceExec: ExecutionPlan {
    fn device(&self) -> &Arc<dyn Device>;

    /// Starts partition 0, the only one, for a node above that reads the rows on `device`, a handle of this node's device: what
    /// lies on a device is used in the order of one queue. Who made the handle cancels.
    fn execute_on(
        &self,
        device: Arc<dyn Device>,
        context: Arc<TaskContext>,
    ) -> Result<DeviceStream>;

    /// The same for the host, on a queue of its own. The nodes below share it.
    fn execute_device(&self, context: Arc<TaskContext>) -> Result<DeviceStream> {
        let cancel = CancelOnDrop::default();
        let device = self.device();
        let device = device.attach(device.budget().child(), Arc::clone(&cancel.0))?;
        let chunks = self.execute_on(device, context)?;
        Ok(chunks
            .inspect(move |_| {
                let _held = &cancel;
            })
            .boxed())
    }
}

/// Tells the device, when it is dropped with its stream, that nobody waits for the work any more.
#[derive(Debug, Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `step` of a run on a thread that may block.
pub(crate) async fn blocking<R: Send + 'static, T: Send + 'static>(
    metrics: &DeviceMetrics,
    mut run: R,
    step: impl FnOnce(&mut R) -> crate::error::Result<T> + Send + 'static,
) -> Result<(R, T)> {
    let timer = metrics.baseline.elapsed_compute().timer();
    let (run, made) = SpawnedTask::spawn_blocking(move || {
        let made = step(&mut run);
        (run, made)
    })
    .join_unwind()
    .await
    .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
    timer.done();
    Ok((run, made?))
}

/// `plan` as a device node.
pub(crate) fn as_device(plan: &Arc<dyn ExecutionPlan>) -> Result<&dyn DeviceExec> {
    if let Some(node) = plan.downcast_ref::<BowtieUploadExec>() {
        Ok(node)
    } else if let Some(node) = plan.downcast_ref::<BowtieJoinExec>() {
        Ok(node)
    } else if let Some(node) = plan.downcast_ref::<BowtieJoinAggregateExec>() {
        Ok(node)
    } else if let Some(node) = plan.downcast_ref::<BowtieAggregateExec>() {
        Ok(node)
    } else if let Some(node) = plan.downcast_ref::<BowtieProjectionExec>() {
        Ok(node)
    } else if let Some(node) = plan.downcast_ref::<BowtieFilterExec>() {
        Ok(node)
    } else if let Some(node) = plan.downcast_ref::<BowtieUnionExec>() {
        Ok(node)
    } else {
        Err(DataFusionError::Internal(format!(
            "bowtie: {} stands below a device node, but its batches are the host's",
            plan.name()
        )))
    }
}

/// `execute` of a node whose batches are the device's.
pub(crate) fn device_only<T>(name: &str) -> Result<T> {
    Err(DataFusionError::Internal(format!(
        "bowtie: {name} makes device batches: only a BowtieDownloadExec can run it"
    )))
}

/// The `N` children of a node, or an error that names it.
pub(crate) fn exactly<const N: usize>(
    name: &str,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<[Arc<dyn ExecutionPlan>; N]> {
    let given = children.len();
    children.try_into().map_err(|_| {
        DataFusionError::Internal(format!("bowtie: {name} has {N} children, not {given}"))
    })
}
