//! [`BowtieDownloadExec`]: downloads the chunks of a device node. In: device chunks. Out: record batches. DataFusion
//! executes this node, and it starts the device nodes below.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{
    EmbeddedProjection, ProjectionExec, ProjectionExpr, try_embed_projection,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt};

use crate::device::batches::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::device::trace::{Scope, Trace};
use crate::exec::blocking::{joined, spawn_blocking};
use crate::exec::card_times;
use crate::exec::chunk::DeviceChunk;
use crate::exec::metrics::OutputMetrics;
use crate::exec::node::{DeviceNode, DeviceOperator, only_child};
use crate::exec::node_counters::NodeCounters;
use crate::exec::transfer::output_batches::{Batches, HostChunk};
use crate::exec::transfer::stands_for::StandsFor;
use crate::exec::transfer::way_back::WayBack;
use crate::runtime::planned_device::PlannedDevice;
use crate::spec::operator_kind::OperatorKind;

/// Downloads the chunks of a device node, and returns them as record batches of the session's size.
#[derive(Debug)]
pub(crate) struct BowtieDownloadExec {
    input: Arc<dyn ExecutionPlan>,
    device: Arc<PlannedDevice>,
    of: Option<StandsFor>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BowtieDownloadExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, device: Arc<PlannedDevice>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(
                input.schema(),
                input.output_ordering().cloned(),
            ),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            input,
            device,
            of: None,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same, in the place of what is known of DataFusion's plan.
    pub(crate) fn in_place_of(&self, of: StandsFor) -> Self {
        Self {
            of: Some(of),
            ..Self::new(Arc::clone(&self.input), Arc::clone(&self.device))
        }
    }

    #[cfg(feature = "codec")]
    pub(crate) fn of(&self) -> Option<&StandsFor> {
        self.of.as_ref()
    }

