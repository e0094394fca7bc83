//! Rows that a device node reads: what uploads staged on the host, and what device nodes below left on the device.
//!
//! ```text
//! BowtieUploadExec ──► Staged ───────────────────────────────────┐
//!                                                                ├──► InputChunk
//! join, filter, … ──► Resident, piece by piece ──► put together ─┘
//!                                     └─ little room ─► downloaded: Staged
//! ```

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

use super::metrics::DeviceMetrics;
use super::spill::Spilling;
use super::spilled_chunk::SpilledChunk;
use super::{DeviceChunk, DeviceStream, as_device};
use crate::column::DeviceBatch;
use crate::device::{Device, Need};
use crate::options::BowtieOptions;
use crate::stream::{
    ChunkLimits, Failures, Parts, Role, StagedChunk, batch_bytes, has_small_dictionary,
};

pub(super) type InputStream = BoxStream<'static, Result<InputChunk>>;

/// Rows that a node reads.
#[derive(Debug)]
pub(super) enum InputChunk {
    Staged(StagedChunk),
    Resident(ResidentChunk),
    /// Of the left side of a join: in a file, as the memory pool had no room.
    Spilled(SpilledChunk),
}

/// Rows on the device. What is asked for on the host comes down once, and is reserved in DataFusion's memory pool.
#[derive(Debug)]
pub(super) struct ResidentChunk {
    batch: DeviceBatch,
    device: Arc<dyn Device>,
    schema: SchemaRef,
    on_host: Mutex<Vec<Option<ArrayRef>>>,
    reservation: Arc<MemoryReservation>,
}

impl ResidentChunk {
    fn array(&self, column: usize) -> crate::error::Result<ArrayRef> {
        let mut on_host = self.on_host.lock();
        if let Some(array) = &on_host[column] {
            return Ok(Arc::clone(array));
        }
        let array = self.device.download(self.batch.column(column)?)?;
        self.reservation
            .try_grow(crate::stream::array_bytes(&array))?;
        on_host[column] = Some(Arc::clone(&array));
        Ok(array)
    }

    /// The same rows on the host.
    fn staged(&self) -> crate::error::Result<StagedChunk> {
        let columns = (0..self.schema.fields().len()).map(|i| Ok(vec![self.array(i)?]));
        Ok(StagedChunk::of_parts(
            self.batch.rows(),
            columns.collect::<crate::error::Result<_>>()?,
            Arc::clone(&self.reservation),
        ))
    }

    fn upload(&self, rows: &Range<usize>, needs: &[Need]) -> crate::error::Result<DeviceBatch> {
        if rows.len() == self.batch.rows() {
            return Ok(self.batch.clone());
        }
        let kept = self.device.sequence(rows.start as u32, rows.len())?;
        let columns = needs.iter().enumerate().map(|(i, need)| {
            Ok(match need.is_any() {
                true => Some(Arc::new(self.device.gather(self.batch.column(i)?, &kept)?)),
                false => None,
            })
        });
        let columns = columns.collect::<crate::error::Result<_>>()?;
        Ok(DeviceBatch::new(rows.len(), columns))
    }
}

