//! [`SortedRows`]: rows that are sorted on the device, and gathered piece by piece.

use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::exec::join::piece_size::PieceSize;
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::metrics::DeviceMetrics;

/// Rows with their order.
pub(crate) struct SortedRows {
    device: Arc<dyn Device>,
    batch: DeviceBatch,
    /// Row ids of the batch.
    order: Buffer<u32>,
    /// The columns that are emitted: the first ones.
    columns: usize,
    /// The position of the next row.
    next: usize,
    size: PieceSize,
    metrics: DeviceMetrics,
}

impl SortedRows {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        batch: DeviceBatch,
        order: Buffer<u32>,
        columns: usize,
        metrics: DeviceMetrics,
    ) -> Self {
        let mut size = PieceSize::new(device.as_ref());
        let row_bytes = batch.bytes() as usize / batch.rows().max(1);
        size.fit(device.as_ref(), row_bytes);
        Self {
            device,
            batch,
            order,
            columns,
            next: 0,
            size,
            metrics,
        }
    }

    /// The next rows; `None` at the end.
    pub(crate) fn next_piece(&mut self) -> Result<Option<DeviceBatch>> {
        let device = self.device.as_ref();
        loop {
            let pieces = self.size.of_rows(self.next, self.order.len());
            let Some(rows) = pieces.into_iter().next() else {
                self.metrics.baseline.done();
                return Ok(None);
            };
            let _timer = self.metrics.output_time.timer();
            let piece = || {
                let some = device.row_slice(&self.order, rows.clone())?;
                gathered(device, &self.batch, &some, self.columns)
            };
            let made = match rows.len() > 1 {
                true => step::shared(device, OnRefusal::Shrink, |_| piece()),
                false => step::retried(device, &mut (), |(), _| piece(), |()| true),
            };
            match made {
                Err(error) if error.is_divisible() && rows.len() > 1 && self.size.halve() => {}
                made => {
                    self.size.made();
                    self.next = rows.end;
                    return made.map(Some);
                }
            }
        }
    }
}

/// Rows of the first `columns` columns of a batch.
pub(crate) fn gathered(
    device: &dyn Device,
    batch: &DeviceBatch,
    rows: &Buffer<u32>,
    columns: usize,
) -> Result<DeviceBatch> {
    let columns = (0..columns).map(|i| batch.any(i)?.gather(device, rows).map(Some));
    Ok(DeviceBatch::new(
        rows.len(),
        columns.collect::<Result<_>>()?,
    ))
}