    /// The device node whose output is downloaded.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    pub(crate) fn device(&self) -> &Arc<PlannedDevice> {
        &self.device
    }

    fn node(&self) -> Option<&DeviceNode> {
        self.input.downcast_ref()
    }

    /// The operator of the device node with only these of its output columns; `None` if it cannot leave out columns.
    fn with_columns(&self, columns: &[usize]) -> Option<Result<Arc<dyn DeviceOperator>>> {
        self.node()?.operator().with_columns(columns)
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

/// The number of chunks that are downloaded concurrently if the budget is at least `LEAST_BUDGET_FOR_TWO`: one is read
/// while the next is transferred.
const CONCURRENT_DOWNLOADS: usize = 2;
const LEAST_BUDGET_FOR_TWO: u64 = 1 << 30;

/// Downloads chunks.
#[derive(Clone)]
struct Downloader {
    device: Arc<dyn Device>,
    schema: SchemaRef,
    metrics: Arc<OutputMetrics>,
}

impl Downloader {
    async fn land(self, chunk: Result<DeviceChunk>) -> Result<HostChunk> {
        Ok(match chunk? {
            DeviceChunk::Staged(chunk) => HostChunk::Staged(chunk),
            DeviceChunk::LongRanges(long_ranges) => HostChunk::LongRanges(long_ranges),
            // A download holds nothing that it could spill.
            DeviceChunk::MemoryPressure => HostChunk::Rows(RecordBatch::new_empty(self.schema)),
            DeviceChunk::Resident(batch) => HostChunk::Rows(match batch.is_resident() {
                false => self.download(&batch)?,
                // Waiting for the device would block the other tasks of this thread.
                true => joined(spawn_blocking(move || self.download(&batch))).await??,
            }),
        })
    }

    fn download(&self, batch: &DeviceBatch) -> Result<RecordBatch> {
        let _timer = self.metrics.elapsed_compute.timer();
        self.metrics.downloaded_bytes.add(batch.bytes() as usize);
        self.metrics.bytes.add(batch.bytes() as usize);
        Ok(batch.download(self.device.as_ref(), &self.schema)?)
    }
}

impl BowtieDownloadExec {
    pub(crate) const NAME: &'static str = "BowtieDownloadExec";
}

impl ExecutionPlan for BowtieDownloadExec {
    fn name(&self) -> &'static str {
        Self::NAME
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
        let input = only_child(Self::NAME, children)?;
        Ok(Arc::new(Self {
            of: self.of.clone(),
            ..Self::new(input, Arc::clone(&self.device))
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_size = context.session_config().batch_size().max(1);
        let trace = context.session_config().get_extension::<Trace>();
        let meter = NodeCounters::shared(&self.metrics);
        let scope = Scope::new(self, Self::NAME, meter, trace).timed(self.device.is_timed());
        let batches = Box::new(Batches::new(
            self.schema(),
            batch_size,
            self.fetch(),
            self.input.output_ordering().is_some() || keeps_order_of_table(&self.input),
            Arc::new(OutputMetrics::new(&self.metrics, partition)),
        ));
        let (input, device) = (Arc::clone(&self.input), Arc::clone(&self.device));
        let (schema, metrics) = (self.schema(), Arc::clone(&batches.metrics));
        let way_back = WayBack::of(self.of.as_ref(), &self.device, &context, (&metrics, &scope));
        let started = async move {
            // Opening a GPU for the first time takes a tenth of a second or more.
            let device = joined(spawn_blocking(move || device.open())).await??;
            let concurrent = match device.budget().limit() >= LEAST_BUDGET_FOR_TWO {
                true => CONCURRENT_DOWNLOADS,
                false => 1,
            };
            let chunks = DeviceNode::of(&input)?.execute_device(&device, context)?;
            let downloader = Downloader {
                device,
                schema,
                metrics,
            };
            let downloaded = chunks.map(move |chunk| downloader.clone().land(chunk));
            Ok::<_, DataFusionError>(downloaded.buffered(concurrent))
        };
        let input = futures::stream::once(started).try_flatten();
        let input = card_times::in_scope_of(scope, input).boxed();
        let stream = futures::stream::try_unfold(
            (Some(input), batches),
            |(mut input, mut batches)| async move {
                loop {
                    let made = {
                        let timer = batches.metrics.elapsed_compute.clone();
                        let _timer = timer.timer();
                        batches.next()?
                    };
                    if let Some(batch) = made {
                        batches.metrics.rows.add(batch.num_rows());
                        batches.metrics.batches.add(1);
                        return Ok(Some((batch, (input, batches))));
                    }
                    let Some(chunks) = &mut input else {
                        return Ok(None);
                    };
                    let chunk = match batches.is_satisfied() {
                        true => None,
                        false => chunks.try_next().await?,
                    };
                    let timer = batches.metrics.elapsed_compute.clone();
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
        // Batches of long ranges are made without an await, so the stream must yield to other tasks by itself.
        let rows: SendableRecordBatchStream = Box::pin(cooperative(RecordBatchStreamAdapter::new(
            self.schema(),
            stream.boxed(),
        )));
        Ok(match way_back {
            Some(way_back) => way_back.or_else(rows),
            None => rows,
        })
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
        self.node()?.operator().fetch()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let node = self.node()?;
        let limited = node.operator().with_fetch(limit)?;
        let limited = node.with_operator(limited).ok()?;
        let of = self.of.clone().map(|of| StandsFor {
            limit: Some(limit),
            ..of
        });
        Some(Arc::new(Self {
            of,
            ..Self::new(Arc::new(limited), Arc::clone(&self.device))
        }))
    }

    /// A projection of columns is embedded in an operator that can leave out columns, such as a join, which then does not gather the other ones.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // Whether an operator can leave out columns does not depend on which.
        match self.with_columns(&[]) {
            Some(_) => try_embed_projection(projection, self),
            None => Ok(None),
        }
    }
}

impl EmbeddedProjection for BowtieDownloadExec {
    fn with_projection(&self, projection: Option<Vec<usize>>) -> Result<Self> {
        let selected = projection.and_then(|columns| {
            let operator = self.with_columns(&columns)?;
            Some((self.node()?, operator, columns))
        });
        let Some((node, operator, columns)) = selected else {
            return Ok(Self {
                of: self.of.clone(),
                ..Self::new(Arc::clone(&self.input), Arc::clone(&self.device))
            });
        };
        let input = node.with_operator(operator?)?;
        let of = match &self.of {
            Some(of) => Some(StandsFor {
                node: projected(&of.node, &columns)?,
                ..of.clone()
            }),
            None => None,
        };
        Ok(Self {
            of,
            ..Self::new(Arc::new(input), Arc::clone(&self.device))
        })
    }
}

/// Some columns of a node.
fn projected(node: &Arc<dyn ExecutionPlan>, columns: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = node.schema();
    let columns = columns.iter().map(|column| {
        let name = schema.field(*column).name();
        ProjectionExpr::new(Arc::new(Column::new(name, *column)), name.clone())
    });
    Ok(Arc::new(ProjectionExec::try_new(
        columns.collect::<Vec<_>>(),
        Arc::clone(node),
    )?))
}

/// Whether rows leave a node in the order in which a table has them, though none is declared: DataFusion's filters and projections keep that, too.
fn keeps_order_of_table(node: &Arc<dyn ExecutionPlan>) -> bool {
    let of_device = node.downcast_ref::<DeviceNode>();
    let kind = of_device.map(|node| node.operator().kind());
    match (kind, &node.children()[..]) {
        (Some(OperatorKind::Scan), _) => true,
        (Some(OperatorKind::Filter | OperatorKind::Projection), [input]) => {
            keeps_order_of_table(input)
        }
        _ => false,
    }
}
