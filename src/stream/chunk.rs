//! [`StagedChunk`]: rows on the host on their way to the device.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, RecordBatch, new_empty_array};
use arrow::compute::concat;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::column::DeviceBatch;
use crate::device::Device;
use crate::device::width::mean_bytes;
use crate::error::{BowtieError, Result};

/// A chunk that waits on the host, counted in DataFusion's memory pool until it is dropped.
///
/// Where uploading copies, it keeps its batches as they came: they are copied together on the way to the device, and only
/// the columns that are needed there.
#[derive(Debug)]
pub(crate) struct StagedChunk {
    /// The columns of the plan below, then the evaluated expressions; at least one batch.
    batches: Vec<RecordBatch>,
    rows: usize,
    /// Columns that were asked for whole.
    whole: Vec<OnceLock<ArrayRef>>,
    /// Evaluated columns that have no value on some row, and why; they are NULL then.
    pub(crate) failures: Vec<(usize, Arc<DataFusionError>)>,
    pub(crate) reservation: Arc<MemoryReservation>,
}

impl StagedChunk {
    /// A chunk of `batches` of one schema, at least one.
    pub(crate) fn new(
        batches: Vec<RecordBatch>,
        failures: Vec<(usize, Arc<DataFusionError>)>,
        reservation: MemoryReservation,
    ) -> Self {
        let columns = batches.first().map_or(0, RecordBatch::num_columns);
        Self {
            rows: batches.iter().map(RecordBatch::num_rows).sum(),
            whole: (0..columns).map(|_| OnceLock::new()).collect(),
            batches,
            failures,
            reservation: Arc::new(reservation),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.whole.len()
    }

    pub(crate) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The parts of a column.
    pub(crate) fn parts(&self, column: usize) -> impl Iterator<Item = &ArrayRef> {
        self.batches.iter().map(move |batch| batch.column(column))
    }

    /// The parts of rows `rows` of a column; one, if an empty one, when there are no rows.
    fn parts_of(&self, column: usize, rows: &Range<usize>) -> Vec<ArrayRef> {
        let mut parts = vec![];
        let mut first = 0;
        for part in self.parts(column) {
            let begin = rows.start.clamp(first, first + part.len()) - first;
            let end = rows.end.clamp(first, first + part.len()) - first;
            if (begin, end) == (0, part.len()) && end > 0 {
                parts.push(Arc::clone(part));
            } else if begin < end {
                parts.push(part.slice(begin, end - begin));
            }
            first += part.len();
        }
        if parts.is_empty() {
            parts.push(new_empty_array(self.batches[0].column(column).data_type()));
        }
        parts
    }

    /// Uploads rows `rows` of the columns for which `needed` says so.
    pub(crate) fn upload(
        &self,
        device: &dyn Device,
        rows: &Range<usize>,
        needed: impl Fn(usize) -> bool,
    ) -> Result<DeviceBatch> {
        self.upload_ahead(device, rows, needed)?.receive(device)
    }

    /// The same for work to come: the batch can be used once it was received.
    pub(crate) fn upload_ahead(
        &self,
        device: &dyn Device,
        rows: &Range<usize>,
        needed: impl Fn(usize) -> bool,
    ) -> Result<DeviceBatch> {
        let columns = (0..self.columns()).map(|i| needed(i).then(|| self.parts_of(i, rows)));
        DeviceBatch::upload_ahead(device, rows.len(), columns)
    }

    /// A column as one array, copied together when it is first asked for.
    pub(crate) fn whole(&self, column: usize) -> Result<ArrayRef> {
        let known = self
            .whole
            .get(column)
            .ok_or_else(|| BowtieError::Internal(format!("a chunk without column {column}")))?;
        if let Some(array) = known.get() {
            return Ok(Arc::clone(array));
        }
        let parts: Vec<&dyn Array> = self.parts(column).map(AsRef::as_ref).collect();
        let array = match parts.as_slice() {
            [_] => Arc::clone(self.batches[0].column(column)),
            parts => concat(parts)?,
        };
        Ok(Arc::clone(known.get_or_init(|| array)))
    }

    /// Mean bytes of a value of a column.
    pub(crate) fn mean_bytes(&self, column: usize) -> Result<u64> {
        let mut bytes = 0;
        for part in self.parts(column) {
            bytes += mean_bytes(part)? * part.len() as u64;
        }
        Ok(bytes.div_ceil(self.rows.max(1) as u64))
    }
}
