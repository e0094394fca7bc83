//! [`BowtieDownloadExec`]: the border device → host.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::projection::{
    EmbeddedProjection, ProjectionExec, try_embed_projection,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt};

use super::{BowtieJoinExec, DeviceChunk, as_device};
use crate::column::DeviceBatch;
use crate::device::Device;

/// Brings the batches of a device node to the host, as batches of the session's size.
#[derive(Debug)]
pub(crate) struct BowtieDownloadExec {
    input: Arc<dyn ExecutionPlan>,
    device: Arc<dyn Device>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BowtieDownloadExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, device: Arc<dyn Device>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            input,
            device,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The join that it downloads, when it is one.
    fn join(&self) -> Option<&BowtieJoinExec> {
        self.input.downcast_ref::<BowtieJoinExec>()
    }
}

impl DisplayAs for BowtieDownloadExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fetch = self.fetch();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "BowtieDownloadExec: device={}", self.device.name())?;
                match fetch {
                    Some(fetch) => write!(f, ", fetch={fetch}"),
                    None => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={}", self.device.name())?;
                match fetch {
                    Some(fetch) => writeln!(f, "fetch={fetch}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Cuts and joins pieces into batches of the session's size, up to `fetch` rows.
struct Batches {
    schema: SchemaRef,
    device: Arc<dyn Device>,
    batch_size: usize,
    ready: VecDeque<RecordBatch>,
    coalescer: BatchCoalescer,
    remaining: Option<usize>,
    downloaded_bytes: Count,
    metrics: BaselineMetrics,
}

impl Batches {
    fn push(&mut self, chunk: DeviceChunk) -> Result<()> {
        let batch = match chunk {
            DeviceChunk::Resident(batch) => self.download(&batch)?,
            DeviceChunk::Staged(chunk) => chunk.batch.clone(),
        };
        let batch = match &mut self.remaining {
            Some(remaining) => {
                let rows = batch.num_rows().min(*remaining);
                *remaining -= rows;
                batch.slice(0, rows)
            }
            None => batch,
        };
        // A piece that is no small part of a batch goes on as it is, past smaller ones that wait for company: copying it
        // would cost more than a batch does, and a join promises no order.
        if batch.num_rows() >= self.batch_size.div_ceil(8) {
            for from in (0..batch.num_rows()).step_by(self.batch_size) {
                let rows = self.batch_size.min(batch.num_rows() - from);
                self.ready.push_back(batch.slice(from, rows));
            }
            return Ok(());
        }
        self.coalescer.push_batch(batch)?;
        while let Some(batch) = self.coalescer.next_completed_batch() {
            self.ready.push_back(batch);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.coalescer.finish_buffered_batch()?;
        self.ready.extend(self.coalescer.next_completed_batch());
        Ok(())
    }

    fn download(&self, batch: &DeviceBatch) -> Result<RecordBatch> {
        self.downloaded_bytes.add(batch.bytes() as usize);
        Ok(batch.download(self.device.as_ref(), &self.schema)?)
    }

    fn is_satisfied(&self) -> bool {
        self.remaining == Some(0)
    }
}

impl ExecutionPlan for BowtieDownloadExec {
    fn name(&self) -> &'static str {
        "BowtieDownloadExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = super::exactly(self.name(), children)?;
        Ok(Arc::new(Self::new(input, Arc::clone(&self.device))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_size = context.session_config().batch_size().max(1);
        let batches = Batches {
            schema: self.schema(),
            device: Arc::clone(&self.device),
            batch_size,
            ready: VecDeque::new(),
            coalescer: BatchCoalescer::new(self.schema(), batch_size),
            remaining: self.fetch(),
            downloaded_bytes: MetricBuilder::new(&self.metrics)
                .counter("downloaded_bytes", partition),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let input = as_device(&self.input)?.execute_device(context)?;
        let stream = futures::stream::try_unfold(
            (Some(input), batches),
            |(mut input, mut batches)| async move {
                loop {
                    if let Some(batch) = batches.ready.pop_front() {
                        let batch = batch.record_output(&batches.metrics);
                        return Ok(Some((batch, (input, batches))));
                    }
                    let Some(chunks) = &mut input else {
                        batches.metrics.done();
                        return Ok(None);
                    };
                    let chunk = match batches.is_satisfied() {
                        true => None,
                        false => chunks.try_next().await?,
                    };
                    let timer = batches.metrics.elapsed_compute().clone();
                    let _timer = timer.timer();
                    match chunk {
                        Some(chunk) => batches.push(chunk)?,
                        None => {
                            input = None;
                            batches.finish()?;
                        }
                    }
                }
            },
        );
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            stream.boxed(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn fetch(&self) -> Option<usize> {
        self.join().and_then(BowtieJoinExec::fetch_rows)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let join = self.join()?.with_fetch_rows(limit).ok()?;
        Some(Arc::new(Self::new(
            Arc::new(join),
            Arc::clone(&self.device),
        )))
    }

    /// A projection of columns is embedded in the join, which then does not gather the others.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        match self.join() {
            Some(_) => try_embed_projection(projection, self),
            None => Ok(None),
        }
    }
}

impl EmbeddedProjection for BowtieDownloadExec {
    fn with_projection(&self, projection: Option<Vec<usize>>) -> Result<Self> {
        let input = match (self.join(), projection) {
            (Some(join), Some(columns)) => Arc::new(join.with_output(&columns)?),
            _ => Arc::clone(&self.input),
        };
        Ok(Self::new(input, Arc::clone(&self.device)))
    }
}
