//! Long ranges come out as runs: a slice of the sorted side's columns, which need no copy once they are in sorted order,
//! beside the searching row's values, repeated. So a high selectivity costs no more than a low one, and what crosses the
//! border is the columns of both sides, not their pairs.

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

/// Rows of a batch, whatever the session allows: repeated values stay in cache.
const BATCH_ROWS: usize = 8192;

/// A repeated value takes at most so many bytes in one batch, unless it is wider by itself.
pub(crate) const REPEATED_BYTES: usize = 1 << 20;

/// The pairs of a tile in which nothing is tested, one searching row after the other.
///
/// They are made where they are read: a batch costs a few allocations, and the values that are repeated stay in cache.
#[derive(Debug)]
pub(crate) struct LongRanges {
    columns: Vec<RunColumn>,
    /// Of each searching position its row, and its range `lo .. hi` of the clustered columns.
    rows: ScalarBuffer<u32>,
    lo: ScalarBuffer<u32>,
    hi: ScalarBuffer<u32>,
    total: usize,
    /// Mean bytes of a row of output.
    row_bytes: usize,
    next: usize,
    run: Option<Run>,
    /// Keeps the leases of what `columns`, `rows`, `lo` and `hi` share, and the pool's reservations.
    _held: (Vec<Arc<Column>>, Lease, Vec<Arc<MemoryReservation>>),
}

/// A column of the output.
#[derive(Debug)]
enum RunColumn {
    /// Of the sorted side, in sorted order.
    Clustered(ArrayRef),
    /// Of the searching side.
    Repeated(ArrayRef),
}

/// The pairs of one searching row that are still to come.
#[derive(Debug)]
struct Run {
    lo: usize,
    hi: usize,
    /// Rows of a batch: parts of a run are about equal, so that none is small.
    part: usize,
    /// The searching row's values, `part` times, for the columns that repeat them.
    repeated: Vec<ArrayRef>,
}

impl LongRanges {
    /// Whether runs pay for a tile with `total` pairs.
    pub(crate) fn pay(device: &dyn Device, tile: &ProbedTile, total: u64) -> bool {
        let positions = tile.search.positions().max(1) as u64;
        // Where a row of the sorted side may match many rows, its columns would be copied as often.
        tile.search.is_untested()
            && tile.search.set_tally().is_none()
            && device
                .profile()
                .long_range
                .is_some_and(|run| total / positions >= run)
    }

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
                Output::Column(side, i) if *side == spec.theta.build => {
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
                Output::Mark => Err(BowtieError::Internal(
                    "a mark column among output rows".into(),
                )),
            })
            .collect::<Result<_>>()?;
        let bytes = tile.search.positions() as u64 * 12;
        let lease = device.budget().lease(bytes, "runs")?;
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

    /// Pairs of the whole tile.
    pub(crate) fn rows(&self) -> usize {
        self.total
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The next pairs, at most `batch_size` of them; `None` at the end.
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

/// `array[row]`, `times` times.
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
