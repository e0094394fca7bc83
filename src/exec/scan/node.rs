//! [`ScanOperator`]: reads a table whose columns stay on the device between queries. In: a scan of DataFusion. Out: its rows as chunks.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryStreamExt, stream};

use crate::device::data::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::exec::blocking::blocking_task;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::metrics::ScanMetrics;
use crate::exec::node::{DeviceOperator, Execution};
use crate::exec::scan::memory_table::{MemoryTable, Piece};
use crate::exec::transfer::chunk_limits::{ChunkLimits, Role};
use crate::exec::transfer::chunker::has_small_dictionary;
use crate::exec::transfer::upload::UploadOperator;
use crate::options::BowtieOptions;
use crate::runtime::planned_device::PlannedDevice;
use crate::spec::join::SideInput;
use crate::store::column_store::{ColumnStore, Found, Scan};

/// Reads a table piece by piece.
///
/// ```text
/// piece ─► stored in whole ───────────────────► resident
///          └─ room for its missing columns ─► upload, store ─► resident
///             └─ no room ─► staged on the host, after the others (`exec/transfer/upload.rs`)
/// ```
#[derive(Debug)]
pub(crate) struct ScanOperator {
    pub(crate) table: Arc<MemoryTable>,
    /// What the reader does with the chunks.
    pub(crate) role: Role,
}

impl DeviceOperator for ScanOperator {
    fn name(&self) -> &'static str {
        "BowtieScanExec"
    }

    fn arity(&self) -> Option<usize> {
        Some(0)
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let fields = self.table.schema().fields().iter();
        let columns: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        let columns = columns.join(", ");
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "device={device}, columns=[{columns}]")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                writeln!(f, "columns={columns}")
            }
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(self.table.schema()))
    }

    fn emission(&self, _: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        (EmissionType::Incremental, Boundedness::Bounded)
    }

    fn statistics(&self, _: Option<&Statistics>) -> Option<Result<Statistics>> {
        let mut statistics = Statistics::new_unknown(self.table.schema());
        statistics.num_rows = Precision::Exact(self.table.rows());
        Some(Ok(statistics))
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let device = &execution.device;
        let store = execution.planned.store(device.as_ref())?;
        let options = BowtieOptions::of(execution.context.session_config().options());
        let (pieces, kept) = pieces_of(&self.table, device.as_ref(), &execution.context)?;
        let (pieces, rest) = match kept {
            true => (pieces, vec![]),
            false => (vec![], pieces),
        };
        let pieces = Pieces {
            scan: store.begin_scan(cache_bytes(&options, execution.planned, device.as_ref())),
            store,
            device: Arc::clone(device),
            planned: Arc::clone(execution.planned),
            context: Arc::clone(&execution.context),
            table: Arc::clone(&self.table),
            role: self.role,
            metrics: ScanMetrics::new(execution.metrics),
            of_uploads: execution.metrics.clone(),
            pieces: pieces.into_iter(),
            rest,
        };
        let resident = stream::try_unfold(pieces, Pieces::next);
        Ok(resident.try_flatten().boxed())
    }
}

/// The pieces of a scan that are still to be read.
struct Pieces {
    store: Arc<ColumnStore>,
    scan: Scan,
    device: Arc<dyn Device>,
    planned: Arc<PlannedDevice>,
    context: Arc<TaskContext>,
    table: Arc<MemoryTable>,
    role: Role,
    metrics: ScanMetrics,
    of_uploads: ExecutionPlanMetricsSet,
    pieces: std::vec::IntoIter<Piece>,
    /// Those without room in the store.
    rest: Vec<Piece>,
}

impl Pieces {
    async fn next(mut self) -> Result<Option<(DeviceStream, Self)>> {
        while let Some(piece) = self.pieces.next() {
            if let Some(batch) = self.read(&piece).await? {
                let chunk = stream::iter([Ok(DeviceChunk::Resident(batch))]);
                return Ok(Some((chunk.boxed(), self)));
            }
            self.rest.push(piece);
        }
        match std::mem::take(&mut self.rest) {
            rest if rest.is_empty() => Ok(None),
            rest => Ok(Some((self.staged(&rest)?, self))),
        }
    }

