//! [`Batches`]: what a download returns. In: downloaded chunks, of any size. Out: record batches of the session's size.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;

use crate::exec::chunk::long_ranges::{LongRanges, REPEATED_BYTES};
use crate::exec::chunk::staged_chunk::StagedChunk;
use crate::exec::metrics::OutputMetrics;
use crate::exec::transfer::chunker::has_small_dictionary;

/// The most bytes of a column that are copied together for one whole batch.
const MOST_COPIED_BYTES: usize = 1 << 30;

/// A downloaded chunk.
pub(super) enum HostChunk {
    Rows(RecordBatch),
    Staged(StagedChunk),
    LongRanges(Box<LongRanges>),
}

/// Slices and coalesces pieces to batches of the session's size, up to `fetch` rows.
pub(super) struct Batches {
    schema: SchemaRef,
    batch_size: usize,
    ready: VecDeque<RecordBatch>,
    /// Long ranges that are being returned.
    long_ranges: Option<Box<LongRanges>>,
    coalescer: BatchCoalescer,
    /// Rows until the limit, if there is one.
    remaining: Option<usize>,
    /// Whether the rows have an order, which batches must keep.
    is_ordered: bool,
    pub(super) metrics: Arc<OutputMetrics>,
}

impl Batches {
    /// Batches of up to `batch_size` rows, and of `remaining` rows together, if there is a limit. `is_ordered`: whether the rows have an
    /// order.
    pub(super) fn new(
        schema: SchemaRef,
        batch_size: usize,
        remaining: Option<usize>,
        is_ordered: bool,
        metrics: Arc<OutputMetrics>,
    ) -> Self {
        Self {
            coalescer: BatchCoalescer::new(Arc::clone(&schema), batch_size),
            schema,
            batch_size,
            ready: VecDeque::new(),
            long_ranges: None,
            remaining,
            is_ordered,
            metrics,
        }
    }

    /// Adds a downloaded chunk.
    pub(super) fn push(&mut self, chunk: HostChunk) -> Result<()> {
        match chunk {
            HostChunk::Rows(batch) => self.push_rows(batch),
            HostChunk::Staged(chunk) => {
                let batch = chunk.batch(&self.schema)?;
                self.metrics.bytes.add(batch.get_array_memory_size());
                self.push_rows(batch)
            }
            HostChunk::LongRanges(long_ranges) => {
                self.long_ranges = Some(long_ranges);
                Ok(())
            }
        }
    }

    /// The next finished batch; `None` if another chunk is needed.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            let batch = match &mut self.long_ranges {
                Some(long_ranges) if self.remaining != Some(0) => {
                    let batch = long_ranges.next_batch(&self.schema, self.batch_size)?;
                    let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
                    self.metrics.bytes.add(rows * long_ranges.row_bytes());
                    batch
                }
                _ => None,
            };
            let Some(batch) = batch else {
                self.long_ranges = None;
                return Ok(None);
            };
            self.push_rows(batch)?;
        }
    }

    /// Adds rows, up to the limit.
    fn push_rows(&mut self, mut batch: RecordBatch) -> Result<()> {
        if let Some(remaining) = &mut self.remaining {
            if batch.num_rows() > *remaining {
                batch = batch.slice(0, *remaining);
            }
            *remaining -= batch.num_rows();
        }
        if batch.num_rows() == 0 {
            return Ok(());
        }
        // A piece of at least an eighth of a batch is returned as it is, before smaller ones that are still being
        // coalesced. Copying it would cost more than the overhead of a batch, and most rows have no order.
        if batch.num_rows() < self.batch_size.div_ceil(8)
            && !must_not_be_coalesced(&batch, self.batch_size)?
        {
            self.coalescer.push_batch(batch)?;
            while let Some(batch) = self.coalescer.next_completed_batch() {
                self.ready.push_back(batch);
            }
            return Ok(());
        }
        if self.is_ordered {
            self.finish()?;
        }
        if batch.num_rows() <= self.batch_size {
            self.ready.push_back(batch);
        } else {
            for from in (0..batch.num_rows()).step_by(self.batch_size) {
                let rows = self.batch_size.min(batch.num_rows() - from);
                self.ready.push_back(batch.slice(from, rows));
            }
        }
        Ok(())
    }

    /// Finishes the batch that is being coalesced.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.coalescer.finish_buffered_batch()?;
        self.ready.extend(self.coalescer.next_completed_batch());
        Ok(())
    }

    pub(super) fn is_satisfied(&self) -> bool {
        self.remaining == Some(0)
    }
}

/// Whether a batch must not be coalesced. The values of several dictionaries may overflow small keys, long text may
/// overflow 32-bit offsets, and a large amount of either is not worth the copy.
fn must_not_be_coalesced(batch: &RecordBatch, batch_size: usize) -> Result<bool> {
    for array in batch.columns() {
        let data_type = array.data_type();
        if data_type.primitive_width().is_some() {
            continue;
        }
        let mean = crate::device::row_width::mean_bytes(array)? as usize;
        if has_small_dictionary(data_type)
            || mean.saturating_mul(batch_size) > MOST_COPIED_BYTES
            || mean.saturating_mul(batch.num_rows()) >= REPEATED_BYTES
        {
            return Ok(true);
        }
    }
    Ok(false)
}
