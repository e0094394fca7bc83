//! [`ClustersExec`]: the node above the plan of a query of pairs. In: record batches of two columns of one type. Out: each distinct id with
//! the least id of its connected component, once all pairs are read.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::{EmptyRecordBatchStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use crate::clusters::components::{Clusters, Components};
use crate::clusters::table_memory::TableMemory;
use crate::exec::blocking::{joined, spawn_blocking};
use crate::exec::metrics::ClusterMetrics;

/// Pairs that are added at a time, between which other tasks may run.
const PIECE_PAIRS: usize = 8192;

/// The columns of the clusters of ids of a type.
pub(super) fn clusters_schema(data_type: &DataType) -> SchemaRef {
    let column = |name: &str| Field::new(name, data_type.clone(), false);
    Arc::new(Schema::new(vec![column("id"), column("cluster")]))
}

/// The connected components of pairs.
///
/// Execution Flow: pairs are added to a union-find as their batches come, and are not kept. When all are read, the least id of each
/// component is found.
///
/// Output: one partition, in no particular order.
///
/// Memory: some 50 bytes for each distinct id, and the bytes of text, reserved in DataFusion's memory pool. They are not spilled.
#[derive(Debug)]
pub(super) struct ClustersExec {
    input: Arc<dyn ExecutionPlan>,
    data_type: DataType,
    /// Of the columns of [`clusters_schema`], those that come out.
    columns: Vec<usize>,
    /// The most rows that come out.
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ClustersExec {
    pub(super) const NAME: &'static str = "ClustersExec";

    /// Both columns of `input` have the type.
    pub(super) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        data_type: DataType,
        columns: Vec<usize>,
        fetch: Option<usize>,
    ) -> Result<Self> {
        let schema = Arc::new(clusters_schema(&data_type).project(&columns)?);
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
            data_type,
            columns,
            fetch,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same node with another input and limit.
    fn with(&self, input: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Result<Self> {
        Self::try_new(input, self.data_type.clone(), self.columns.clone(), fetch)
    }
}

impl DisplayAs for ClustersExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "{}: ids={}", Self::NAME, self.data_type)?;
                match self.fetch {
                    Some(fetch) => write!(f, ", fetch={fetch}"),
                    None => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "ids={}", self.data_type)?;
                match self.fetch {
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
    metrics: ClusterMetrics,
) -> Result<Clusters> {
    while let Some(batch) = pairs.try_next().await? {
        metrics.input_pairs.add(batch.num_rows());
        for from in (0..batch.num_rows()).step_by(PIECE_PAIRS) {
            if from > 0 {
                tokio::task::yield_now().await;
            }
            let _timer = metrics.baseline.elapsed_compute().timer();
            let piece = batch.slice(from, PIECE_PAIRS.min(batch.num_rows() - from));
            components.add(piece.column(0), piece.column(1))?;
        }
    }
    drop(pairs);
    let done = spawn_blocking(move || {
        let _timer = metrics.baseline.elapsed_compute().timer();
        let clusters = components.finish()?;
        metrics.clusters.add(clusters.count());
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
        let given = children.len();
        let [input] = <[_; 1]>::try_from(children).map_err(|_| {
            DataFusionError::Internal(format!("bowtie: {} has 1 child, not {given}", Self::NAME))
        })?;
        Ok(Arc::new(self.with(input, self.fetch)?))
    }

    fn execute(
        &self,
        _partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let pairs = match self.input.output_partitioning().partition_count() {
            0 => Box::pin(EmptyRecordBatchStream::new(self.input.schema())),
            1 => self.input.execute(0, Arc::clone(&context))?,
            // No rule has seen the plan: a table is scanned without a query.
            _ => CoalescePartitionsExec::new(Arc::clone(&self.input))
                .execute(0, Arc::clone(&context))?,
        };
        let memory = TableMemory::new(Self::NAME, context.memory_pool());
        let components = Components::try_new(&self.data_type, memory)?;
        let metrics = ClusterMetrics::new(&self.metrics);
        let batch_size = context.session_config().batch_size().max(1);
        let (columns, fetch, schema) = (self.columns.clone(), self.fetch, self.schema());
        let batches = async move {
            let clusters = clusters_of(pairs, components, metrics.clone()).await?;
            let rows = clusters.ids().min(fetch.unwrap_or(usize::MAX));
            let batches = (0..rows).step_by(batch_size).map(move |from| {
                let _timer = metrics.baseline.elapsed_compute().timer();
                let range = from..rows.min(from.saturating_add(batch_size));
                metrics.baseline.record_output(range.len());
                clusters.batch(range, &columns, &schema)
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
        self.fetch
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let limited = self.with(Arc::clone(&self.input), fetch).ok()?;
        Some(Arc::new(limited))
    }
}
