//! [`MemoryTable`]: the scan of a table in memory, cut to pieces whose columns a store keeps.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

use crate::device::host::columns::encode::dictionary::repeats;
use crate::device::row_width::mean_bytes;
use crate::exec::scan::limits::{LEAST_ROWS_OF_TEXT, MOST_TEXT_BYTES, PieceLimits};
use crate::exec::scan::snapshot_source::SnapshotSource;
use crate::store::array_key::{ArrayAddress, ArrayRows, ArraysHandle, ArraysKey};
use crate::store::column_key::{ColumnHandle, ColumnKey, TableColumns};
use crate::store::scan::WantedColumn;

/// A scan of a table in memory.
pub(crate) struct MemoryTable {
    source: Arc<dyn DataSource>,
    schema: SchemaRef,
}

impl fmt::Debug for MemoryTable {
    /// Without its rows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTable")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// Some batches of a table, whose rows are one chunk; or rows of a batch that is longer than a chunk.
///
/// Each partition is cut to pieces from its beginning, and what remains of the partitions is put together. So rows that are inserted, which
/// come behind the others of a partition, change the last piece of each partition at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemoryPiece {
    batches: Vec<PieceBatch>,
    pub(crate) rows: usize,
}

/// Rows of a batch, by its partition and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PieceBatch {
    partition: usize,
    batch: usize,
    from: usize,
    rows: usize,
}

/// Batches, and views of each, from which means are taken.
const SAMPLED_BATCHES: usize = 32;
const SAMPLED_VIEWS: usize = 256;
/// Rows of a place of a sample.
const SAMPLED_ROWS: usize = 256;
/// Values of text that tell whether they repeat.
const SAMPLED_VALUES: usize = 1 << 11;

