//! [`ScanOperator`]: reads a table whose columns stay on the device between queries. In: a scan of DataFusion. Out: its rows as chunks.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryStreamExt, stream};

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::batches::encoded_column::EncodedColumn;
use crate::device::primitives::device::Device;
use crate::exec::blocking::spawn;
use crate::exec::chunk::chunk_limits::Role;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::metrics::{ReadMetrics, ScanMetrics};
use crate::exec::node::{DeviceOperator, Execution};
use crate::exec::scan::limits::most_bytes;
use crate::exec::scan::loader::{Loaded, Loader, READ_AHEAD, StartedPiece};
use crate::exec::scan::table::{Piece, Table};
use crate::exec::transfer::chunker::has_small_dictionary;
use crate::exec::transfer::upload::UploadOperator;
use crate::options::BowtieOptions;
use crate::runtime::host_memory::host_cache_bytes;
use crate::runtime::planned_device::PlannedDevice;
use crate::spec::join::SideInput;
use crate::spec::operator_kind::OperatorKind;
use crate::store::scan::HostShare;

/// Reads a table piece by piece.
///
/// ```text
/// piece ─► stored in whole ───────────────────────────────────────────────► resident
///          └─ room for its missing columns ─► read (files), upload, store ─► resident
///             └─ room in host memory ─► the same, but for this scan alone ──► resident
///                └─ no room ─► staged on the host, after the others (`exec/transfer/upload.rs`)
/// ```
#[derive(Debug)]
pub(crate) struct ScanOperator {
    pub(crate) table: Table,
    /// What the reader does with the chunks.
    pub(crate) role: Role,
}

impl DeviceOperator for ScanOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::Scan
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
        let files = self.table.files();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "device={device}, columns=[{columns}]")?;
                files.map_or(Ok(()), |files| write!(f, ", files={files}"))
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                writeln!(f, "columns={columns}")?;
                files.map_or(Ok(()), |files| writeln!(f, "files={files}"))
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
        Some(Ok(self.table.statistics()))
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let device = &execution.device;
        let store = execution.planned.store(device.as_ref())?;
        let options = BowtieOptions::of(execution.context.session_config().options());
        let cache = cache_bytes(&options, execution.planned, device.as_ref());
        let metrics = ScanMetrics::new(execution.metrics);
        let loader = Loader {
            upload_time: metrics.upload_time.clone(),
            scan: store.begin_scan(cache, host_share(&options, &execution)),
            store,
            device: Arc::clone(device),
            for_scan: Arc::new(OnceLock::new()),
            context: Arc::clone(&execution.context),
            metrics: match self.table.files() {
                Some(_) => ReadMetrics::new(execution.metrics),
                None => ReadMetrics::new(&ExecutionPlanMetricsSet::new()),
            },
        };
        let run = Run {
            loader,
            planned: Arc::clone(execution.planned),
            table: self.table.clone(),
            role: self.role,
            metrics,
            of_uploads: execution.metrics.clone(),
            pieces: VecDeque::new(),
            begun: VecDeque::new(),
            ahead: None,
            rest: vec![],
            behind: None,
        };
        let chunks = stream::once(run.open())
            .map_ok(|run| stream::try_unfold(run, Run::next))
            .try_flatten();
        Ok(chunks.try_flatten().boxed())
    }
}

/// The pieces of a scan that are still to be read.
struct Run {
    loader: Loader,
    planned: Arc<PlannedDevice>,
    table: Table,
    role: Role,
    metrics: ScanMetrics,
    of_uploads: ExecutionPlanMetricsSet,
    pieces: VecDeque<Piece>,
    /// The next ones, which are being read.
    begun: VecDeque<StartedPiece>,
    /// The next one, which is being uploaded.
    ahead: Option<SpawnedTask<Result<Loaded>>>,
    /// Those without room in the store.
    rest: Vec<Piece>,
    /// A piece in memory that comes behind them.
    behind: Option<DeviceBatch>,
}

impl Run {
    /// Cuts the table to pieces.
    async fn open(mut self) -> Result<Self> {
        let (device, context) = (&self.loader.device, &self.loader.context);
        let pieces = self.table.pieces(device.as_ref(), context).await?;
        self.loader.store.remove_older(&pieces.files);
        self.loader.metrics.pruned_rows.add(pieces.pruned_rows);
        self.pieces = pieces.stored.into();
        self.rest = pieces.others;
        Ok(self)
    }

