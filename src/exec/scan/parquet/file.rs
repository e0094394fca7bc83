//! [`ParquetFile`]: a file as it is when a query begins, with its footer.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::parquet::{
    DefaultParquetFileReaderFactory, ParquetAccessPlan, ParquetFileReaderFactory,
    RowGroupAccessPlanFilter,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::basic::Type;
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use crate::exec::scan::parquet::source::{ScannedFile, Source};
use crate::store::file_key::{FileVersion, StoreId};

/// The most rows of a file whose footer is believed. A damaged one may say any number, and numbers of rows are added and multiplied.
const MOST_ROWS: u64 = 1 << 40;
/// Likewise of bytes of a row.
const MOST_ROW_BYTES: u64 = 1 << 62;

/// A file with its footer.
#[derive(Debug)]
pub(crate) struct ParquetFile {
    pub(crate) file: PartitionedFile,
    pub(crate) version: Arc<FileVersion>,
    pub(crate) metadata: Arc<ParquetMetaData>,
    /// Runs of the row groups that are scanned.
    pub(crate) scanned: Vec<Range<usize>>,
}

/// The store of a scan's files.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) id: StoreId,
}

impl Files {
    /// The file as it is now; `None` if it is not there, or nothing tells its contents apart.
    pub(crate) async fn version(
        &self,
        file: &PartitionedFile,
    ) -> Option<(PartitionedFile, FileVersion)> {
        let object = self.store.head(file.path()).await.ok()?;
        let version = FileVersion::new(&self.id, &object)?;
        // Statistics are those of the file that was planned.
        let now = PartitionedFile::new_from_meta(object)
            .with_partition_values(file.partition_values.clone());
        Some((
            PartitionedFile {
                metadata_size_hint: file.metadata_size_hint,
                table_reference: file.table_reference.clone(),
                ..now
            },
            version,
        ))
    }

    /// The file with its footer; `None` if it cannot be read, which is for DataFusion's own scan to say.
    pub(crate) async fn open(&self, source: &Source, scanned: &ScannedFile) -> Option<ParquetFile> {
        let (file, version) = self.version(&scanned.file).await?;
        // Ranges are those of the file that was planned.
        if scanned.ranges.is_some() && file.object_meta.size != scanned.file.object_meta.size {
            return None;
        }
        let metadata = self.footer(source, &file).await.ok()?;
        if !is_believed(&metadata) {
            return None;
        }
        let has_columns = metadata.file_metadata().schema_descr().num_columns() > 0;
        // Row groups begin where their first column does.
        if scanned.ranges.is_some() && !has_columns {
            return None;
        }
        let groups = 0..metadata.num_row_groups();
        let runs = match &scanned.ranges {
            None => vec![groups],
            Some(ranges) => runs_in(&metadata, ranges),
        };
        Some(ParquetFile {
            file,
            version: Arc::new(version),
            metadata,
            scanned: runs,
        })
    }

    async fn footer(
        &self,
        source: &Source,
        file: &PartitionedFile,
    ) -> Result<Arc<ParquetMetaData>> {
        let own: Arc<dyn ParquetFileReaderFactory>;
        let factory = match source.reader_factory() {
            Some(factory) => factory,
            None => {
                own = Arc::new(DefaultParquetFileReaderFactory::new(Arc::clone(
                    &self.store,
                )));
                &own
            }
        };
        let metrics = ExecutionPlanMetricsSet::new();
        let hint = file.metadata_size_hint;
        let mut reader = factory.create_reader(0, file.clone(), hint, &metrics)?;
        let options = ArrowReaderOptions::new();
        let footer = reader.get_metadata(Some(&options)).await;
        footer.map_err(|error| DataFusionError::ParquetError(Box::new(error)))
    }
}

/// Whether a footer says of its row groups what it says of the file: row groups without rows are not read.
fn is_believed(metadata: &ParquetMetaData) -> bool {
    let mut groups = metadata.row_groups().iter();
    let rows = groups.try_fold(0_u64, |rows, group| {
        rows.checked_add(u64::try_from(group.num_rows()).ok()?)
    });
    let of_file = u64::try_from(metadata.file_metadata().num_rows()).ok();
    rows == of_file && rows.is_some_and(|rows| rows <= MOST_ROWS)
}

