//! Rows that a device node reads: what uploads staged on the host, and what device nodes below left on the device.
//!
//! ```text
//! BowtieUploadExec ──► Staged ───────────────────────────────────┐
//!                                                                ├──► InputChunk
//! join, filter, … ──► Resident, piece by piece ──► put together ─┘
//!                                     └─ little room ─► downloaded: Staged ─ little room there ─► in a file: Spilled
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::stream::BoxStream;
use parking_lot::Mutex;

use crate::device::data::batch::DeviceBatch;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::exec::memory::spill::{Spilling, spilled_rows};
use crate::exec::memory::spilled_chunk::{ChunkWriter, SpilledChunk};
use crate::exec::metrics::DeviceMetrics;
use crate::exec::transfer::staged_chunk::{Failures, Parts, StagedChunk};

pub(crate) type InputStream = BoxStream<'static, Result<InputChunk>>;

/// Rows that a node reads.
#[derive(Debug)]
pub(crate) enum InputChunk {
    Staged(StagedChunk),
    Resident(ResidentChunk),
    /// In a file, as the memory pool had no room.
    Spilled(SpilledChunk),
}

/// Rows on the device. What is asked for on the host comes down once, and is reserved in DataFusion's memory pool.
#[derive(Debug)]
pub(crate) struct ResidentChunk {
    pub(crate) batch: DeviceBatch,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) schema: SchemaRef,
    pub(crate) on_host: Mutex<Vec<Option<ArrayRef>>>,
    pub(crate) reservation: Arc<MemoryReservation>,
}

impl ResidentChunk {
    /// Frees copies on the host, whose rows lie on the device anyway; whether there were any.
    fn forget_copies(&self) -> bool {
        self.on_host.lock().fill(None);
        self.reservation.free() > 0
    }

