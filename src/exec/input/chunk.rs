//! [`InputChunk`]: a chunk that a device node reads, in one of three forms: staged on the host by an upload, resident
//! on the device, or spilled to a file.
//!
//! ```text
//! BowtieUploadExec ──► Staged ───────────────────────────────────┐
//!                                                                ├──► InputChunk
//! join, filter, … ──► Resident, piece by piece ──► coalesced ────┘
//!                                     └─ device memory short ─► downloaded: Staged ─ host memory short ─► Spilled
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::stream::BoxStream;
use parking_lot::Mutex;

use crate::device::batches::batch::DeviceBatch;
use crate::device::counters::Counted;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::device::trace;
use crate::error::BowtieError;
use crate::exec::chunk::staged_chunk::{Failures, Parts, StagedChunk};
use crate::exec::input::resident_chunk::ResidentChunk;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::spilled_chunk::SpilledChunk;
use crate::exec::metrics::DeviceMetrics;

/// What a node reads: the next chunk, or the signal that the memory pool refused it. Then the node frees host memory
/// before it reads on.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is made for each chunk, of which there are few"
)]
pub(crate) enum Input {
    Chunk(InputChunk),
    MemoryPressure,
}

impl Input {
    /// The chunk; `None` for a signal.
    pub(crate) fn into_chunk(self) -> Option<InputChunk> {
        match self {
            Self::Chunk(chunk) => Some(chunk),
            Self::MemoryPressure => None,
        }
    }
}

/// The input of a node.
pub(crate) type InputStream = BoxStream<'static, Result<Input>>;

/// A chunk that a node reads.
#[derive(Debug)]
pub(crate) enum InputChunk {
    /// Rows on the host.
    Staged(StagedChunk),
    /// Columns on the device.
    Resident(ResidentChunk),
    /// Rows in a file, as the memory pool refused them.
    Spilled(SpilledChunk),
}

