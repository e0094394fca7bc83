//! [`Table`]: what a scan reads, in memory or in Parquet files, cut to [`Piece`]s whose columns a store keeps.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
#[cfg(feature = "parquet")]
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;

use crate::device::primitives::device::Device;
use crate::exec::metrics::ReadMetrics;
use crate::exec::scan::limits::{PieceLimits, pieces_in};
use crate::exec::scan::memory_table::{MemoryColumn, MemoryPiece, MemoryTable};
#[cfg(feature = "parquet")]
use crate::exec::scan::parquet::{
    piece::{ParquetColumn, ParquetPiece},
    pieces::{self, ParquetPieces},
    table::ParquetTable,
};
use crate::exec::scan::read_columns::ReadColumns;
use crate::exec::scan::scan_filter::ScanFilter;
use crate::exec::transfer::chunker::has_small_dictionary;
use crate::store::column_key::{ColumnHandle, ColumnKey, CurrentFiles, TableColumns};
use crate::store::scan::WantedColumn;

/// What a scan reads.
#[derive(Debug, Clone)]
pub(crate) enum Table {
    Memory(Arc<MemoryTable>),
    #[cfg(feature = "parquet")]
    Parquet(Arc<ParquetTable>),
}

/// The pieces of a table.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Those that may be stored.
    pub stored: Vec<Piece>,
    /// Those that are read for each query.
    pub others: Vec<Piece>,
    /// Rows of pieces that have none for the scan, as statistics say.
    pub pruned_rows: usize,
    /// The versions of the table's files.
    pub files: CurrentFiles,
}

#[cfg(feature = "parquet")]
impl From<ParquetPieces> for Pieces {
    fn from(pieces: ParquetPieces) -> Self {
        let in_files = |pieces: Vec<ParquetPiece>| {
            let pieces = pieces.into_iter();
            pieces.map(|piece| Piece::Parquet(Arc::new(piece)))
        };
        let unread = pieces.unread.into_iter();
        let unread = unread.map(|file| Piece::UnreadFile(Arc::new(file)));
        Self {
            stored: in_files(pieces.stored).collect(),
            others: unread.chain(in_files(pieces.others)).collect(),
            pruned_rows: pieces.pruned_rows,
            files: pieces.files,
        }
    }
}