    fn array(&self, column: usize) -> crate::error::Result<ArrayRef> {
        let mut on_host = self.on_host.lock();
        if let Some(array) = &on_host[column] {
            return Ok(Arc::clone(array));
        }
        let array = self.device.download(self.batch.column(column)?)?;
        self.reservation
            .try_grow(crate::exec::transfer::sizes::array_bytes(&array))?;
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

    /// The same rows in a file; `None` where there is nothing to write.
    fn spilled(&self, spilling: &Spilling) -> crate::error::Result<Option<SpilledChunk>> {
        let fields = self.schema.fields().iter();
        let types = fields.map(|field| field.data_type().clone());
        let Some(mut writer) = ChunkWriter::create(types, spilling)? else {
            return Ok(None);
        };
        slices(self.device.as_ref(), &self.batch, &mut |columns| {
            writer.append(columns)
        })?;
        writer.finish(vec![], &self.reservation)
    }

    fn upload(&self, rows: &Range<usize>, needs: &[Need]) -> crate::error::Result<DeviceBatch> {
        if rows.len() == self.batch.rows() {
            return Ok(self.batch.clone());
        }
        let wanted = |column: usize| needs[column].is_any();
        slice(self.device.as_ref(), &self.batch, rows, needs.len(), wanted)
    }
}

/// Rows `rows` of the columns of `batch` that are wanted.
fn slice(
    device: &dyn Device,
    batch: &DeviceBatch,
    rows: &Range<usize>,
    columns: usize,
    wanted: impl Fn(usize) -> bool,
) -> crate::error::Result<DeviceBatch> {
    let kept = device.sequence(rows.start as u32, rows.len())?;
    let columns = (0..columns).map(|i| {
        Ok(match wanted(i) {
            true => Some(Arc::new(device.gather(batch.column(i)?, &kept)?)),
            false => None,
        })
    });
    let columns = columns.collect::<crate::error::Result<_>>()?;
    Ok(DeviceBatch::new(rows.len(), columns))
}

/// Hands the rows of `batch` to `take` on the host, a few at a time, so that the host never holds much of them.
pub(crate) fn slices(
    device: &dyn Device,
    batch: &DeviceBatch,
    take: &mut dyn FnMut(Vec<ArrayRef>) -> crate::error::Result<()>,
) -> crate::error::Result<()> {
    let rows = batch.rows();
    let all = |batch: &DeviceBatch| {
        let columns = (0..batch.columns()).map(|i| device.download(batch.column(i)?));
        columns.collect::<crate::error::Result<Vec<_>>>()
    };
    let most = spilled_rows(batch.bytes() as usize / rows.max(1));
    let mut each = most;
    // Those arrays are there.
    let mut whole = match batch.is_resident() {
        true => None,
        false => Some(all(batch)?),
    };
    let mut from = 0;
    while from < rows {
        let part = from..(from + each).min(rows);
        let columns = match &whole {
            Some(whole) => {
                let columns = whole.iter();
                Ok(columns.map(|c| c.slice(from, part.len())).collect())
            }
            None => slice(device, batch, &part, batch.columns(), |_| true).and_then(|b| all(&b)),
        };
        match columns {
            Err(error) if error.is_divisible() => match each > 1 {
                true => each /= 2,
                // To come down together they need no room on the device.
                false => (whole, each) = (Some(all(batch)?), most),
            },
            columns => {
                take(columns?)?;
                from = part.end;
            }
        }
    }
    Ok(())
}

impl InputChunk {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Staged(chunk) => chunk.rows(),
            Self::Resident(chunk) => chunk.batch.rows(),
            Self::Spilled(chunk) => chunk.rows(),
        }
    }

    /// The rows as they lie on the device, if they do.
    pub(crate) fn resident(&self) -> Option<&DeviceBatch> {
        match self {
            Self::Resident(chunk) => Some(&chunk.batch),
            Self::Staged(_) | Self::Spilled(_) => None,
        }
    }

    /// The number of the part that the rows are of, where a node's rows are in parts (`partition/partitioner.rs`); otherwise 0.
    pub(crate) fn part(&self) -> u32 {
        match self {
            Self::Staged(chunk) => chunk.part,
            Self::Resident(_) => 0,
            Self::Spilled(chunk) => chunk.number_of_part(),
        }
    }

    /// Bytes of all rows, about.
    pub(crate) fn bytes(&self) -> crate::error::Result<u64> {
        match self {
            Self::Staged(chunk) => {
                let columns = 0..chunk.shape().columns();
                let means = columns.map(|column| chunk.mean_bytes(column));
                Ok(means.sum::<crate::error::Result<u64>>()? * chunk.rows() as u64)
            }
            Self::Resident(chunk) => Ok(chunk.batch.bytes()),
            Self::Spilled(chunk) => Ok(chunk.bytes() as u64),
        }
    }

    /// Whether the memory pool has no room for more rows.
    pub(crate) fn is_memory_pressure(&self) -> bool {
        matches!(self, Self::Staged(chunk) if chunk.memory_pressure)
    }

    /// Gives the memory of rows back that are in a file too; false where they took none.
    pub(crate) fn unload(&self) -> bool {
        matches!(self, Self::Spilled(chunk) if chunk.unload())
    }

    /// Takes rows that wait on the host to a file, or out of the memory if they are in one; false where they are not there.
    pub(crate) fn leave_host(&mut self, spilling: &Spilling) -> crate::error::Result<bool> {
        let chunk = match self {
            Self::Staged(chunk) => chunk,
            Self::Resident(chunk) => return Ok(chunk.forget_copies()),
            Self::Spilled(_) => return Ok(self.unload()),
        };
        let spilled = SpilledChunk::write(chunk, spilling)?;
        let left = spilled.is_some();
        if let Some(spilled) = spilled {
            *self = Self::Spilled(spilled);
        }
        Ok(left)
    }

    /// Reads rows that are in a file.
    pub(crate) fn load(&self) -> crate::error::Result<()> {
        match self {
            Self::Spilled(chunk) => chunk.chunk().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Evaluated columns that have no value on some row, and why.
    pub(crate) fn failures(&self) -> &Failures {
        match self {
            Self::Staged(chunk) => &chunk.failures,
            Self::Resident(_) => &[],
            Self::Spilled(chunk) => chunk.failures(),
        }
    }

    pub(crate) fn reservation(&self) -> Arc<MemoryReservation> {
        match self {
            Self::Staged(chunk) => Arc::clone(&chunk.reservation),
            Self::Resident(chunk) => Arc::clone(&chunk.reservation),
            Self::Spilled(chunk) => chunk.reservation(),
        }
    }

    /// The parts of a column on the host.
    pub(crate) fn parts(&self, column: usize) -> crate::error::Result<Parts> {
        Ok(match self {
            Self::Staged(chunk) => chunk.parts(column),
            Self::Resident(chunk) => Arc::new([chunk.array(column)?]),
            Self::Spilled(chunk) => chunk.chunk()?.parts(column),
        })
    }

    /// A column on the host as one array.
    pub(crate) fn whole(&self, column: usize) -> crate::error::Result<ArrayRef> {
        match self {
            Self::Staged(chunk) => chunk.whole(column),
            Self::Resident(chunk) => chunk.array(column),
            Self::Spilled(chunk) => chunk.chunk()?.whole(column),
        }
    }

    /// Some rows of a column on the host; only those are read where the memory pool has no room for all of a file.
    pub(crate) fn some(
        &self,
        column: usize,
        rows: &Range<usize>,
    ) -> crate::error::Result<ArrayRef> {
        match self {
            Self::Spilled(chunk) => {
                let (chunk, rows) = chunk.part(rows)?;
                Ok(chunk.whole(column)?.slice(rows.start, rows.len()))
            }
            _ => Ok(self.whole(column)?.slice(rows.start, rows.len())),
        }
    }

    /// Mean bytes of a value of a column.
    pub(crate) fn mean_bytes(&self, column: usize) -> crate::error::Result<u64> {
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
    pub(crate) fn upload(
        &self,
        device: &dyn Device,
        rows: &Range<usize>,
        needs: &[Need],
        metrics: &DeviceMetrics,
    ) -> crate::error::Result<DeviceBatch> {
        let staged = |chunk: &StagedChunk, rows: &Range<usize>| {
            let _timer = metrics.upload_time.timer();
            let batch = chunk.upload(device, rows, needs)?;
            metrics.uploaded_bytes.add(batch.bytes() as usize);
            Ok(batch)
        };
        match self {
            Self::Staged(chunk) => staged(chunk, rows),
            Self::Resident(chunk) => chunk.upload(rows, needs),
            Self::Spilled(chunk) => {
                let (chunk, rows) = chunk.part(rows)?;
                staged(chunk.as_ref(), &rows)
            }
        }
    }

    /// Takes rows on the device to the host, or to a file where the memory pool has no room, so that there is room for work on the
    /// device; false when they were there already, or when there is room for them nowhere.
    pub(crate) fn evict(&mut self, spilling: Option<&Spilling>) -> bool {
        matches!(self, Self::Resident(_)) && self.leave_device(spilling).is_ok()
    }

    /// The same, but an error where there is no room.
    pub(crate) fn leave_device(&mut self, spilling: Option<&Spilling>) -> crate::error::Result<()> {
        let Self::Resident(chunk) = self else {
            return Ok(());
        };
        *self = match (chunk.staged(), spilling) {
            (Err(error), Some(spilling)) if error.is_out_of_host_memory() => {
                chunk.forget_copies();
                let spilled = chunk.spilled(spilling)?;
                spilled.map(Self::Spilled).ok_or(error)?
            }
            (Ok(staged), _) => Self::Staged(staged),
            (Err(error), _) => {
                chunk.forget_copies();
                return Err(error);
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