impl InputChunk {
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Staged(chunk) => chunk.rows(),
            Self::Resident(chunk) => chunk.batch.rows(),
            Self::Spilled(chunk) => chunk.rows(),
        }
    }

    /// Whether the memory pool has no room for more rows.
    pub(super) fn is_crowded(&self) -> bool {
        matches!(self, Self::Staged(chunk) if chunk.crowded)
    }

    /// Writes rows that wait on the host to a file.
    pub(super) fn spill(self, spilling: &Spilling) -> crate::error::Result<Self> {
        if let Self::Staged(chunk) = &self
            && let Some(spilled) = SpilledChunk::write(chunk, spilling)?
        {
            return Ok(Self::Spilled(spilled));
        }
        Ok(self)
    }

    /// Gives the memory of rows back that are in a file too.
    pub(super) fn unload(&self) {
        if let Self::Spilled(chunk) = self {
            chunk.unload();
        }
    }

    /// Evaluated columns that have no value on some row, and why.
    pub(super) fn failures(&self) -> &Failures {
        match self {
            Self::Staged(chunk) => &chunk.failures,
            Self::Resident(_) => &[],
            Self::Spilled(chunk) => chunk.failures(),
        }
    }

    pub(super) fn reservation(&self) -> Arc<MemoryReservation> {
        match self {
            Self::Staged(chunk) => Arc::clone(&chunk.reservation),
            Self::Resident(chunk) => Arc::clone(&chunk.reservation),
            Self::Spilled(chunk) => chunk.reservation(),
        }
    }

    /// The parts of a column on the host.
    pub(super) fn parts(&self, column: usize) -> crate::error::Result<Parts> {
        Ok(match self {
            Self::Staged(chunk) => chunk.parts(column),
            Self::Resident(chunk) => Arc::new([chunk.array(column)?]),
            Self::Spilled(chunk) => chunk.chunk()?.parts(column),
        })
    }

    /// A column on the host as one array.
    pub(super) fn whole(&self, column: usize) -> crate::error::Result<ArrayRef> {
        match self {
            Self::Staged(chunk) => chunk.whole(column),
            Self::Resident(chunk) => chunk.array(column),
            Self::Spilled(chunk) => chunk.chunk()?.whole(column),
        }
    }

    /// Mean bytes of a value of a column.
    pub(super) fn mean_bytes(&self, column: usize) -> crate::error::Result<u64> {
        match self {
            Self::Staged(chunk) => chunk.mean_bytes(column),
            Self::Resident(chunk) => {
                let bytes = chunk.batch.column(column)?.bytes();
                Ok(bytes.div_ceil(self.rows().max(1) as u64))
            }
            Self::Spilled(chunk) => Ok(chunk.mean_bytes(column)),
        }
    }

    /// Rows `rows` on the device, of which the columns that are needed are there; what is uploaded for it is counted.
    pub(super) fn upload(
        &self,
        device: &dyn Device,
        rows: &Range<usize>,
        needs: &[Need],
        metrics: &DeviceMetrics,
    ) -> crate::error::Result<DeviceBatch> {
        let staged = |chunk: &StagedChunk| {
            let _timer = metrics.upload_time.timer();
            let batch = chunk.upload(device, rows, needs)?;
            metrics.uploaded_bytes.add(batch.bytes() as usize);
            Ok(batch)
        };
        match self {
            Self::Staged(chunk) => staged(chunk),
            Self::Resident(chunk) => chunk.upload(rows, needs),
            Self::Spilled(chunk) => staged(chunk.chunk()?.as_ref()),
        }
    }

    /// Takes rows on the device to the host, so that there is room for work; false when they were there already, or when the
    /// host has no room for them.
    pub(super) fn evict(&mut self) -> bool {
        let Self::Resident(chunk) = self else {
            return false;
        };
        match chunk.staged() {
            Ok(staged) => {
                *self = Self::Staged(staged);
                true
            }
            Err(_) => false,
        }
    }
}

/// The rows of device node `node` for one above it that works on `device`, in chunks of the size that its reader wants.
pub(super) fn inputs(
    node: &Arc<dyn ExecutionPlan>,
    device: &Arc<dyn Device>,
    role: Role,
    context: &Arc<TaskContext>,
) -> Result<InputStream> {
    gathered(node, device, role, context, false)
}

/// The same in the pieces that the node makes.
pub(super) fn pieces(
    node: &Arc<dyn ExecutionPlan>,
    device: &Arc<dyn Device>,
    context: &Arc<TaskContext>,
) -> Result<InputStream> {
    gathered(node, device, Role::Right, context, true)
}

fn gathered(
    node: &Arc<dyn ExecutionPlan>,
    device: &Arc<dyn Device>,
    role: Role,
    context: &Arc<TaskContext>,
    apart: bool,
) -> Result<InputStream> {
    let options = BowtieOptions::of(context.session_config().options());
    let pool = context.memory_pool();
    let schema = node.schema();
    let chunk_rows = options.chunk_rows.0;
    let limits = ChunkLimits::new(device.as_ref(), &schema, chunk_rows, role, pool.as_ref());
    let fields = schema.fields().iter();
    let gathering = Gathering {
        chunks: Some(as_device(node)?.execute_on(Arc::clone(device), Arc::clone(context))?),
        waiting: Waiting {
            device: Arc::clone(device),
            reservation: MemoryConsumer::new(format!("BowtieInput[{role}]")).register(pool),
            on_device: vec![],
            on_host: vec![],
            rows: 0,
            bytes: 0,
            schema: Arc::clone(&schema),
        },
        cut: VecDeque::new(),
        limits,
        apart: apart
            || fields
                .into_iter()
                .any(|f| has_small_dictionary(f.data_type())),
    };
    let chunks = futures::stream::try_unfold(gathering, |mut gathering| async move {
        let chunk = gathering.next().await?;
        Ok(chunk.map(|chunk| (chunk, gathering)))
    });
    Ok(chunks.boxed())
}

/// Pieces on the device on their way to chunks.
struct Gathering {
    /// None once they are at their end.
    chunks: Option<DeviceStream>,
    waiting: Waiting,
    /// Cut from a chunk that was longer than the reader wants.
    cut: VecDeque<StagedChunk>,
    limits: ChunkLimits,
    /// Whether pieces stay alone: as they are wanted so, or as to copy dictionaries of small keys together may fail.
    apart: bool,
}

/// Pieces of the next chunk.
struct Waiting {
    on_device: Vec<DeviceBatch>,
    on_host: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    schema: SchemaRef,
    device: Arc<dyn Device>,
    reservation: MemoryReservation,
}