impl Table {
    /// What `plan` reads, if that can be stored.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        #[cfg(feature = "parquet")]
        if let Some(table) = ParquetTable::of(plan) {
            return Some(Self::Parquet(Arc::new(table)));
        }
        MemoryTable::of(plan).map(|table| Self::Memory(Arc::new(table)))
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        match self {
            Self::Memory(table) => table.schema(),
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.schema(),
        }
    }

    pub(crate) fn filter(&self) -> Option<&ScanFilter> {
        match self {
            Self::Memory(_) => None,
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.filter(),
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::new_unknown(self.schema());
        statistics.num_rows = match self {
            Self::Memory(table) => Precision::Exact(table.rows()),
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.rows(),
        };
        statistics
    }

    /// Bytes of all columns of the scan, approximately.
    pub(crate) fn bytes(&self) -> Result<u64> {
        match self {
            Self::Memory(table) => table.bytes(),
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => Ok(table.bytes()),
        }
    }

    /// The number of its pieces on a device of `memory` bytes, approximately.
    pub(crate) fn pieces_on(&self, memory: u64) -> Result<u64> {
        match self {
            Self::Memory(table) => Ok(pieces_in(memory, table.rows() as u64, table.row_bytes()?)),
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => Ok(pieces_in(memory, 1, table.bytes_of_files())),
        }
    }

    pub(crate) fn is_in_files(&self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    /// The mean length of the values of a column, if it is text whose length is known: by the first values in memory, by the least and greatest
    /// value of files.
    pub(crate) fn text_length(&self, column: usize) -> Option<u64> {
        match self {
            Self::Memory(table) => table.text_length(column),
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.text_length(column),
        }
    }

    /// Whether the values of a column of text repeat: the first ones in memory, those of files by their statistics.
    pub(crate) fn repeats(&self, column: usize) -> bool {
        match self {
            Self::Memory(table) => table.repeats(column),
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.repeats(column),
        }
    }

    /// Rows from all of a table in memory; none of files, of which nothing is read.
    pub(crate) fn sample(&self) -> Vec<RecordBatch> {
        match self {
            Self::Memory(table) => table.sample(),
            #[cfg(feature = "parquet")]
            Self::Parquet(_) => vec![],
        }
    }

    /// About how many distinct values a column of text has, where files tell.
    pub(crate) fn distinct_values(&self, column: usize) -> Option<f64> {
        match self {
            Self::Memory(_) => None,
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.distinct_values(column),
        }
    }

    /// Its files as EXPLAIN shows them.
    pub(crate) fn files(&self) -> Option<String> {
        match self {
            Self::Memory(_) => None,
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => Some(table.shown_files()),
        }
    }

    /// What may be stored of its columns.
    pub(crate) fn stored_as(&self) -> Vec<TableColumns> {
        match self {
            Self::Memory(table) => vec![table.stored_as()],
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.stored_as(),
        }
    }

    /// All its rows in pieces.
    ///
    /// # Errors
    /// If a file cannot be found or read, except for one that DataFusion's own scan may read.
    pub(crate) async fn pieces(
        &self,
        device: &dyn Device,
        context: &Arc<TaskContext>,
    ) -> Result<Pieces> {
        let limits = PieceLimits::new(device, context);
        // The values of several batches may overflow small keys of dictionaries.
        let keeps = |data_type| device.keeps(data_type) && !has_small_dictionary(data_type);
        let mut fields = self.schema().fields().iter();
        let kept = fields.all(|field| keeps(field.data_type()));
        match self {
            Self::Memory(table) => {
                let (pieces, fit) = table.pieces(limits)?;
                let pieces = pieces.into_iter();
                let pieces = pieces.map(|piece| Piece::Memory(Arc::clone(table), piece));
                let (stored, others) = match kept && fit {
                    true => (pieces.collect(), vec![]),
                    false => (vec![], pieces.collect()),
                };
                Ok(Pieces {
                    stored,
                    others,
                    ..Pieces::default()
                })
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => match kept {
                true => Ok(pieces::of(table, limits, context).await?.into()),
                false => Ok(ParquetPieces::unread(table).into()),
            },
        }
    }

    /// A scan by DataFusion of these pieces alone.
    pub(crate) fn scan_of(
        &self,
        pieces: &[Piece],
        context: &TaskContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self {
            Self::Memory(table) => {
                let pieces: Vec<&MemoryPiece> =
                    pieces.iter().filter_map(Piece::in_memory).collect();
                // The rows of one partition keep their order.
                let partitions = match table.has_one_partition() {
                    true => 1,
                    false => context.session_config().target_partitions(),
                };
                table.scan_of(&pieces, partitions)
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => {
                let (mut parts, mut files) = (vec![], vec![]);
                for piece in pieces {
                    match piece {
                        Piece::Memory(..) => {}
                        Piece::Parquet(piece) => parts.push(piece.as_ref()),
                        Piece::UnreadFile(file) => files.push(file.as_ref()),
                    }
                }
                pieces::scan_of(table, &parts, &files, context)
            }
        }
    }
}

/// A part of a table, whose rows are one chunk.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Memory(Arc<MemoryTable>, MemoryPiece),
    #[cfg(feature = "parquet")]
    Parquet(Arc<ParquetPiece>),
    /// A file that is not looked into.
    #[cfg(feature = "parquet")]
    UnreadFile(Arc<PartitionedFile>),
}

impl Piece {
    fn in_memory(&self) -> Option<&MemoryPiece> {
        match self {
            Self::Memory(_, piece) => Some(piece),
            #[cfg(feature = "parquet")]
            _ => None,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Memory(_, piece) => piece.rows,
            #[cfg(feature = "parquet")]
            Self::Parquet(piece) => piece.rows,
            #[cfg(feature = "parquet")]
            Self::UnreadFile(_) => 0,
        }
    }

    /// Whether the values of its columns have to be read before they are uploaded.
    pub(crate) fn is_in_files(&self) -> bool {
        !matches!(self, Self::Memory(..))
    }

    /// Its columns; those in files have the values that were `read`.
    pub(crate) fn columns<'a>(&'a self, read: &'a ReadColumns) -> Vec<PieceColumn<'a>> {
        match self {
            Self::Memory(table, piece) => {
                let columns = table.columns(piece).into_iter();
                columns.map(PieceColumn::Memory).collect()
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(piece) => {
                let columns = piece.columns(read).into_iter();
                columns.map(PieceColumn::Parquet).collect()
            }
            #[cfg(feature = "parquet")]
            Self::UnreadFile(_) => vec![],
        }
    }

    /// Bytes of some of its columns in files, approximately.
    pub(crate) fn bytes_of(&self, columns: &[usize]) -> u64 {
        match self {
            Self::Memory(..) => 0,
            #[cfg(feature = "parquet")]
            Self::Parquet(piece) => piece.bytes_of(columns),
            #[cfg(feature = "parquet")]
            Self::UnreadFile(_) => 0,
        }
    }

    /// Reads some of its columns; `None` if there is no memory for them, they cannot be read, or the files have changed.
    pub(crate) async fn read(
        &self,
        columns: Vec<usize>,
        context: Arc<TaskContext>,
        metrics: ReadMetrics,
    ) -> Result<Option<ReadColumns>> {
        match self {
            Self::Memory(..) => Ok(Some(ReadColumns::default())),
            #[cfg(feature = "parquet")]
            Self::Parquet(piece) => piece.read(columns, context, metrics).await,
            #[cfg(feature = "parquet")]
            Self::UnreadFile(_) => Ok(None),
        }
    }
}

/// A column of a piece.
pub(crate) enum PieceColumn<'a> {
    Memory(MemoryColumn<'a>),
    #[cfg(feature = "parquet")]
    Parquet(ParquetColumn<'a>),
}

impl WantedColumn for PieceColumn<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Memory(column) => column.name(),
            #[cfg(feature = "parquet")]
            Self::Parquet(column) => column.name(),
        }
    }

    fn is_in_files(&self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    fn handle(&self) -> Option<ColumnHandle> {
        match self {
            Self::Memory(column) => column.handle(),
            #[cfg(feature = "parquet")]
            Self::Parquet(column) => column.handle(),
        }
    }

    fn key(&self) -> ColumnKey {
        match self {
            Self::Memory(column) => column.key(),
            #[cfg(feature = "parquet")]
            Self::Parquet(column) => column.key(),
        }
    }

    fn has_key(&self, key: &ColumnKey) -> bool {
        match self {
            Self::Memory(column) => column.has_key(key),
            #[cfg(feature = "parquet")]
            Self::Parquet(column) => column.has_key(key),
        }
    }

    fn arrays(&self) -> Option<Vec<ArrayRef>> {
        match self {
            Self::Memory(column) => column.arrays(),
            #[cfg(feature = "parquet")]
            Self::Parquet(column) => column.arrays(),
        }
    }
}