impl MemoryTable {
    /// The scan that `plan` is; `None` for another node, and for a scan with a limit.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
        let in_memory = source.is::<MemorySourceConfig>() || source.is::<SnapshotSource>();
        (in_memory && source.fetch().is_none()).then(|| Self {
            source: Arc::clone(source),
            schema: plan.schema(),
        })
    }

    fn snapshot(&self) -> Option<&SnapshotSource> {
        self.source.downcast_ref()
    }

    fn in_memory(&self) -> Option<&MemorySourceConfig> {
        self.source.downcast_ref()
    }

    fn partitions(&self) -> &[Vec<RecordBatch>] {
        match self.snapshot() {
            Some(source) => source.snapshot().partitions(),
            None => self.in_memory().map_or(&[], MemorySourceConfig::partitions),
        }
    }

    pub(crate) fn has_one_partition(&self) -> bool {
        self.partitions().len() == 1
    }

    fn projection(&self) -> Option<&Vec<usize>> {
        match self.snapshot() {
            Some(source) => source.projection(),
            None => self.in_memory()?.projection().as_ref(),
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn rows(&self) -> usize {
        if let Some(source) = self.snapshot() {
            return source.snapshot().rows(None);
        }
        let batches = self.partitions().iter().flatten();
        batches.map(RecordBatch::num_rows).sum()
    }

    /// The number in the table's batches of column `column` of the scan.
    fn column_of_batches(&self, column: usize) -> usize {
        self.projection().map_or(column, |columns| columns[column])
    }

    /// All rows, in pieces, and whether these may be stored.
    pub(crate) fn pieces(&self, limits: PieceLimits) -> Result<(Vec<MemoryPiece>, bool)> {
        let by_bytes = limits.rows_of(self.row_bytes()?);
        // Longer rows are cut by their upload.
        let most_rows = limits.rows.min(by_bytes.unwrap_or(usize::MAX));
        let most_rows = most_rows.min(self.most_rows_of_text()?).max(1);
        let mut pieces = vec![];
        let mut rest = MemoryPiece::default();
        for (partition, batches) in self.partitions().iter().enumerate() {
            let mut piece = MemoryPiece::default();
            for (batch, rows) in batches.iter().map(RecordBatch::num_rows).enumerate() {
                if piece.rows > 0 && piece.rows + rows > most_rows {
                    pieces.push(std::mem::take(&mut piece));
                }
                for from in (0..rows).step_by(most_rows) {
                    if piece.rows >= most_rows {
                        pieces.push(std::mem::take(&mut piece));
                    }
                    piece.push(PieceBatch {
                        partition,
                        batch,
                        from,
                        rows: most_rows.min(rows - from),
                    });
                }
            }
            if rest.rows > 0 && rest.rows + piece.rows > most_rows {
                pieces.push(std::mem::take(&mut rest));
            }
            rest.append(piece);
        }
        if rest.rows > 0 {
            pieces.push(rest);
        }
        Ok((pieces, by_bytes.is_some()))
    }

    /// The first batches with rows, from which means are taken. INSERT adds batches behind them.
    fn first_batches(&self) -> impl Iterator<Item = &RecordBatch> {
        let batches = self.partitions().iter().flatten();
        batches
            .filter(|batch| batch.num_rows() > 0)
            .take(SAMPLED_BATCHES)
    }

    /// The greatest mean of the first batches, of each column of the table: all scans have the same pieces.
    fn means(&self, of: impl Fn(&ArrayRef) -> Result<u64>) -> Result<Vec<u64>> {
        let mut means = vec![];
        for batch in self.first_batches() {
            means.resize(batch.num_columns(), 0);
            for (mean, array) in means.iter_mut().zip(batch.columns()) {
                *mean = (*mean).max(of(array)?);
            }
        }
        Ok(means)
    }

    /// The rows whose text has [`MOST_TEXT_BYTES`], in any column of the table; a power of two, which a few other rows do not change.
    fn most_rows_of_text(&self) -> Result<usize> {
        let longest = self.means(|array| Ok(text_bytes(array)))?.into_iter().max();
        let rows = (MOST_TEXT_BYTES / longest.unwrap_or(1).max(1)).max(LEAST_ROWS_OF_TEXT);
        Ok(1 << rows.ilog2())
    }

    /// Bytes of a row of the table: a power of two.
    pub(crate) fn row_bytes(&self) -> Result<u64> {
        let means = self.means(|array| Ok(mean_bytes(array)?.max(text_bytes(array))))?;
        Ok(means.into_iter().sum::<u64>().max(1).next_power_of_two())
    }

    /// Bytes of all columns of the scan, approximately.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let means = self.means(|array| Ok(mean_bytes(array)?.max(text_bytes(array))))?;
        let columns = 0..self.schema.fields().len();
        let of = columns.filter_map(|column| means.get(self.column_of_batches(column)));
        Ok(of.sum::<u64>().saturating_mul(self.rows() as u64))
    }

    /// The mean length of the first values of column `column` of the scan, if it is text.
    pub(crate) fn text_length(&self, column: usize) -> Option<u64> {
        let first = self.first_batches().next()?;
        let first = first.columns().get(self.column_of_batches(column))?;
        Some(text_bytes(first)).filter(|bytes| *bytes > 0)
    }

    /// Whether the first values of column `column` of the scan repeat.
    pub(crate) fn repeats(&self, column: usize) -> bool {
        let first = self.first_batches().next();
        let first = first.and_then(|batch| batch.columns().get(self.column_of_batches(column)));
        first.is_some_and(|first| repeats(&first.slice(0, first.len().min(SAMPLED_VALUES))))
    }

    /// Rows of many places of the table, with the columns of the scan: some thousands, or all of a short table.
    pub(crate) fn sample(&self) -> Vec<RecordBatch> {
        let batches: usize = self.partitions().iter().map(Vec::len).sum();
        let step = batches.div_ceil(SAMPLED_BATCHES).max(1);
        // Of a few long batches each gives rows of several places.
        let places = SAMPLED_BATCHES / batches.clamp(1, SAMPLED_BATCHES);
        let columns: Vec<usize> = (0..self.schema.fields().len())
            .map(|column| self.column_of_batches(column))
            .collect();
        let sampled = self.partitions().iter().flatten().step_by(step);
        let rows = sampled.flat_map(|batch| {
            let places = (0..places).map(|place| batch.num_rows() / places * place);
            places.filter_map(|from| {
                let rows = SAMPLED_ROWS.min(batch.num_rows() - from);
                batch
                    .project(&columns)
                    .ok()
                    .map(|batch| batch.slice(from, rows))
            })
        });
        rows.collect()
    }

    /// The columns of a piece, by the names of the scan.
    pub(crate) fn columns<'a>(&'a self, piece: &'a MemoryPiece) -> Vec<MemoryColumn<'a>> {
        let columns = 0..self.schema.fields().len();
        let columns = columns.map(|column| MemoryColumn {
            table: self,
            piece,
            column,
        });
        columns.collect()
    }

    /// What may be stored of the columns of the scan.
    pub(crate) fn stored_as(&self) -> TableColumns {
        let columns = 0..self.schema.fields().len();
        let columns: Vec<usize> = columns
            .map(|column| self.column_of_batches(column))
            .collect();
        let batches = self.partitions().iter().flatten();
        let arrays = batches.flat_map(|batch| columns.iter().map(|column| batch.column(*column)));
        TableColumns::Arrays(arrays.map(ArrayAddress::of).collect())
    }

    /// The batches of a piece, with their rows in it.
    fn batches<'a>(
        &'a self,
        piece: &'a MemoryPiece,
    ) -> impl Iterator<Item = (&'a RecordBatch, PieceBatch)> {
        let partitions = self.partitions();
        let batches = piece.batches.iter();
        batches.map(|of| (&partitions[of.partition][of.batch], *of))
    }

    /// A scan of these pieces alone, in at most so many partitions.
    pub(crate) fn scan_of(
        &self,
        pieces: &[&MemoryPiece],
        most_partitions: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let each = pieces.len().div_ceil(most_partitions.max(1)).max(1);
        let batches = |pieces: &[&MemoryPiece]| {
            let batches = pieces.iter().flat_map(|piece| self.batches(piece));
            batches
                .map(|(batch, of)| batch.slice(of.from, of.rows))
                .collect()
        };
        let partitions: Vec<Vec<RecordBatch>> = pieces.chunks(each).map(batches).collect();
        let schema = match (self.snapshot(), self.in_memory()) {
            (Some(source), _) => Arc::clone(source.snapshot().schema()),
            (None, Some(source)) => source.original_schema(),
            (None, None) => Arc::clone(&self.schema),
        };
        let projection = self.projection().cloned();
        let source = MemorySourceConfig::try_new(&partitions, schema, projection)?;
        Ok(DataSourceExec::from_data_source(source))
    }
}

