//! [`ParquetPieces`]: the files of a scan as they are when a query begins, in pieces.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, stream};

use crate::exec::scan::limits::PieceLimits;
use crate::exec::scan::parquet::file::{Files, ParquetFile};
use crate::exec::scan::parquet::piece::{ParquetPiece, Part, cut};
use crate::exec::scan::parquet::prune::may_match;
use crate::exec::scan::parquet::source::ScannedFile;
use crate::exec::scan::parquet::table::ParquetTable;
use crate::store::column_key::CurrentFiles;
use crate::store::file_key::{FilePlace, StoreId};

/// Files whose versions and footers are asked for at the same time.
const FILES_AT_ONCE: usize = 32;

/// The pieces of some files.
#[derive(Debug, Default)]
pub(crate) struct ParquetPieces {
    /// Those that may be stored.
    pub(crate) stored: Vec<ParquetPiece>,
    /// Those that are read for each query.
    pub(crate) others: Vec<ParquetPiece>,
    /// Files, or parts of them, that are not looked into: DataFusion's own scan reads them, or says why it cannot.
    pub(crate) unread: Vec<PartitionedFile>,
    /// Rows of pieces that statistics exclude.
    pub(crate) pruned_rows: usize,
    pub(crate) files: CurrentFiles,
}

impl ParquetPieces {
    /// No piece that is stored.
    pub(crate) fn unread(table: &ParquetTable) -> Self {
        Self {
            unread: unread(&table.source().files),
            ..Self::default()
        }
    }
}

/// What DataFusion's own scan reads of files.
fn unread(files: &[ScannedFile]) -> Vec<PartitionedFile> {
    let files = files.iter();
    files.flat_map(ScannedFile::partitioned_files).collect()
}

/// The pieces of a table.
///
/// # Errors
/// If its object store is not known.
pub(crate) async fn of(
    table: &Arc<ParquetTable>,
    limits: PieceLimits,
    context: &Arc<TaskContext>,
) -> Result<ParquetPieces> {
    let url = table.source().url();
    let store = context.runtime_env().object_store(url)?;
    let files = Files {
        id: StoreId::new(url.as_str(), &store),
        store,
    };
    let opened = stream::iter(table.source().files.clone()).map(|file| {
        let (files, table) = (files.clone(), Arc::clone(table));
        async move {
            let opened = files.open(table.source(), &file).await;
            (file, opened)
        }
    });
    let mut opened = opened.buffered(FILES_AT_ONCE);
    let (mut known, mut pieces) = (vec![], ParquetPieces::default());
    while let Some((file, opened)) = opened.next().await {
        match opened {
            Some(file) => known.push(Arc::new(file)),
            None => pieces.unread.extend(file.partitioned_files()),
        }
    }
    let versions = known.iter();
    let versions = versions.map(|file| (file.version.place(), Arc::clone(&file.version)));
    pieces.files = versions.collect();
    let matching = Matching::of(table, &known);
    let cut = cut(&known, limits);
    for parts in cut.stored {
        let piece = ParquetPiece::stored(table, &files, parts);
        match matching.has_any_of(&piece.parts) {
            true => pieces.stored.push(piece),
            false => pieces.pruned_rows += piece.rows,
        }
    }
    let others = cut.others.into_iter();
    let others = others.map(|parts| ParquetPiece::other(table, &files, parts));
    pieces.others = others.collect();
    Ok(pieces)
}

/// For each file the row groups that may have a row for the scan's predicate; `None` without one.
struct Matching(Option<HashMap<FilePlace, Vec<bool>>>);

impl Matching {
    fn of(table: &ParquetTable, files: &[Arc<ParquetFile>]) -> Self {
        let source = table.source();
        let predicate = source.predicate.as_ref();
        Self(predicate.map(|predicate| {
            let groups = |file: &Arc<ParquetFile>| may_match(source, file, predicate);
            let files = files.iter();
            files
                .map(|file| (file.version.place(), groups(file)))
                .collect()
        }))
    }

    fn has_any_of(&self, parts: &[Part]) -> bool {
        let Some(files) = &self.0 else {
            return true;
        };
        parts.iter().any(|part| {
            let groups = files.get(&part.file.version.place());
            groups.is_none_or(|groups| groups[part.row_groups.clone()].contains(&true))
        })
    }
}

/// A scan by DataFusion of these pieces and files alone, with the original one's predicate.
pub(crate) fn scan_of(
    table: &ParquetTable,
    pieces: &[&ParquetPiece],
    files: &[&PartitionedFile],
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let parts = pieces.iter().flat_map(|piece| piece.partitioned_files());
    let files = files.iter().map(|file| (*file).clone());
    let files: Vec<PartitionedFile> = files.chain(parts).collect();
    let config = context.session_config();
    let partitions = config.target_partitions().max(1);
    let each = files.len().div_ceil(partitions).max(1);
    let groups = files.chunks(each).map(<[PartitionedFile]>::to_vec);
    let groups = groups.map(FileGroup::new).collect();
    let scan = table
        .source()
        .scan_with_predicate(groups, table.columns())?;
    let split = scan.repartitioned(partitions, config.options())?;
    Ok(split.unwrap_or(scan))
}