/// The row groups that begin in some ranges of a file's bytes, as DataFusion's own scan tells it.
fn runs_in(metadata: &ParquetMetaData, ranges: &[FileRange]) -> Vec<Range<usize>> {
    let groups = metadata.row_groups();
    let mut runs: Vec<Range<usize>> = vec![];
    for range in ranges {
        let mut within = RowGroupAccessPlanFilter::new(ParquetAccessPlan::new_all(groups.len()));
        within.prune_by_range(groups, range);
        for group in within.build().row_group_indexes() {
            match runs.last_mut() {
                Some(run) if run.end == group => run.end = group + 1,
                _ => runs.push(group..group + 1),
            }
        }
    }
    runs
}

impl ParquetFile {
    /// The rows of each of its row groups.
    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> {
        let groups = self.metadata.row_groups().iter();
        groups.map(|group| usize::try_from(group.num_rows()).unwrap_or(0))
    }

    /// The file, of which these row groups are read.
    pub(crate) fn only(&self, row_groups: impl IntoIterator<Item = usize>) -> PartitionedFile {
        let mut plan = ParquetAccessPlan::new_none(self.metadata.num_row_groups());
        for row_group in row_groups {
            plan.scan(row_group);
        }
        self.file.clone().with_extension(plan)
    }

    /// Bytes of a row of all its columns; a power of two.
    pub(crate) fn row_bytes(&self) -> u64 {
        let columns = 0..self.metadata.file_metadata().schema_descr().num_columns();
        let bytes = columns.map(|column| self.value_bytes(column, None));
        let bytes = bytes.fold(0, u64::saturating_add);
        bytes.clamp(1, MOST_ROW_BYTES).next_power_of_two()
    }

    /// The mean length of its longest text.
    pub(crate) fn text_bytes(&self) -> u64 {
        let columns = 0..self.metadata.file_metadata().schema_descr().num_columns();
        let bytes = columns.map(|column| self.text_length(column).unwrap_or(0));
        bytes.max().unwrap_or(0)
    }

    /// Bytes of a value of a leaf column, as a type if that has a width.
    fn value_bytes(&self, column: usize, data_type: Option<&DataType>) -> u64 {
        if let Some(width) = data_type.and_then(DataType::primitive_width) {
            return width as u64;
        }
        let schema = self.metadata.file_metadata().schema_descr();
        match schema.column(column).physical_type() {
            Type::BOOLEAN => 1,
            Type::INT32 | Type::FLOAT => 4,
            Type::INT64 | Type::DOUBLE | Type::INT96 => 8,
            // Its view, or its offset.
            _ => 16 + self.text_length(column).unwrap_or(0),
        }
    }

    /// Bytes of a value of the table's column `name`, approximately. `partition_value` is that of the file, if the column is one of a
    /// partition.
    pub(crate) fn column_bytes(
        &self,
        name: &str,
        data_type: &DataType,
        partition_value: Option<&ScalarValue>,
    ) -> u64 {
        if let Some(value) = partition_value {
            return data_type.primitive_width().unwrap_or(value.size()) as u64;
        }
        let schema = self.metadata.file_metadata().schema_descr();
        let mut columns = 0..schema.num_columns();
        match columns.find(|column| schema.get_column_root(*column).name() == name) {
            Some(column) => self.value_bytes(column, Some(data_type)),
            None => data_type.primitive_width().unwrap_or(8) as u64,
        }
    }

    /// The mean length of a leaf column's values, of the row group where it is greatest, if they are of variable length.
    fn text_length(&self, column: usize) -> Option<u64> {
        let schema = self.metadata.file_metadata().schema_descr();
        let by_name = schema.column(column).physical_type() == Type::BYTE_ARRAY;
        let groups = by_name.then(|| self.metadata.row_groups().iter())?;
        groups.map(|group| mean_length(group.column(column))).max()
    }
}

/// The mean length of the values of a column chunk: as its writer says, or as its pages and statistics let expect.
fn mean_length(chunk: &ColumnChunkMetaData) -> u64 {
    let values = u64::try_from(chunk.num_values()).unwrap_or(0).max(1);
    let mean = |bytes: i64| u64::try_from(bytes).unwrap_or(0).div_ceil(values);
    if let Some(bytes) = chunk.unencoded_byte_array_data_bytes() {
        return mean(bytes);
    }
    let bounds = chunk.statistics().into_iter().flat_map(|statistics| {
        let bounds = [statistics.min_bytes_opt(), statistics.max_bytes_opt()];
        bounds.into_iter().flatten()
    });
    let longest = bounds.map(|bound| bound.len() as u64).max().unwrap_or(0);
    longest.max(mean(chunk.uncompressed_size()))
}