impl MemoryPiece {
    fn push(&mut self, batch: PieceBatch) {
        self.batches.push(batch);
        self.rows += batch.rows;
    }

    fn append(&mut self, other: Self) {
        self.batches.extend(other.batches);
        self.rows += other.rows;
    }
}

/// The mean length of a value of text; 0 for other types.
fn text_bytes(array: &ArrayRef) -> u64 {
    fn between<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> u64 {
        let ends = [offsets.first(), offsets.last()];
        let [first, last] = ends.map(|end| end.map_or(0, |end| end.as_usize()));
        (last - first) as u64
    }
    fn viewed(views: &[u128]) -> u64 {
        let views = &views[..views.len().min(SAMPLED_VIEWS)];
        let bytes: u64 = views.iter().map(|view| u64::from(*view as u32)).sum();
        bytes.div_ceil(views.len().max(1) as u64)
    }
    let bytes: u64 = match array.data_type() {
        DataType::Utf8View => return viewed(array.as_string_view().views()),
        DataType::BinaryView => return viewed(array.as_binary_view().views()),
        DataType::Utf8 => between(array.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => between(array.as_string::<i64>().offsets()),
        DataType::Binary => between(array.as_binary::<i32>().offsets()),
        DataType::LargeBinary => between(array.as_binary::<i64>().offsets()),
        _ => 0,
    };
    bytes.div_ceil(array.len().max(1) as u64)
}

/// A column of a piece.
pub(crate) struct MemoryColumn<'a> {
    table: &'a MemoryTable,
    piece: &'a MemoryPiece,
    column: usize,
}

impl MemoryColumn<'_> {
    fn parts(&self) -> impl Iterator<Item = ArrayRows<'_>> {
        let column = self.table.column_of_batches(self.column);
        let batches = self.table.batches(self.piece);
        batches.map(move |(batch, of)| ArrayRows {
            array: batch.column(column),
            from: of.from,
            rows: of.rows,
        })
    }
}

impl WantedColumn for MemoryColumn<'_> {
    fn name(&self) -> &str {
        self.table.schema.field(self.column).name()
    }

    fn is_in_files(&self) -> bool {
        false
    }

    fn handle(&self) -> Option<ColumnHandle> {
        ArraysHandle::of(self.parts()).map(ColumnHandle::Arrays)
    }

    fn key(&self) -> ColumnKey {
        ColumnKey::Arrays(ArraysKey::of(self.parts()))
    }

    fn has_key(&self, key: &ColumnKey) -> bool {
        matches!(key, ColumnKey::Arrays(key) if key.is_of(self.parts()))
    }

    fn arrays(&self) -> Option<Vec<ArrayRef>> {
        Some(self.parts().map(|part| part.sliced()).collect())
    }
}
