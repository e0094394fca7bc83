//! [`ResidentChunk`]: rows on the device, and their copies on the host.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;

use crate::device::batches::batch::DeviceBatch;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::exec::chunk::staged_chunk::StagedChunk;
use crate::exec::memory::spill::{Spilling, spilled_rows};
use crate::exec::memory::spilled_chunk::{ChunkWriter, SpilledChunk};

/// Rows on the device. A column that is needed on the host is downloaded once, and reserved in DataFusion's memory
/// pool.
#[derive(Debug)]
pub(crate) struct ResidentChunk {
    pub(crate) batch: DeviceBatch,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) schema: SchemaRef,
    /// The downloaded columns.
    pub(crate) on_host: Mutex<Vec<Option<ArrayRef>>>,
    pub(crate) reservation: Arc<MemoryReservation>,
}

impl ResidentChunk {
    /// Drops the downloaded columns; false if there were none.
    pub(crate) fn forget_copies(&self) -> bool {
        self.on_host.lock().fill(None);
        self.reservation.free() > 0
    }

    /// A column on the host.
    pub(crate) fn array(&self, column: usize) -> crate::error::Result<ArrayRef> {
        let mut on_host = self.on_host.lock();
        if let Some(array) = &on_host[column] {
            return Ok(Arc::clone(array));
        }
        let array = self.batch.any(column)?.download(self.device.as_ref())?;
        self.reservation
            .try_grow(crate::exec::chunk::sizes::array_bytes(&array))?;
        on_host[column] = Some(Arc::clone(&array));
        Ok(array)
    }

    /// A chunk of a part of its rows.
    pub(crate) fn of_batch(&self, batch: DeviceBatch) -> Self {
        Self {
            batch,
            device: Arc::clone(&self.device),
            schema: Arc::clone(&self.schema),
            on_host: Mutex::new(vec![None; self.schema.fields().len()]),
            reservation: Arc::new(self.reservation.new_empty()),
        }
    }

    /// All rows on the host.
    pub(crate) fn staged(&self) -> crate::error::Result<StagedChunk> {
        let columns = (0..self.schema.fields().len()).map(|i| Ok(vec![self.array(i)?]));
        Ok(StagedChunk::of_parts(
            self.batch.rows(),
            columns.collect::<crate::error::Result<_>>()?,
            Arc::clone(&self.reservation),
        ))
    }

    /// All rows in a file; `None` if there is nothing to write.
    pub(crate) fn spilled(
        &self,
        spilling: &Spilling,
    ) -> crate::error::Result<Option<SpilledChunk>> {
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

    /// Rows `rows` of the needed columns, on the device.
    pub(crate) fn upload(
        &self,
        rows: &Range<usize>,
        needs: &[Need],
    ) -> crate::error::Result<DeviceBatch> {
        if rows.len() == self.batch.rows() {
            return Ok(self.batch.clone());
        }
        let wanted = |column: usize| needs[column].is_any();
        slice(self.device.as_ref(), &self.batch, rows, needs.len(), wanted)
    }
}

/// Rows `rows` of the columns of `batch` that are `wanted`.
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
            true => Some(batch.any(i)?.gather(device, &kept)?),
            false => None,
        })
    });
    let columns = columns.collect::<crate::error::Result<_>>()?;
    Ok(DeviceBatch::new(rows.len(), columns))
}

/// Calls `take` with the rows of `batch` on the host, a few at a time, so that the host never holds many of them.
pub(crate) fn slices(
    device: &dyn Device,
    batch: &DeviceBatch,
    take: &mut dyn FnMut(Vec<ArrayRef>) -> crate::error::Result<()>,
) -> crate::error::Result<()> {
    let rows = batch.rows();
    let all = |batch: &DeviceBatch| {
        let columns = (0..batch.columns()).map(|i| batch.any(i)?.download(device));
        columns.collect::<crate::error::Result<Vec<_>>>()
    };
    let most = spilled_rows(batch.bytes() as usize / rows.max(1));
    let mut each = most;
    // Lazy columns have their arrays on the host already.
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
                // A download of whole columns needs no device memory.
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
