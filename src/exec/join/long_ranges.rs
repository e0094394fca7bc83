//! [`LongRanges`]: the matches of a high-fan-out tile as slices. In: a counted tile without tests, flags or residual
//! filter. Out: record batches, made when a download reads them.
//!
//! A probe row's matches are a slice of the build columns, which are gathered into sorted order once, beside the row's
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
use crate::device::primitives::device::Device;
use crate::device::row_width::{gathered_bytes, mean_bytes};
use crate::error::{BowtieError, Result};
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::spec::join::{JoinSpec, Output};

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
    /// The reservations of device memory and of the memory pool for the arrays that `columns`, `rows`, `lo` and `hi`
    /// share.
    _held: (Vec<Arc<Column>>, Lease, Vec<Arc<MemoryReservation>>),
}

/// An output column.
#[derive(Debug)]
enum RunColumn {
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
    /// Whether a tile with `total` matches has enough of them a probe row to be emitted as slices.
    pub(crate) fn pay(device: &dyn Device, tile: &ProbedTile, total: u64) -> bool {
        let positions = tile.search.positions().max(1) as u64;
        // Where a set predicate lists the build rows of each probe row, the columns would be copied for each list.
        tile.search.is_untested()
            && tile.search.set_tally().is_none()
            && device
                .profile()
                .long_range
                .is_some_and(|run| total / positions >= run)
    }

    /// Gathers the build columns into sorted order and downloads all columns and ranges.
    pub(crate) fn new(
        device: &dyn Device,
        spec: &JoinSpec,
        tile: &ProbedTile,
        total: u64,
    ) -> Result<Self> {
        let mut held = vec![];
        let mut row_bytes = 0;
        let mut mean = |array: &ArrayRef| -> Result<()> {
            row_bytes += mean_bytes(array)? as usize;
            Ok(())
        };
        let columns = spec
            .output
            .iter()
            .map(|output| match output {
                Output::Column(side, i) if *side == tile.search.build_side => {
                    let column = tile.search.cluster(device, tile.of(*side).column(*i)?)?;
                    let array = device.download(&column)?;
                    mean(&array)?;
                    held.push(Arc::new(column));
                    Ok(RunColumn::Clustered(array))
                }
                Output::Column(side, i) => {
                    let column = tile.of(*side).column(*i)?;
                    let array = device.download(column)?;
                    mean(&array)?;
                    held.push(Arc::clone(column));
                    Ok(RunColumn::Repeated(array))
                }
                Output::Mark | Output::Value(_) => {
                    Err(BowtieError::Internal("no column of long ranges".into()))
                }
            })
            .collect::<Result<_>>()?;
        let bytes = tile.search.positions() as u64 * 12;
        let lease = device.budget().lease(bytes, "long ranges")?;
        let [rows, lo, hi] = tile.search.ranges(device)?;
        Ok(Self {
            columns,
            rows,
            lo,
            hi,
            total: usize::try_from(total).unwrap_or(usize::MAX),
            row_bytes,
            next: 0,
            run: None,
            _held: (held, lease, tile.reservations.clone()),
        })
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
