//! [`ParquetTable`]: the scan of Parquet files, and the columns that it needs of them.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::scan::parquet::source::{ScannedFile, Source};
use crate::exec::scan::scan_filter::ScanFilter;
use crate::store::column_key::TableColumns;
use crate::store::file_key::FilePlace;

/// Files that EXPLAIN shows.
const SHOWN_FILES: usize = 3;
/// Bytes of text that a byte of a file may hold, and of other values, where nothing is known of them.
const EXPANSION: u64 = 3;
/// Bytes of the length of a value of text in a file, without a dictionary.
const LENGTH_BYTES: f64 = 4.0;
/// Bytes of a value's code where few values come in runs: half a bit.
const LEAST_CODE_BYTES: f64 = 1.0 / 16.0;

/// A scan of Parquet files.
#[derive(Debug)]
pub(crate) struct ParquetTable {
    source: Source,
    /// The columns that pieces have: those of the scan, then others of a predicate that the scan applies.
    columns: Vec<usize>,
    schema: SchemaRef,
    filter: Option<ScanFilter>,
    reader_options: Arc<str>,
}

impl ParquetTable {
    /// The scan that `plan` is; `None` for another node, and for a scan whose rows are not those of row groups.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let source = Source::of(plan)?;
        let scanned = plan.schema();
        let mut columns = source.columns.clone();
        let mut fields = scanned.fields().to_vec();
        let mut filter = None;
        if let Some(predicate) = source
            .predicate
            .as_ref()
            .filter(|_| source.applies_predicate())
        {
            let table = source.schema();
            for column in collect_columns(predicate) {
                let known = table.fields().get(column.index())?;
                if known.name() != column.name() {
                    return None;
                }
                if !columns.contains(&column.index()) {
                    columns.push(column.index());
                    fields.push(Arc::clone(known));
                }
            }
            filter = Some(ScanFilter {
                predicate: over(predicate, &columns).ok()?,
                columns: (0..scanned.fields().len()).collect(),
                schema: Arc::clone(&scanned),
            });
        }
        Some(Self {
            reader_options: source.reader_options().into(),
            schema: Arc::new(Schema::new(fields)),
            source,
            columns,
            filter,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn filter(&self) -> Option<&ScanFilter> {
        self.filter.as_ref()
    }

    pub(crate) fn rows(&self) -> Precision<usize> {
        self.source.statistics.num_rows
    }

    pub(crate) fn reader_options(&self) -> &Arc<str> {
        &self.reader_options
    }

    /// The name of a column in the table, which the scan may show by another one.
    pub(crate) fn name_in_table(&self, column: usize) -> &str {
        self.source.schema().field(self.columns[column]).name()
    }

    /// The number of a column among those of partitions.
    pub(crate) fn partition_column(&self, column: usize) -> Option<usize> {
        let in_files = self.source.table().file_schema().fields().len();
        self.columns[column].checked_sub(in_files)
    }

    /// The numbers of the columns in the table's schema.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The numbers of some columns in the table's schema.
    pub(crate) fn in_table(&self, columns: &[usize]) -> Vec<usize> {
        columns.iter().map(|column| self.columns[*column]).collect()
    }

    /// Bytes of all values of the files, those that are not read too, approximately.
    pub(crate) fn bytes_of_files(&self) -> u64 {
        let files = self.source.files.iter();
        let in_files: u64 = files.map(ScannedFile::bytes).sum();
        in_files.saturating_mul(EXPANSION)
    }

    /// Bytes of all columns, approximately: by the widths of their types, and for text by the lengths of the files.
    pub(crate) fn bytes(&self) -> u64 {
        let columns = self.source.table().file_schema().fields().len().max(1) as u64;
        let of_a_column = self.bytes_of_files() / columns;
        let rows = self
            .source
            .statistics
            .num_rows
            .get_value()
            .map(|rows| *rows as u64);
        let bytes = self.schema.fields().iter().map(|field| {
            let width = match field.data_type() {
                DataType::Boolean => Some(1),
                other => other.primitive_width(),
            };
            match (width, rows) {
                (Some(width), Some(rows)) => rows.saturating_mul(width as u64),
                _ => of_a_column,
            }
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// The length of the longer one of the least and greatest value of a column, if it is text.
    pub(crate) fn text_length(&self, column: usize) -> Option<u64> {
        let statistics = &self.source.statistics.column_statistics;
        let known = statistics.get(column)?;
        let length = |value: &Precision<ScalarValue>| {
            let text = value.get_value()?.try_as_str()??;
            Some(text.len() as u64)
        };
        Some(length(&known.min_value)?.max(length(&known.max_value)?))
    }

    /// Whether the values of a column of text repeat, as the statistics of the files tell: with their codes in a dictionary they take fewer bytes
    /// than their lengths do without one. Files with another encoding of text (of differences) may look the same, which costs time at most.
    pub(crate) fn repeats(&self, column: usize) -> bool {
        let bytes = self.bytes_of_a_value(column);
        bytes.is_some_and(|bytes| bytes < LENGTH_BYTES)
    }

    /// An estimate of the distinct values of a column of text whose values [repeat](Self::repeats): the number of values that a dictionary code of the
    /// mean size has. It is too high where the dictionary is large beside the codes. `None` for long runs of equal values, which take a few bytes each.
    pub(crate) fn distinct_values(&self, column: usize) -> Option<f64> {
        let bytes = self.bytes_of_a_value(column)?;
        (LEAST_CODE_BYTES..LENGTH_BYTES)
            .contains(&bytes)
            .then(|| (8.0 * bytes).exp2())
    }

    /// Bytes of a value of a column of text in the files, before they are compressed.
    fn bytes_of_a_value(&self, column: usize) -> Option<f64> {
        let statistics = &self.source.statistics;
        let known = statistics.column_statistics.get(column)?;
        let rows = *statistics.num_rows.get_value()?;
        let nulls = known.null_count.get_value().copied().unwrap_or(0);
        let values = rows.saturating_sub(nulls);
        let bytes = *known.byte_size.get_value()?;
        (is_text(&self.schema, column) && values > 0).then(|| bytes as f64 / values as f64)
    }

    /// Its first files, and the number of the others.
    pub(crate) fn shown_files(&self) -> String {
        let files = &self.source.files;
        let mut shown: Vec<String> = files
            .iter()
            .take(SHOWN_FILES)
            .map(|scanned| match &scanned.ranges {
                None => scanned.file.path().to_string(),
                Some(_) => format!("a part of {}", scanned.file.path()),
            })
            .collect();
        if files.len() > SHOWN_FILES {
            shown.push(format!("{} more", files.len() - SHOWN_FILES));
        }
        format!("[{}]", shown.join(", "))
    }

    /// What may be stored of its columns.
    pub(crate) fn stored_as(&self) -> Vec<TableColumns> {
        let url: Arc<str> = self.source.url().as_str().trim_end_matches('/').into();
        let files = self.source.files.iter().map(|file| FilePlace {
            url: Arc::clone(&url),
            path: file.file.path().as_ref().into(),
        });
        let files: HashSet<FilePlace> = files.collect();
        let columns = (0..self.columns.len()).map(|column| TableColumns::Files {
            files: files.clone(),
            column: self.name_in_table(column).into(),
        });
        columns.collect()
    }
}

fn is_text(schema: &Schema, column: usize) -> bool {
    let data_type = schema.field(column).data_type();
    data_type.is_string() || data_type.is_binary()
}

/// A predicate over the table's schema, over these columns of it.
fn over(predicate: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = Arc::clone(predicate).transform(|node| {
        let Some(column) = node.downcast_ref::<Column>() else {
            return Ok(Transformed::no(node));
        };
        let place = columns.iter().position(|known| *known == column.index());
        let place = place.unwrap_or(usize::MAX);
        let column = Column::new(column.name(), place);
        Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
    });
    moved.data()
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn text_that_repeats() {
        let ctx = SessionContext::new();
        let name = format!("bowtie-{}-repeats.parquet", std::process::id());
        let path = std::env::temp_dir().join(name);
        let rows = "SELECT value AS n, CASE WHEN value % 3 = 0 THEN 'a longer name' WHEN value % 3 = 1 THEN 'b' END AS few,
            CAST(value % 5000 AS VARCHAR) || ' of many' AS many, CAST(value * 7919 AS VARCHAR) AS own
            FROM generate_series(1, 200000)";
        for sql in [
            format!("COPY ({rows}) TO '{}' STORED AS PARQUET", path.display()),
            format!(
                "CREATE EXTERNAL TABLE r STORED AS PARQUET LOCATION '{}'",
                path.display()
            ),
        ] {
            ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        let query = ctx.sql("SELECT own, few, n, many FROM r").await.unwrap();
        let plan = query.create_physical_plan().await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let table = ParquetTable::of(&plan).unwrap();
        let repeats = (0..4).map(|column| table.repeats(column));
        assert_eq!(repeats.collect::<Vec<_>>(), [false, true, false, true]);
        let values = (0..4).map(|column| table.distinct_values(column));
        let [None, Some(few), None, Some(many)] = values.collect::<Vec<_>>()[..] else {
            panic!("two columns repeat");
        };
        assert!((2.0..=8.0).contains(&few), "{few}");
        assert!((5_000.0..=100_000.0).contains(&many), "{many}");
    }
}
