//! [`SnapshotSource`]: scans a table snapshot until the rule has decided. In: a snapshot. Out: what DataFusion's scan of a table in memory says and does.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, project_schema};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

use crate::store::table_snapshot::TableSnapshot;

/// As [`MemorySourceConfig`], but shares the list of batches, and computes statistics once for all queries. A plan that leaves the
/// rule holds none: [`SnapshotSource::memory_source`] is in its place.
#[derive(Clone)]
pub(crate) struct SnapshotSource {
    snapshot: Arc<TableSnapshot>,
    projection: Option<Vec<usize>>,
    /// After the projection.
    schema: SchemaRef,
    fetch: Option<usize>,
    show_sizes: bool,
}

impl fmt::Debug for SnapshotSource {
    /// Without its rows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotSource")
            .field("schema", &self.schema)
            .field("fetch", &self.fetch)
            .finish_non_exhaustive()
    }
}

impl SnapshotSource {
    /// # Errors
    /// If the table has no column of that number.
    pub(crate) fn try_new(
        snapshot: Arc<TableSnapshot>,
        projection: Option<Vec<usize>>,
        show_sizes: bool,
    ) -> Result<Self> {
        Ok(Self {
            schema: project_schema(snapshot.schema(), projection.as_ref())?,
            snapshot,
            projection,
            fetch: None,
            show_sizes,
        })
    }

    pub(crate) fn snapshot(&self) -> &Arc<TableSnapshot> {
        &self.snapshot
    }

    pub(crate) fn projection(&self) -> Option<&Vec<usize>> {
        self.projection.as_ref()
    }

    /// DataFusion's own scan of the same rows.
    pub(crate) fn memory_source(&self) -> Result<MemorySourceConfig> {
        let source = MemorySourceConfig::try_new(
            self.snapshot.partitions(),
            Arc::clone(self.snapshot.schema()),
            self.projection.clone(),
        )?;
        let source = source.with_show_sizes(self.show_sizes);
        Ok(source.with_limit(self.fetch))
    }

    /// The source that `plan` scans, if it is one.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<&Self> {
        plan.downcast_ref::<DataSourceExec>()?
            .data_source()
            .downcast_ref()
    }
}

impl DataSource for SnapshotSource {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.memory_source()?.open(partition, context)
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = self.snapshot.partitions();
        let sizes: Vec<usize> = partitions.iter().map(Vec::len).collect();
        match t {
            DisplayFormatType::TreeRender => match self.memory_source() {
                Ok(source) => source.fmt_as(t, f),
                Err(_) => Err(fmt::Error),
            },
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "partitions={}", sizes.len())?;
                if self.show_sizes {
                    write!(f, ", partition_sizes={sizes:?}")?;
                }
                match self.fetch {
                    Some(limit) => write!(f, ", fetch={limit}"),
                    None => Ok(()),
                }
            }
        }
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        least_size: usize,
        ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        self.memory_source()?
            .repartitioned(target_partitions, least_size, ordering)
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.snapshot.partitions().len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        if partition.is_some_and(|partition| partition >= self.snapshot.partitions().len()) {
            return Ok(Arc::new(statistics));
        }
        let mut bytes = 0;
        for (i, column) in statistics.column_statistics.iter_mut().enumerate() {
            let i = self.projection().map_or(i, |columns| columns[i]);
            let summary = self.snapshot.summary(partition, i);
            column.null_count = Precision::Exact(summary.nulls);
            bytes += summary.bytes;
        }
        statistics.num_rows = Precision::Exact(self.snapshot.rows(partition));
        statistics.total_byte_size = Precision::Exact(bytes);
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(Self {
            fetch,
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        self.memory_source()?
            .try_swapping_with_projection(projection)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