    async fn next(mut self) -> Result<Option<(DeviceStream, Self)>> {
        if let Some(batch) = self.behind.take() {
            return Ok(Some((resident(batch), self)));
        }
        while let Some((piece, found)) = self.next_piece().await? {
            let Some(found) = found else {
                self.rest.push(piece);
                continue;
            };
            if found.sent_bytes > 0 {
                self.load_ahead();
            }
            self.metrics.resident_bytes.add(found.hit_bytes as usize);
            self.metrics.uploaded_bytes.add(found.sent_bytes as usize);
            self.metrics.host_cache_bytes.add(found.host_bytes as usize);
            self.metrics.baseline.record_output(piece.rows());
            let columns = found.columns.into_iter().map(|kept| match kept.encoding {
                None => BatchColumn::Values(kept.column),
                Some(encoding) => {
                    let device = Arc::clone(&self.loader.device);
                    let encoded = EncodedColumn::new(kept.column, encoding, device);
                    let encoded = encoded.with_blocks(kept.blocks);
                    BatchColumn::Encoded(Arc::new(encoded))
                }
            });
            let batch = DeviceBatch::of(piece.rows(), columns);
            // The rows of a table in memory stay in their order.
            let rest = match self.table.is_in_files() {
                true => vec![],
                false => std::mem::take(&mut self.rest),
            };
            if rest.is_empty() {
                return Ok(Some((resident(batch), self)));
            }
            self.behind = Some(batch);
            return Ok(Some((self.staged(&rest)?, self)));
        }
        match std::mem::take(&mut self.rest) {
            rest if rest.is_empty() => Ok(None),
            rest => Ok(Some((self.staged(&rest)?, self))),
        }
    }

    /// The next piece with its columns on the device, if there is room for them.
    async fn next_piece(&mut self) -> Result<Option<Loaded>> {
        if let Some(task) = self.ahead.take() {
            let loaded = task.join_unwind().await;
            let loaded = loaded.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??;
            return Ok(Some(loaded));
        }
        match self.begin() {
            Some(begun) => self.loader.finish(begun).await.map(Some),
            None => Ok(None),
        }
    }

    /// Uploads the next piece while the reader works on this one, if memory is not scarce with the longest piece: the reader cannot evict it.
    fn load_ahead(&mut self) {
        let budget = self.loader.device.budget();
        if budget.is_scarce(most_bytes(budget.limit())) {
            return;
        }
        self.ahead = self.begin().map(|begun| {
            let loader = self.loader.clone();
            spawn(async move { loader.finish(begun).await })
        });
    }

    /// The next piece. Those behind it are read meanwhile.
    fn begin(&mut self) -> Option<StartedPiece> {
        while self.begun.len() <= READ_AHEAD
            && let Some(piece) = self.pieces.pop_front()
        {
            if !self.begun.is_empty() && !self.loader.may_read_ahead(&piece) {
                self.pieces.push_front(piece);
                break;
            }
            self.begun.push_back(self.loader.begin(piece));
        }
        self.begun.pop_front()
    }

    /// The rows of some pieces, as an upload stages them.
    fn staged(&self, pieces: &[Piece]) -> Result<DeviceStream> {
        let context = &self.loader.context;
        let input = self.table.scan_of(pieces, context)?;
        let upload = UploadOperator {
            columns: SideInput::new(Arc::clone(self.table.schema())),
            role: self.role,
            of: Arc::clone(&input),
        };
        upload.execute(Execution {
            inputs: &[input],
            device: Arc::clone(&self.loader.device),
            planned: &self.planned,
            context: Arc::clone(context),
            metrics: &self.of_uploads,
        })
    }
}

fn resident(batch: DeviceBatch) -> DeviceStream {
    stream::iter([Ok(DeviceChunk::Resident(batch))]).boxed()
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

/// Host memory for columns without room on the device; `None` if nothing stays.
fn host_share(options: &BowtieOptions, execution: &Execution<'_>) -> Option<HostShare> {
    let pool = execution.context.memory_pool();
    let is_gpu = execution.planned.is_gpu();
    let limit = host_cache_bytes(options, is_gpu, pool.memory_limit());
    (limit > 0).then(|| HostShare {
        limit,
        pool: Arc::clone(pool),
    })
}

/// The scan on the device that stands for `plan`; `None` for a node whose columns cannot stay, or have more than `most` bytes.
pub(crate) fn scan_of(
    plan: &Arc<dyn ExecutionPlan>,
    role: Role,
    most: u64,
) -> Option<ScanOperator> {
    let table = Table::of(plan)?;
    let mut fields = table.schema().fields().iter();
    let may_stay = fields.all(|field| {
        let data_type = field.data_type();
        !data_type.is_nested() && !has_small_dictionary(data_type)
    });
    let fits = || most == u64::MAX || table.bytes().is_ok_and(|bytes| bytes <= most);
    (may_stay && fits()).then_some(ScanOperator { table, role })
}
