//! [`Source`]: a scan of Parquet files by DataFusion, if its rows are those of row groups. Makes scans of parts of them, by the same reader.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::object_store::path::Path;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;

use crate::compat::private_types::{is_own_adapter_factory, is_own_reader_factory};

/// A scan of Parquet files.
pub(crate) struct Source {
    url: ObjectStoreUrl,
    /// Reads all columns, without a predicate.
    plain: ParquetSource,
    pub(crate) files: Vec<ScannedFile>,
    /// The columns of the scan, by their numbers in the table's schema.
    pub(crate) columns: Vec<usize>,
    /// Over the table's schema.
    pub(crate) predicate: Option<Arc<dyn PhysicalExpr>>,
    /// Of the columns of the scan.
    pub(crate) statistics: Arc<Statistics>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("url", &self.url)
            .field("files", &self.files.len())
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

/// Rows of a batch that is read to be stored: fewer arrays than of DataFusion's batches.
const BATCH_ROWS: usize = 1 << 16;

impl Source {
    /// The scan that `plan` is; `None` for another node, and for a scan whose rows are not those of row groups: with a limit, of encrypted
    /// files, or by readers that are not DataFusion's.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
        let config = source.downcast_ref::<FileScanConfig>()?;
        let source = config.file_source().downcast_ref::<ParquetSource>()?;
        let table = source.table_schema();
        let crypto = &source.table_parquet_options().crypto;
        let encrypted = crypto.file_decryption.is_some() || crypto.factory_id.is_some();
        let adapter = config.expr_adapter_factory.as_ref();
        let adapted = adapter.is_some_and(|adapter| !is_own_adapter_factory(adapter));
        let factory = source.parquet_file_reader_factory();
        let other_reader = factory.is_some_and(|factory| !is_own_reader_factory(factory));
        let declined = config.limit.is_some()
            || encrypted
            || adapted
            || other_reader
            || !table.virtual_columns().is_empty();
        if declined {
            return None;
        }
        let columns = source.projection()?.iter().map(|projected| {
            let column = projected.expr.downcast_ref::<Column>()?;
            let known = table.table_schema().fields().get(column.index())?;
            (known.name() == column.name()).then(|| column.index())
        });
        let mut options = source.table_parquet_options().clone();
        // It finds pages for a predicate.
        options.global.enable_page_index &= source.filter().is_some();
        let mut plain = ParquetSource::new(table.clone()).with_table_parquet_options(options);
        if let Some(factory) = factory {
            plain = plain.with_parquet_file_reader_factory(Arc::clone(factory));
        }
        let files = scanned(&config.file_groups)?;
        let mut statistics = config.partition_statistics(None).ok()?;
        // They may be those of whole files.
        if files.iter().any(|file| file.ranges.is_some()) {
            statistics = Arc::new(Arc::unwrap_or_clone(statistics).to_inexact());
        }
        Some(Self {
            url: config.object_store_url.clone(),
            plain,
            files,
            columns: columns.collect::<Option<_>>()?,
            predicate: source.filter(),
            statistics,
        })
    }

    pub(crate) fn url(&self) -> &ObjectStoreUrl {
        &self.url
    }

    pub(crate) fn table(&self) -> &TableSchema {
        self.plain.table_schema()
    }

