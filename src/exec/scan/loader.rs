//! [`Loader`]: brings pieces of a table to a device, by its store. What is missing of a piece in files is read ahead.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_plan::metrics::Time;

use crate::device::primitives::device::Device;
use crate::exec::blocking::{blocking_task, spawn};
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::metrics::ReadMetrics;
use crate::exec::scan::read_columns::ReadColumns;
use crate::exec::scan::table::{Piece, PieceColumn};
use crate::store::column_store::{ColumnStore, Held};
use crate::store::scan::{ForScan, Scan};
use crate::store::scan_columns::ScanColumns;

/// The most pieces that are read at the same time. One of them is uploaded meanwhile.
pub(crate) const READ_AHEAD: usize = 2;
/// Pieces that are read ahead take at most this share of DataFusion's memory pool together.
const SHARE_OF_POOL: u64 = 4;

/// What pieces are loaded with.
#[derive(Debug, Clone)]
pub(crate) struct Loader {
    pub(crate) store: Arc<ColumnStore>,
    pub(crate) scan: Scan,
    pub(crate) device: Arc<dyn Device>,
    /// The handle that uploads columns without room in the store, beside the work of `device`; opened for the first of them.
    pub(crate) for_scan: Arc<OnceLock<Arc<dyn Device>>>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) metrics: ReadMetrics,
    pub(crate) upload_time: Time,
}

/// A piece with its columns on the device; `None` if there is no room for them in the store.
pub(crate) type Loaded = (Piece, Option<ScanColumns>);

/// A piece whose columns are being read.
pub(crate) struct StartedPiece {
    pub(crate) piece: Piece,
    /// Stored columns of it, which are not evicted until it is loaded.
    held: Vec<Option<Held>>,
    reading: Reading,
}

enum Reading {
    /// All there is to upload is in memory.
    Nothing,
    NoRoom,
    Task(SpawnedTask<Result<Option<ReadColumns>>>),
}

impl Loader {
    /// Begins to read what is not stored of a piece, if there may be room for it.
    pub(crate) fn begin(&self, piece: Piece) -> StartedPiece {
        let mut started = StartedPiece {
            piece,
            held: vec![],
            reading: Reading::Nothing,
        };
        if !started.piece.is_in_files() {
            return started;
        }
        started.held = self
            .store
            .held(&started.piece.columns(&ReadColumns::default()));
        let missing = started.held.iter().enumerate();
        let missing = missing.filter(|(_, column)| column.is_none());
        let missing: Vec<usize> = missing.map(|(i, _)| i).collect();
        if missing.is_empty() {
            return started;
        }
        let bytes = started.piece.bytes_of(&missing);
        // Codes take about half of the bytes of values.
        let has_room = self.store.may_add(&self.scan, bytes)
            || self.store.may_add_on_host(&self.scan, bytes / 2);
        started.reading = match has_room {
            false => Reading::NoRoom,
            true => {
                let (piece, context) = (started.piece.clone(), Arc::clone(&self.context));
                let metrics = self.metrics.clone();
                Reading::Task(spawn(
                    async move { piece.read(missing, context, metrics).await },
                ))
            }
        };
        started
    }

    /// Whether the memory pool has room to read a piece ahead of others.
    pub(crate) fn may_read_ahead(&self, piece: &Piece) -> bool {
        let all: Vec<usize> = (0..piece.columns(&ReadColumns::default()).len()).collect();
        match self.context.memory_pool().memory_limit() {
            MemoryLimit::Finite(limit) => {
                let pieces = piece.bytes_of(&all).saturating_mul(READ_AHEAD as u64);
                pieces <= limit as u64 / SHARE_OF_POOL
            }
            _ => true,
        }
    }

    /// Uploads what is missing of a piece.
    pub(crate) async fn finish(&self, started: StartedPiece) -> Result<Loaded> {
        let StartedPiece {
            piece,
            held,
            reading,
        } = started;
        let read = match reading {
            Reading::NoRoom => return Ok((piece, None)),
            Reading::Task(task) => {
                let read = task.join_unwind().await;
                match read.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?? {
                    Some(read) => read,
                    None => return Ok((piece, None)),
                }
            }
            Reading::Nothing => {
                let nothing = ReadColumns::default();
                let on = self.device.as_ref();
                let hits = self.store.hits(on, &self.scan, &piece.columns(&nothing))?;
                if hits.is_some() {
                    return Ok((piece, hits));
                }
                nothing
            }
        };
        let (loader, of) = (self.clone(), piece.clone());
        let _timer = self.upload_time.timer();
        let found = blocking_task(move || {
            let found = loader.upload(&of.columns(&read));
            drop(held);
            found
        });
        Ok((piece, found.await?))
    }

    fn upload(&self, columns: &[PieceColumn<'_>]) -> crate::error::Result<Option<ScanColumns>> {
        let (on, store) = (self.device.as_ref(), &self.store);
        let open = || self.open_for_scan();
        let for_scan: Option<ForScan<'_>> = match self.scan.host {
            None => None,
            Some(_) => Some(&open),
        };
        step::shared(on, OnRefusal::Defer, |_| {
            store.load(on, for_scan, &self.scan, columns)
        })
    }

    fn open_for_scan(&self) -> crate::error::Result<Arc<dyn Device>> {
        if let Some(open) = self.for_scan.get() {
            return Ok(Arc::clone(open));
        }
        let budget = self.device.budget().child();
        let open = self
            .device
            .attach(budget, Arc::new(AtomicBool::new(false)))?;
        Ok(Arc::clone(self.for_scan.get_or_init(|| open)))
    }

    /// Reads and uploads what is missing of a piece.
    pub(crate) async fn load(&self, piece: Piece) -> Result<Loaded> {
        self.finish(self.begin(piece)).await
    }
}