    /// A piece on the device; `None` if there is no room for it in the store.
    async fn read(&self, piece: &Piece) -> Result<Option<DeviceBatch>> {
        let on = self.device.as_ref();
        let found = self
            .store
            .hits(on, &self.scan, &self.table.columns(piece))?;
        let found = match found {
            Some(found) => Some(found),
            None => self.load(piece.clone()).await?,
        };
        let Some(found) = found else {
            return Ok(None);
        };
        self.metrics.resident_bytes.add(found.hit_bytes as usize);
        self.metrics.uploaded_bytes.add(found.sent_bytes as usize);
        self.metrics.baseline.record_output(piece.rows);
        let columns = found.columns.into_iter().map(Some).collect();
        Ok(Some(DeviceBatch::new(piece.rows, columns)))
    }

    async fn load(&self, piece: Piece) -> Result<Option<Found>> {
        let (store, scan) = (Arc::clone(&self.store), self.scan.clone());
        let (device, table) = (Arc::clone(&self.device), Arc::clone(&self.table));
        let _timer = self.metrics.upload_time.timer();
        blocking_task(move || {
            let on = device.as_ref();
            step::shared(on, OnRefusal::Defer, |_| {
                store.load(on, &scan, &table.columns(&piece))
            })
        })
        .await
    }

    /// The rows of some pieces, as an upload stages them.
    fn staged(&self, pieces: &[Piece]) -> Result<DeviceStream> {
        let partitions = self.context.session_config().target_partitions();
        let input = self.table.scan_of(pieces, partitions)?;
        let upload = UploadOperator {
            columns: SideInput::new(Arc::clone(self.table.schema())),
            role: self.role,
        };
        upload.execute(Execution {
            inputs: &[input],
            device: Arc::clone(&self.device),
            planned: &self.planned,
            context: Arc::clone(&self.context),
            metrics: &self.of_uploads,
        })
    }
}

/// The most bytes of stored columns for a session with these options.
pub(crate) fn cache_bytes(
    options: &BowtieOptions,
    planned: &PlannedDevice,
    opened: &dyn Device,
) -> u64 {
    options
        .cache
        .bytes(planned.is_gpu(), opened.budget().limit())
}

/// Rows are not stored if fewer of them fit a chunk.
const LEAST_ROWS: u64 = 8;

/// The pieces of a table; whether its columns may stay on the device.
pub(crate) fn pieces_of(
    table: &MemoryTable,
    device: &dyn Device,
    context: &TaskContext,
) -> Result<(Vec<Piece>, bool)> {
    let options = BowtieOptions::of(context.session_config().options());
    let (schema, pool) = (table.schema(), context.memory_pool());
    let limits = ChunkLimits::new(
        device,
        schema,
        options.chunk_rows.0,
        Role::Left,
        pool.as_ref(),
    );
    // As of other chunks, so that eight of them fit.
    let by_bytes = device.budget().limit() / 8 / table.row_bytes()?;
    let most_rows = limits.most_rows.min(device.profile().stored_rows);
    let (most_rows, rows_fit) = match by_bytes {
        // Longer rows are cut by their upload.
        ..LEAST_ROWS => (most_rows, false),
        by_bytes => (most_rows.min(by_bytes as usize), true),
    };
    // The values of several batches may overflow small keys of dictionaries.
    let keeps = |data_type| device.keeps(data_type) && !has_small_dictionary(data_type);
    let kept = rows_fit && schema.fields().iter().all(|field| keeps(field.data_type()));
    Ok((table.pieces(most_rows)?, kept))
}

/// The scan on the device that stands for `plan`; `None` for a node whose columns cannot stay, or have more than `most` bytes.
pub(crate) fn scan_of(
    plan: &Arc<dyn ExecutionPlan>,
    role: Role,
    most: u64,
) -> Option<ScanOperator> {
    let table = MemoryTable::of(plan)?;
    let mut fields = table.schema().fields().iter();
    let may_stay = fields.all(|field| {
        let data_type = field.data_type();
        !data_type.is_nested() && !has_small_dictionary(data_type)
    });
    let fits = || most == u64::MAX || table.bytes().is_ok_and(|bytes| bytes <= most);
    (may_stay && fits()).then(|| ScanOperator {
        table: Arc::new(table),
        role,
    })
}
