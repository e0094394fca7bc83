//! [`ClustersExec`]: the node above the plan of a query of pairs, on the host. In: record batches of two columns of one type. Out: each distinct id with
//! the least id of its connected component, once all pairs are read.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::{EmptyRecordBatchStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use crate::exec::blocking::{joined, spawn_blocking};
use crate::exec::clusters::components::{Clusters, Components};
use crate::exec::clusters::table_memory::TableMemory;
use crate::exec::metrics::ClusterCounts;
use crate::exec::node::only_child;
use crate::exec::transfer::partitions::without_panics;
use crate::spec::clusters::ClustersSpec;

/// Pairs that are added at a time, between which other tasks may run.
const PIECE_PAIRS: usize = 8192;

/// The connected components of pairs.
///
/// Execution Flow: pairs are added to a union-find as their batches come, and are not kept. When all are read, the least id of each
/// component is found.
///
/// Output: one partition, in no particular order.
///
/// Memory: some 50 bytes for each distinct id, and the bytes of text, reserved in DataFusion's memory pool. They are not spilled.
#[derive(Debug)]
pub(crate) struct ClustersExec {
    input: Arc<dyn ExecutionPlan>,
    spec: ClustersSpec,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ClustersExec {
    pub(crate) const NAME: &'static str = "ClustersExec";

    /// Both columns of `input` have the type of the spec.
    pub(crate) fn try_new(input: Arc<dyn ExecutionPlan>, spec: ClustersSpec) -> Result<Self> {
        let schema = spec.schema()?;
        // Pairs without an end have no last one.
        let boundedness = match input.boundedness() {
            Boundedness::Bounded => Boundedness::Bounded,
            Boundedness::Unbounded { .. } => Boundedness::Unbounded {
                requires_infinite_memory: true,
            },
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            boundedness,
        );
        Ok(Self {
            input,
            spec,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The pairs.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    pub(crate) fn spec(&self) -> &ClustersSpec {
        &self.spec
    }
}

impl DisplayAs for ClustersExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "{}: ids={}", Self::NAME, self.spec.data_type)?;
                match self.spec.fetch {
                    Some(fetch) => write!(f, ", fetch={fetch}"),
                    None => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "ids={}", self.spec.data_type)?;
                match self.spec.fetch {
                    Some(fetch) => writeln!(f, "fetch={fetch}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Reads all pairs.
async fn clusters_of(
    mut pairs: SendableRecordBatchStream,
    mut components: Components,
    metrics: Arc<BaselineMetrics>,
    counts: ClusterCounts,
) -> Result<Clusters> {
    while let Some(batch) = pairs.try_next().await? {
        counts.input_pairs.add(batch.num_rows());
        for from in (0..batch.num_rows()).step_by(PIECE_PAIRS) {
            if from > 0 {
                tokio::task::yield_now().await;
            }
            let _timer = metrics.elapsed_compute().timer();
            let piece = batch.slice(from, PIECE_PAIRS.min(batch.num_rows() - from));
            components.add(piece.column(0), piece.column(1))?;
        }
    }
    drop(pairs);
    let done = spawn_blocking(move || {
        let _timer = metrics.elapsed_compute().timer();
        let clusters = components.finish()?;
        counts.clusters.add(clusters.count());
        Ok::<_, DataFusionError>(clusters)
    });
    joined(done).await?
}

impl ExecutionPlan for ClustersExec {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
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
        Ok(Arc::new(Self::try_new(input, self.spec.clone())?))
    }

    fn execute(
        &self,
        _partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let pairs = match self.input.output_partitioning().partition_count() {
            0 => Box::pin(EmptyRecordBatchStream::new(self.input.schema())),
            1 => without_panics(&self.input, 0, Arc::clone(&context))?,
            // No rule has seen the plan: a table is scanned without a query.
            _ => {
                let merged = CoalescePartitionsExec::new(Arc::clone(&self.input));
                without_panics(&(Arc::new(merged) as _), 0, Arc::clone(&context))?
            }
        };
        let memory = TableMemory::new(Self::NAME, context.memory_pool());
        let components = Components::try_new(&self.spec.data_type, memory)?;
        let metrics = Arc::new(BaselineMetrics::new(&self.metrics, 0));
        let counts = ClusterCounts::new(&self.metrics);
        let batch_size = context.session_config().batch_size().max(1);
        let (spec, schema) = (self.spec.clone(), self.schema());
        let batches = async move {
            let clusters = clusters_of(pairs, components, Arc::clone(&metrics), counts).await?;
            let rows = clusters.ids().min(spec.fetch.unwrap_or(usize::MAX));
            let batches = (0..rows).step_by(batch_size).map(move |from| {
                let _timer = metrics.elapsed_compute().timer();
                let range = from..rows.min(from.saturating_add(batch_size));
                metrics.record_output(range.len());
                clusters.batch(range, &spec.columns, &schema)
            });
            Ok::<_, DataFusionError>(futures::stream::iter(batches))
        };
        let batches = futures::stream::once(batches).try_flatten();
        // Batches are made without an await.
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(
            self.schema(),
            batches.boxed(),
        ))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn fetch(&self) -> Option<usize> {
        self.spec.fetch
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let limited = Self::try_new(Arc::clone(&self.input), self.spec.with_fetch(fetch)).ok()?;
        Some(Arc::new(limited))
    }
}