impl Gathering {
    async fn next(&mut self) -> Result<Option<InputChunk>> {
        while let Some(chunks) = &mut self.chunks {
            if let Some(chunk) = self.cut.pop_front() {
                return Ok(Some(InputChunk::Staged(chunk)));
            }
            let Some(chunk) = chunks.try_next().await? else {
                self.chunks = None;
                break;
            };
            let batch = match chunk {
                DeviceChunk::Staged(chunk) => {
                    self.cut.extend(chunk.cut(self.limits.most_rows)?);
                    continue;
                }
                DeviceChunk::Resident(batch) if batch.rows() == 0 => continue,
                DeviceChunk::Resident(batch) => batch,
                DeviceChunk::Runs(_) => {
                    return Err(DataFusionError::Internal(
                        "bowtie: runs were given to a device node".into(),
                    ));
                }
            };
            let (rows, bytes) = (batch.rows(), batch.bytes() as usize);
            let waiting = &self.waiting;
            let fits = waiting.rows + rows <= self.limits.rows
                && waiting.bytes.saturating_add(bytes) <= self.limits.bytes
                && !self.apart;
            let full = match fits || waiting.rows == 0 {
                true => None,
                false => self.put_together().await?,
            };
            self.waiting.push(batch, rows, bytes);
            // Half of the budget is for work, that of the nodes below too.
            let budget = self.waiting.device.budget();
            if budget.in_use_by_all() > budget.limit() / 2 {
                self.blocking(Waiting::download).await?;
            }
            if full.is_some() {
                return Ok(full);
            }
        }
        self.put_together().await
    }

    async fn put_together(&mut self) -> Result<Option<InputChunk>> {
        match self.waiting.rows {
            0 => Ok(None),
            _ => self.blocking(Waiting::put_together).await.map(Some),
        }
    }

    /// Does `step` on a thread that may block; with what waits, unless it fails.
    async fn blocking<T: Send + 'static>(
        &mut self,
        step: fn(&mut Waiting) -> crate::error::Result<T>,
    ) -> Result<T> {
        let mut waiting = self.waiting.take();
        let (waiting, done) = SpawnedTask::spawn_blocking(move || {
            let done = step(&mut waiting);
            (waiting, done)
        })
        .join_unwind()
        .await
        .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
        self.waiting = waiting;
        Ok(done?)
    }
}

impl Waiting {
    fn push(&mut self, batch: DeviceBatch, rows: usize, bytes: usize) {
        self.on_device.push(batch);
        self.rows += rows;
        self.bytes += bytes;
    }

    /// All that waits; nothing does here any more.
    fn take(&mut self) -> Self {
        Self {
            on_device: std::mem::take(&mut self.on_device),
            on_host: std::mem::take(&mut self.on_host),
            rows: std::mem::take(&mut self.rows),
            bytes: std::mem::take(&mut self.bytes),
            schema: Arc::clone(&self.schema),
            device: Arc::clone(&self.device),
            reservation: self.reservation.take(),
        }
    }

    fn download(&mut self) -> crate::error::Result<()> {
        for batch in self.on_device.drain(..) {
            let batch = batch.download(self.device.as_ref(), &self.schema)?;
            self.reservation.try_grow(batch_bytes(&batch))?;
            self.on_host.push(batch);
        }
        Ok(())
    }

    /// One chunk of all that waits: on the device, if all of it lies there and there is room for a copy.
    fn put_together(&mut self) -> crate::error::Result<InputChunk> {
        if self.on_host.is_empty() {
            match self.on_device() {
                Ok(batch) => {
                    (self.rows, self.bytes) = (0, 0);
                    self.on_device.clear();
                    return Ok(InputChunk::Resident(ResidentChunk {
                        batch,
                        device: Arc::clone(&self.device),
                        schema: Arc::clone(&self.schema),
                        on_host: Mutex::new(vec![None; self.schema.fields().len()]),
                        reservation: Arc::new(self.reservation.take()),
                    }));
                }
                Err(error) if error.is_out_of_device_memory() => {}
                Err(error) => return Err(error),
            }
        }
        self.download()?;
        let columns = (0..self.schema.fields().len()).map(|i| {
            let parts = self.on_host.iter();
            parts.map(|batch| Arc::clone(batch.column(i))).collect()
        });
        let columns = columns.collect();
        self.on_host.clear();
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let reservation = Arc::new(self.reservation.take());
        Ok(InputChunk::Staged(StagedChunk::of_parts(
            rows,
            columns,
            reservation,
        )))
    }

    fn on_device(&self) -> crate::error::Result<DeviceBatch> {
        if let [batch] = self.on_device.as_slice() {
            return Ok(batch.clone());
        }
        let columns = (0..self.schema.fields().len()).map(|i| {
            let parts = self.on_device.iter();
            let parts = parts.map(|batch| Ok(batch.column(i)?.as_ref()));
            let parts = parts.collect::<crate::error::Result<Vec<_>>>()?;
            Ok(Some(Arc::new(self.device.concat(&parts)?)))
        });
        Ok(DeviceBatch::new(
            self.rows,
            columns.collect::<crate::error::Result<_>>()?,
        ))
    }
}

#[cfg(test)]
mod tests;
