//! [`LongRanges`]: the matches of a high-fan-out tile as slices. In: the columns of both sides and the matches' ranges, on the host. Out:
//! record batches, made when a download reads them.
//!
//! A probe row's matches are a slice of the build columns, which were gathered into sorted order once, beside the row's
//! own values, repeated. So the download transfers the columns of both sides instead of their matches, and its cost
//! does not depend on the fan-out.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, RecordBatchOptions,
    UInt32Array, downcast_primitive_array, new_null_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::device::budget::Lease;
use crate::device::data::column::Column;
use crate::device::row_width::gathered_bytes;
use crate::error::Result;

/// The most rows of a batch, whatever the session allows, so that repeated values stay in cache.
const BATCH_ROWS: usize = 8192;

/// The most bytes that the repetitions of a value take in one batch; a wider value has a batch for each row.
pub(crate) const REPEATED_BYTES: usize = 1 << 20;

/// The matches of a tile in which nothing is tested, probe row by probe row.
///
/// Batches are made by their reader: a batch costs a few allocations, and the repeated values stay in cache.
#[derive(Debug)]
pub(crate) struct LongRanges {
    columns: Vec<RunColumn>,
    /// For each probe position its row, and its range `lo .. hi` of build positions.
    rows: ScalarBuffer<u32>,
    lo: ScalarBuffer<u32>,
    hi: ScalarBuffer<u32>,
    /// Matches of the tile.
    total: usize,
    /// Mean bytes of an output row.
    row_bytes: usize,
    /// The next probe position.
    next: usize,
    /// The probe position whose matches are being emitted.
    run: Option<Run>,
    /// For the arrays that `columns`, `rows`, `lo` and `hi` share.
    _held: Reservations,
}

/// Reservations of device memory, those of columns among them, and of the memory pool.
type Reservations = (Vec<Arc<Column>>, Lease, Vec<Arc<MemoryReservation>>);

/// An output column.
#[derive(Debug)]
pub(crate) enum RunColumn {
    /// A build column in sorted order.
    Clustered(ArrayRef),
    /// A probe column.
    Repeated(ArrayRef),
}

/// The matches of one probe row that are still to be emitted: build positions `lo .. hi`.
#[derive(Debug)]
struct Run {
    lo: usize,
    hi: usize,
    /// Rows of a batch. The batches of a row are about equally long, so that none is small.
    part: usize,
    /// The probe row's values, each repeated `part` times, for the columns of the probe side.
    repeated: Vec<ArrayRef>,
}

impl LongRanges {
    /// For each probe position its row and its range of build positions, `total` matches together, of `row_bytes` bytes each in the mean.
    pub(crate) fn new(
        columns: Vec<RunColumn>,
        [rows, lo, hi]: [ScalarBuffer<u32>; 3],
        (total, row_bytes): (usize, usize),
        held: Reservations,
    ) -> Self {
        Self {
            columns,
            rows,
            lo,
            hi,
            total,
            row_bytes,
            next: 0,
            run: None,
            _held: held,
        }
    }

    /// Matches of the whole tile.
    pub(crate) fn rows(&self) -> usize {
        self.total
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The next matches, at most `batch_size` rows; `None` at the end.
    pub(crate) fn next_batch(
        &mut self,
        schema: &SchemaRef,
        batch_size: usize,
    ) -> Result<Option<RecordBatch>> {
        let mut run = match self.run.take() {
            Some(run) => run,
            None => match self.next_run(batch_size)? {
                Some(run) => run,
                None => return Ok(None),
            },
        };
        let len = run.part.min(run.hi - run.lo);
        let mut repeated = run.repeated.iter();
        let columns = self
            .columns
            .iter()
            .filter_map(|column| match column {
                RunColumn::Clustered(array) => Some(array.slice(run.lo, len)),
                RunColumn::Repeated(_) => repeated.next().map(|values| match len == run.part {
                    true => Arc::clone(values),
                    false => values.slice(0, len),
                }),
            })
            .collect();
        run.lo += len;
        if run.lo < run.hi {
            self.run = Some(run);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(len));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
        Ok(Some(batch))
    }

    /// The next probe position with matches; `None` at the end.
    fn next_run(&mut self, batch_size: usize) -> Result<Option<Run>> {
        while self.next < self.rows.len() && self.lo[self.next] >= self.hi[self.next] {
            self.next += 1;
        }
        let position = self.next;
        if position >= self.rows.len() {
            return Ok(None);
        }
        self.next += 1;
        let row = self.rows[position] as usize;
        let (lo, hi) = (self.lo[position] as usize, self.hi[position] as usize);
        let mut most = batch_size.clamp(1, BATCH_ROWS);
        for column in &self.columns {
            if let RunColumn::Repeated(array) = column {
                let bytes = gathered_bytes(array, &[row as u32])? as usize;
                most = most.min((REPEATED_BYTES / bytes.max(1)).max(1));
            }
        }
        let len = hi - lo;
        let part = len.div_ceil(len.div_ceil(most));
        let repeated = self
            .columns
            .iter()
            .filter_map(|column| match column {
                RunColumn::Clustered(_) => None,
                RunColumn::Repeated(array) => Some(repeat(array, row, part)),
            })
            .collect::<Result<_>>()?;
        Ok(Some(Run {
            lo,
            hi,
            part,
            repeated,
        }))
    }
}

/// `array[row]`, repeated `times` times.
fn repeat(array: &ArrayRef, row: usize, times: usize) -> Result<ArrayRef> {
    if array.is_null(row) {
        return Ok(new_null_array(array.data_type(), times));
    }
    Ok(downcast_primitive_array! {
        array => repeat_value(array, row, times),
        _ => take(array, &UInt32Array::from_value(row as u32, times), None)?,
    })
}

fn repeat_value<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    row: usize,
    times: usize,
) -> ArrayRef {
    let repeated = PrimitiveArray::<T>::from_value(array.value(row), times);
    match repeated.data_type() == array.data_type() {
        true => Arc::new(repeated),
        false => Arc::new(repeated.with_data_type(array.data_type().clone())),
    }
}