    /// The table's columns, then those of partitions.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.plain.table_schema().table_schema()
    }

    pub(crate) fn reader_factory(&self) -> Option<&Arc<dyn ParquetFileReaderFactory>> {
        self.plain.parquet_file_reader_factory()
    }

    /// Whether the scan drops the rows that its predicate does not let through. Otherwise a filter above it does.
    pub(crate) fn applies_predicate(&self) -> bool {
        self.predicate.is_some() && self.plain.table_parquet_options().global.pushdown_filters
    }

    pub(crate) fn prunes(&self) -> bool {
        self.plain.table_parquet_options().global.pruning
    }

    pub(crate) fn max_in_list_size(&self) -> usize {
        self.plain.max_in_list_size()
    }

    /// The options of the reader that values depend on, beside their type.
    pub(crate) fn reader_options(&self) -> String {
        let options = &self.plain.table_parquet_options().global;
        format!(
            "{:?} {:?} {} {} {}",
            options.coerce_int96,
            options.coerce_int96_tz,
            options.skip_metadata,
            options.binary_as_string,
            options.schema_force_view_types
        )
    }

    /// A scan of columns of files, a partition for each group. It returns all rows, in their order.
    pub(crate) fn scan_of(
        &self,
        groups: Vec<FileGroup>,
        columns: &[usize],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let source = self.plain.clone().with_pushdown_filters(false);
        let config = self.config(source.with_enable_page_index(false), groups, columns)?;
        let config = config
            .with_preserve_order(true)
            .with_batch_size(Some(BATCH_ROWS));
        Ok(DataSourceExec::from_data_source(config.build()))
    }

    /// A scan of columns of files, with the predicate of the original one.
    pub(crate) fn scan_with_predicate(
        &self,
        groups: Vec<FileGroup>,
        columns: &[usize],
    ) -> Result<Arc<DataSourceExec>> {
        let source = match &self.predicate {
            Some(predicate) => self.plain.with_predicate(Arc::clone(predicate)),
            None => self.plain.clone(),
        };
        let config = self.config(source, groups, columns)?.build();
        Ok(DataSourceExec::from_data_source(config))
    }

    fn config(
        &self,
        source: ParquetSource,
        groups: Vec<FileGroup>,
        columns: &[usize],
    ) -> Result<FileScanConfigBuilder> {
        FileScanConfigBuilder::new(self.url.clone(), Arc::new(source))
            .with_file_groups(groups)
            .with_projection_indices(Some(columns.to_vec()))
    }
}

/// A file, or those row groups of it that begin in ranges of its bytes.
#[derive(Debug, Clone)]
pub(crate) struct ScannedFile {
    /// Without a range.
    pub(crate) file: PartitionedFile,
    /// In order, and apart; `None`: all of it.
    pub(crate) ranges: Option<Vec<FileRange>>,
}

impl ScannedFile {
    /// What a scan by DataFusion reads of it.
    pub(crate) fn partitioned_files(&self) -> Vec<PartitionedFile> {
        match &self.ranges {
            None => vec![self.file.clone()],
            Some(ranges) => {
                let of = |range: &FileRange| self.file.clone().with_range(range.start, range.end);
                ranges.iter().map(of).collect()
            }
        }
    }

    /// Its bytes that are scanned.
    pub(crate) fn bytes(&self) -> u64 {
        let size = self.file.object_meta.size;
        match &self.ranges {
            None => size,
            Some(ranges) => {
                let bytes = ranges.iter().map(|range| range.end - range.start);
                u64::try_from(bytes.sum::<i64>()).unwrap_or(size).min(size)
            }
        }
    }
}

/// The files of some groups, in the order of their paths; `None` if something is read twice, or if a file is said to be another one.
fn scanned(groups: &[FileGroup]) -> Option<Vec<ScannedFile>> {
    let mut files: HashMap<&Path, (&PartitionedFile, Vec<FileRange>)> = HashMap::new();
    for file in groups.iter().flat_map(FileGroup::iter) {
        let object = &file.object_meta;
        let unknown = object.last_modified.timestamp_millis() == 0 && object.e_tag.is_none();
        if unknown || !file.extensions.is_empty() || file.arrow_schema.is_some() {
            return None;
        }
        let size = i64::try_from(object.size).ok()?;
        let whole = FileRange {
            start: 0,
            end: size,
        };
        let range = file.range.clone().unwrap_or(whole);
        let (_, ranges) = files.entry(file.path()).or_insert((file, vec![]));
        ranges.push(range);
    }
    let mut files: Vec<_> = files.into_values().collect();
    files.sort_by(|(a, _), (b, _)| a.path().cmp(b.path()));
    let files = files.into_iter().map(|(file, ranges)| {
        let ranges = united(ranges)?;
        let mut all = file.clone();
        all.range = None;
        let size = i64::try_from(file.object_meta.size).ok()?;
        let is_whole = matches!(&ranges[..], [range] if range.start == 0 && range.end == size);
        Some(ScannedFile {
            file: all,
            ranges: (!is_whole).then_some(ranges),
        })
    });
    files.collect()
}

