//! [`ParquetPiece`]: row groups of files whose rows are one chunk. [`cut`] makes pieces of files.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::datasource::listing::PartitionedFile;

use crate::exec::scan::limits::{LEAST_ROWS_OF_TEXT, MOST_TEXT_BYTES, PieceLimits};
use crate::exec::scan::parquet::file::{Files, ParquetFile};
use crate::exec::scan::parquet::table::ParquetTable;
use crate::exec::scan::read_columns::ReadColumns;
use crate::store::column_key::{ColumnHandle, ColumnKey};
use crate::store::file_key::{FileColumn, FileRows};
use crate::store::scan::WantedColumn;

/// Row groups of files, or a whole file whose footer is not known.
///
/// Each file is cut to pieces from its beginning, of whole row groups, and what remains of the files is put together. So a file that
/// comes or goes changes no piece of others, but those of what remained.
#[derive(Debug)]
pub(crate) struct ParquetPiece {
    pub(crate) table: Arc<ParquetTable>,
    pub(crate) files: Files,
    pub(crate) parts: Vec<Part>,
    pub(crate) rows: usize,
    /// The columns of the scan; none of a piece that is not stored.
    columns: Vec<Arc<FileColumn>>,
}

/// Consecutive row groups of a file.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) file: Arc<ParquetFile>,
    pub(crate) row_groups: Range<usize>,
    pub(crate) rows: usize,
}

/// What files are cut to.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    pub(crate) stored: Vec<Vec<Part>>,
    /// Row groups that are too long.
    pub(crate) others: Vec<Vec<Part>>,
}

fn rows_of(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.rows).sum()
}

/// The row groups of some files that are scanned.
pub(crate) fn cut(files: &[Arc<ParquetFile>], limits: PieceLimits) -> Cut {
    let mut cut = Cut::default();
    let mut rest: Vec<Part> = vec![];
    let runs = files
        .iter()
        .flat_map(|file| file.scanned.iter().map(move |run| (file, run.clone())));
    for (file, run) in runs {
        let Some(by_bytes) = limits.rows_of(file.row_bytes()) else {
            cut.others.extend(part(file, run).map(|part| vec![part]));
            continue;
        };
        let by_text = (MOST_TEXT_BYTES / file.text_bytes().max(1)).max(LEAST_ROWS_OF_TEXT);
        let bound = by_bytes.min(1 << by_text.ilog2());
        let (most, uncut) = (limits.rows.min(bound), limits.uncut_rows.min(bound));
        let mut begin = run.start;
        let mut rows_before = 0;
        for (group, rows) in file.rows().enumerate().take(run.end).skip(run.start) {
            if rows_before > 0 && rows_before + rows > most {
                cut.stored.extend(part(file, begin..group).map(|p| vec![p]));
                (begin, rows_before) = (group, 0);
            }
            rows_before += rows;
            if rows > uncut {
                cut.others
                    .extend(part(file, begin..group + 1).map(|p| vec![p]));
                (begin, rows_before) = (group + 1, 0);
            }
        }
        let Some(last) = part(file, begin..run.end) else {
            continue;
        };
        if !rest.is_empty() && rows_of(&rest) + last.rows > most {
            cut.stored.push(std::mem::take(&mut rest));
        }
        rest.push(last);
    }
    if !rest.is_empty() {
        cut.stored.push(rest);
    }
    cut
}

/// Row groups of a file; `None` if they have no rows.
fn part(file: &Arc<ParquetFile>, row_groups: Range<usize>) -> Option<Part> {
    let rows = file.rows().skip(row_groups.start).take(row_groups.len());
    let rows = rows.sum();
    (rows > 0).then(|| Part {
        file: Arc::clone(file),
        row_groups,
        rows,
    })
}

impl ParquetPiece {
    /// Parts whose columns are stored.
    pub(crate) fn stored(table: &Arc<ParquetTable>, files: &Files, parts: Vec<Part>) -> Self {
        let mut piece = Self::other(table, files, parts);
        let columns = 0..table.schema().fields().len();
        piece.columns = columns
            .map(|column| Arc::new(piece.column(column)))
            .collect();
        piece
    }

    /// Parts that are read for each query.
    pub(crate) fn other(table: &Arc<ParquetTable>, files: &Files, parts: Vec<Part>) -> Self {
        Self {
            table: Arc::clone(table),
            files: files.clone(),
            rows: rows_of(&parts),
            parts,
            columns: vec![],
        }
    }

    fn column(&self, column: usize) -> FileColumn {
        let field = self.table.schema().field(column);
        let rows = self.parts.iter().map(|part| FileRows {
            file: Arc::clone(&part.file.version),
            row_groups: part.row_groups.clone(),
            partition_value: self.partition_value(part, column).cloned(),
        });
        FileColumn {
            rows: rows.collect(),
            name: self.table.name_in_table(column).into(),
            data_type: field.data_type().clone(),
            nullable: field.is_nullable(),
            reader: Arc::clone(self.table.reader_options()),
        }
    }

    fn partition_value<'a>(&self, part: &'a Part, column: usize) -> Option<&'a ScalarValue> {
        let number = self.table.partition_column(column)?;
        part.file.file.partition_values.get(number)
    }

    /// Bytes of some of its columns, approximately.
    pub(crate) fn bytes_of(&self, columns: &[usize]) -> u64 {
        let bytes = columns.iter().flat_map(|&column| {
            let data_type = self.table.schema().field(column).data_type();
            let name = self.table.name_in_table(column);
            self.parts.iter().map(move |part| {
                let value = self.partition_value(part, column);
                let each = part.file.column_bytes(name, data_type, value);
                each.saturating_mul(part.rows as u64)
            })
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Its files, with the row groups that are read of them.
    pub(crate) fn partitioned_files(&self) -> impl Iterator<Item = PartitionedFile> {
        let parts = self.parts.iter();
        parts.map(|part| part.file.only(part.row_groups.clone()))
    }

    /// Its columns, with the values that were `read`.
    pub(crate) fn columns<'a>(&'a self, read: &'a ReadColumns) -> Vec<ParquetColumn<'a>> {
        let columns = self.columns.iter().enumerate();
        let columns = columns.map(|(i, column)| ParquetColumn {
            column,
            arrays: read.columns.get(i).and_then(Option::as_ref),
        });
        columns.collect()
    }
}

/// A column of a piece.
pub(crate) struct ParquetColumn<'a> {
    column: &'a Arc<FileColumn>,
    arrays: Option<&'a Vec<ArrayRef>>,
}

impl WantedColumn for ParquetColumn<'_> {
    fn name(&self) -> &str {
        &self.column.name
    }

    fn is_in_files(&self) -> bool {
        true
    }

    fn handle(&self) -> Option<ColumnHandle> {
        Some(ColumnHandle::Files(Arc::clone(self.column)))
    }

    fn key(&self) -> ColumnKey {
        ColumnKey::Files(Arc::clone(self.column))
    }

    fn has_key(&self, key: &ColumnKey) -> bool {
        matches!(key, ColumnKey::Files(key) if key == self.column)
    }

    fn arrays(&self) -> Option<Vec<ArrayRef>> {
        self.arrays.cloned()
    }
}