impl InputChunk {
    /// A batch on the device. `reservation`: for what is downloaded of it.
    pub(crate) fn of_batch(
        batch: DeviceBatch,
        device: &Arc<dyn Device>,
        schema: &SchemaRef,
        reservation: MemoryReservation,
    ) -> Self {
        Self::Resident(ResidentChunk {
            batch,
            device: Arc::clone(device),
            schema: Arc::clone(schema),
            on_host: Mutex::new(vec![None; schema.fields().len()]),
            reservation: Arc::new(reservation),
        })
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Staged(chunk) => chunk.rows(),
            Self::Resident(chunk) => chunk.batch.rows(),
            Self::Spilled(chunk) => chunk.rows(),
        }
    }

    /// The columns on the device, if the chunk is resident.
    pub(crate) fn resident(&self) -> Option<&DeviceBatch> {
        match self {
            Self::Resident(chunk) => Some(&chunk.batch),
            Self::Staged(_) | Self::Spilled(_) => None,
        }
    }

    /// The number of the hash partition of the rows (`partition/partitioner.rs`); 0 without partitions.
    pub(crate) fn partition(&self) -> u32 {
        match self {
            Self::Staged(chunk) => chunk.partition,
            Self::Resident(_) => 0,
            Self::Spilled(chunk) => chunk.partition(),
        }
    }

    /// Bytes of all rows, approximately.
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

    /// Frees the memory of rows that are in a file too; false if they took none.
    pub(crate) fn unload(&self) -> bool {
        matches!(self, Self::Spilled(chunk) if chunk.unload())
    }

    /// Spills rows on the host to a file, or frees their memory if they are in a file or on the device too; false if
    /// they took none.
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

    /// Evaluated columns whose expression failed on some row, with the error.
    pub(crate) fn failures(&self) -> &Failures {
        match self {
            Self::Staged(chunk) => &chunk.failures,
            Self::Resident(_) => &[],
            Self::Spilled(chunk) => chunk.failures(),
        }
    }

    /// Fails if the expression of one of the `columns` failed on some row, whether or not that row has a match:
    /// DataFusion's own operators evaluate it on every row too.
    pub(crate) fn check_evaluated(
        &self,
        columns: impl Fn(usize) -> bool,
    ) -> crate::error::Result<()> {
        let mut failures = self.failures().iter();
        match failures.find(|(column, _)| columns(*column)) {
            Some((_, error)) => Err(BowtieError::DataFusion(Arc::clone(error))),
            None => Ok(()),
        }
    }

    /// The memory pool's reservation of the rows on the host.
    pub(crate) fn reservation(&self) -> Arc<MemoryReservation> {
        match self {
            Self::Staged(chunk) => Arc::clone(&chunk.reservation),
            Self::Resident(chunk) => Arc::clone(&chunk.reservation),
            Self::Spilled(chunk) => chunk.reservation(),
        }
    }

    /// The arrays of a column, on the host.
    pub(crate) fn parts(&self, column: usize) -> crate::error::Result<Parts> {
        Ok(match self {
            Self::Staged(chunk) => chunk.parts(column),
            Self::Resident(chunk) => Arc::new([chunk.array(column)?]),
            Self::Spilled(chunk) => chunk.chunk()?.parts(column),
        })
    }

    /// A column as one array, on the host.
    pub(crate) fn whole(&self, column: usize) -> crate::error::Result<ArrayRef> {
        match self {
            Self::Staged(chunk) => chunk.whole(column),
            Self::Resident(chunk) => chunk.array(column),
            Self::Spilled(chunk) => chunk.chunk()?.whole(column),
        }
    }

    /// Some rows of a column, on the host. Of a spilled chunk only these are read if the memory pool refuses the whole
    /// chunk.
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
                let bytes = chunk.batch.any(column)?.bytes();
                Ok(bytes.div_ceil(self.rows().max(1) as u64))
            }
            Self::Spilled(chunk) => Ok(chunk.mean_bytes(column)),
        }
    }

    /// Begins the upload of a staged chunk for [`Self::take_prefetched`], and counts the transfer.
    pub(crate) fn prefetch(
        &self,
        device: &dyn Device,
        needs: &[Need],
        metrics: &DeviceMetrics,
    ) -> crate::error::Result<()> {
        if let Self::Staged(chunk) = self {
            let _timer = metrics.upload_time.timer();
            let bytes = chunk.prefetch(device, needs)?;
            metrics.uploaded_bytes.add(bytes as usize);
        }
        Ok(())
    }

    /// The prefetched columns of all rows, if there are any. The chunk does not keep them.
    pub(crate) fn take_prefetched(
        &self,
        device: &dyn Device,
    ) -> crate::error::Result<Option<DeviceBatch>> {
        match self {
            Self::Staged(chunk) => chunk.take_prefetched(device),
            Self::Resident(_) | Self::Spilled(_) => Ok(None),
        }
    }

    /// Uploads the needed columns of rows `rows`, and counts the transfer. Resident rows are not copied unless they are
    /// a part of the chunk.
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

    /// Whether the memory pool has room for the rows of a resident chunk now.
    pub(crate) fn has_room_on_host(&self) -> bool {
        match self {
            Self::Resident(chunk) => {
                let bytes = chunk.batch.bytes() as usize;
                bytes == 0 || chunk.reservation.new_empty().try_grow(bytes).is_ok()
            }
            Self::Staged(_) | Self::Spilled(_) => true,
        }
    }

    /// Downloads resident rows to free device memory. They are spilled if the memory pool refuses them. False if they
    /// were not resident, or if there was no memory for them anywhere.
    pub(crate) fn evict(&mut self, spilling: Option<&Spilling>) -> bool {
        matches!(self, Self::Resident(_)) && self.leave_device(spilling).is_ok()
    }

    /// As [`Self::evict`], but without memory for the rows it fails.
    pub(crate) fn leave_device(&mut self, spilling: Option<&Spilling>) -> crate::error::Result<()> {
        let Self::Resident(chunk) = self else {
            return Ok(());
        };
        let bytes = chunk.batch.bytes();
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
        trace::count(Counted::EvictedBytes, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