/// The ranges in their order, those that touch as one; `None` if some of them overlap: rows that are read twice are there twice.
fn united(mut ranges: Vec<FileRange>) -> Option<Vec<FileRange>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut united: Vec<FileRange> = vec![];
    for range in ranges {
        match united.last_mut() {
            Some(last) if range.start < last.end => return None,
            Some(last) if range.start == last.end => last.end = range.end,
            _ => united.push(range),
        }
    }
    Some(united)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn file(path: &str, range: Option<(i64, i64)>) -> PartitionedFile {
        let mut file = PartitionedFile::new(path, 100);
        file.object_meta.last_modified = (SystemTime::UNIX_EPOCH + Duration::from_secs(9)).into();
        match range {
            Some((from, to)) => file.with_range(from, to),
            None => file,
        }
    }

    /// Paths, with the ranges that are read of a file.
    fn read(files: Vec<Vec<PartitionedFile>>) -> Option<Vec<String>> {
        let groups: Vec<FileGroup> = files.into_iter().map(FileGroup::new).collect();
        let files = scanned(&groups)?;
        assert!(files.iter().all(|scanned| scanned.file.range.is_none()));
        let files = files.iter().map(|scanned| {
            let ranges = scanned.ranges.iter().flatten();
            let ranges = ranges.map(|range| format!(" {}-{}", range.start, range.end));
            format!("{}{}", scanned.file.path(), ranges.collect::<String>())
        });
        Some(files.collect())
    }

    #[test]
    fn ranges_are_united() {
        let expected = |files: &[&str]| Some(files.iter().map(|file| (*file).into()).collect());
        let whole = vec![vec![file("b", None)], vec![file("a", None)]];
        assert_eq!(read(whole), expected(&["a", "b"]));
        let all = vec![
            vec![file("a", Some((40, 100)))],
            vec![file("c", None), file("a", Some((0, 40)))],
        ];
        assert_eq!(read(all), expected(&["a", "c"]));
        let parts = vec![
            vec![file("a", Some((90, 100))), file("b", Some((0, 99)))],
            vec![file("a", Some((40, 60))), file("a", Some((20, 40)))],
        ];
        assert_eq!(read(parts), expected(&["a 20-60 90-100", "b 0-99"]));
        assert_eq!(read(vec![vec![]]), expected(&[]));
    }

    #[test]
    fn what_is_read_twice_or_is_another_file_is_declined() {
        for declined in [
            vec![file("a", Some((0, 41))), file("a", Some((40, 100)))],
            vec![file("a", None), file("a", Some((40, 100)))],
            vec![file("a", None), file("a", None)],
            vec![PartitionedFile::new("a", 100)],
            vec![file("a", None).with_extension(7_u8)],
        ] {
            assert_eq!(read(vec![declined]), None);
        }
    }

    #[test]
    fn parts_are_scanned_by_their_ranges() {
        let part = ScannedFile {
            file: file("a", None),
            ranges: Some(vec![
                FileRange { start: 0, end: 10 },
                FileRange { start: 40, end: 55 },
            ]),
        };
        assert_eq!(part.bytes(), 25);
        let ranges: Vec<_> = part.partitioned_files();
        let ranges: Vec<_> = ranges.iter().map(|file| file.range.clone()).collect();
        assert_eq!(
            ranges,
            part.ranges
                .unwrap()
                .into_iter()
                .map(Some)
                .collect::<Vec<_>>()
        );
    }
}
