//! [`SortRun`]: the rows of a sort so far. In: one chunk after the other. Out: all rows in order on the device, or sorted runs on the host.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::device::primitives::keys::SortKey;
use crate::error::{BowtieError, IfItFits as _, Result};
use crate::exec::input::chunk::InputChunk;
use crate::exec::input::gathered::evict_each;
use crate::exec::memory::compact_views::{compact_views, has_views};
use crate::exec::memory::on_request::Evictable;
use crate::exec::memory::shrink::{Answer, Halving, Part, by_halves};
use crate::exec::memory::spill::{Spilling, spilled_rows};
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::metrics::DeviceMetrics;
use crate::exec::sort::run_writer::{Run, RunWriter};
use crate::exec::sort::sorted_rows::{SortedRows, gathered};
use crate::exec::transfer::chunker::has_small_dictionary;
use crate::ir::limits::MAX_CHUNK_ROWS;
use crate::spec::sort::SortSpec;

/// Parts of a chunk are halved down to 64 rows.
const HALVING: Halving = Halving {
    least: 32,
    aligned: 1,
};

/// The best rows of several chunks are merged once there are more than this multiple of the wanted ones.
const MOST_BEST: usize = 4;

/// Bytes of device memory for a row's key words and row ids while it is sorted.
const WORK_BYTES: u64 = 44;

/// The state of a sort between two chunks.
pub(crate) struct SortRun {
    pub(crate) spec: Arc<SortSpec>,
    /// The input's.
    pub(crate) schema: SchemaRef,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) needs: Vec<Need>,
    pub(crate) spilling: Option<Spilling>,
    pub(crate) pool: Arc<dyn MemoryPool>,
    pub(crate) metrics: DeviceMetrics,
    /// All rows so far, but those that are not among the first ones.
    pub(crate) chunks: Vec<InputChunk>,
    /// The rows that last did not fit together; 0: they did.
    pub(crate) unmerged: usize,
}

/// All rows of a sort, in order.
pub(crate) enum Sorted {
    Nothing,
    OnDevice(Box<SortedRows>),
    Runs(Vec<Run>),
}

impl Evictable for SortRun {
    fn holds_device_memory(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.resident().is_some())
    }

    fn evict_for_others(&mut self) -> Result<()> {
        self.leave_device()
    }
}

impl SortRun {
    /// All columns are needed on the device.
    pub(crate) fn needs(schema: &SchemaRef) -> Vec<Need> {
        vec![Need::Now; schema.fields().len()]
    }

    /// Adds the rows of a chunk.
    pub(crate) fn push(&mut self, chunk: InputChunk) -> Result<()> {
        chunk.check_evaluated(|_| true)?;
        self.metrics.chunks.add(1);
        match self.spec.fetch {
            Some(fetch) if fetch < chunk.rows() => self.push_best(chunk, fetch)?,
            _ => self.chunks.push(chunk),
        }
        if let Some(fetch) = self.spec.fetch
            && self.chunks.len() > 1
            && self.can_be_concatenated()
            && self.rows() / MOST_BEST > fetch
            && self.rows() / 2 >= self.unmerged
        {
            // What does not fit is tried again with twice as many rows, and merged at the end.
            self.unmerged = match self.merge_best(fetch).if_it_fits()? {
                Some(()) => 0,
                None => self.rows(),
            };
        }
        if self.device.budget().is_scarce(0) {
            self.leave_device()?;
        }
        let full = self.spilling.as_ref().is_some_and(Spilling::pool_is_full);
        match full {
            true => self.leave_pool(),
            false => Ok(()),
        }
    }

    fn rows(&self) -> usize {
        self.chunks.iter().map(InputChunk::rows).sum()
    }

    /// Spills the chunks that are on the host.
    pub(crate) fn leave_pool(&mut self) -> Result<()> {
        if let Some(spilling) = &self.spilling {
            for chunk in &mut self.chunks {
                chunk.leave_host(spilling)?;
            }
        }
        Ok(())
    }

    /// Downloads the chunks that are on the device.
    fn leave_device(&mut self) -> Result<()> {
        let spilling = self.spilling.as_ref();
        evict_each(self.chunks.iter_mut(), self.device.as_ref(), spilling)
    }

    /// Adds the first `fetch` rows of a chunk, or of each of its parts.
    fn push_best(&mut self, mut chunk: InputChunk, fetch: usize) -> Result<()> {
        let mut best = vec![];
        self.each_part(&mut chunk, &mut best, |run, chunk, rows, best| {
            let batch = run.upload(chunk, rows)?;
            best.push(run.best(&batch, fetch)?);
            Ok(())
        })?;
        let best = best.into_iter().map(|best| self.kept(best));
        let best: Vec<InputChunk> = best.collect();
        self.chunks.extend(best);
        Ok(())
    }

    /// Does `work` on the rows of a chunk, together if memory allows, otherwise in parts.
    fn each_part<T>(
        &self,
        chunk: &mut InputChunk,
        made: &mut Vec<T>,
        work: impl Fn(&Self, &InputChunk, &Range<usize>, &mut Vec<T>) -> Result<()>,
    ) -> Result<()> {
        let device = self.device.as_ref();
        let rows = 0..chunk.rows();
        let attempt = |(chunk, made): &mut (&mut InputChunk, &mut Vec<T>), part: &Part| {
            let attempt = |made: &mut &mut Vec<T>| work(self, chunk, &part.rows, made);
            match part.is_last && chunk.resident().is_none() {
                true => step::retried(device, made, |made, _| attempt(made), |_| true),
                false => step::shared(device, OnRefusal::Shrink, |_| attempt(made)),
            }
        };
        let answer = |(chunk, _): &mut (&mut InputChunk, &mut Vec<T>), error: &BowtieError| {
            if !error.is_divisible() && !error.is_out_of_host_memory() {
                return Ok(Answer::Fail);
            }
            if error.is_out_of_device_memory() && chunk.resident().is_some() {
                let evicted = step::shared(device, OnRefusal::Shrink, |_| {
                    Ok(chunk.evict(self.spilling.as_ref()))
                })?;
                if evicted {
                    return Ok(Answer::Repeat);
                }
            }
            Ok(Answer::Halve)
        };
        by_halves(&mut (chunk, made), rows, HALVING, attempt, answer)?;
        let peak = self.device.budget().peak();
        self.metrics.peak_device_bytes.set_max(peak as usize);
        Ok(())
    }

    fn upload(&self, chunk: &InputChunk, rows: &Range<usize>) -> Result<DeviceBatch> {
        chunk.upload(self.device.as_ref(), rows, &self.needs, &self.metrics)
    }

    /// Row ids of a batch in order, the first `fetch` of them.
    fn in_order(&self, batch: &DeviceBatch, fetch: Option<usize>) -> Result<Buffer<u32>> {
        let _timer = self.metrics.prepare_time.timer();
        let keys = self.spec.keys.iter().map(|key| {
            Ok(SortKey {
                column: batch.column(key.column)?,
                options: key.options,
            })
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        self.device.sort_rows(batch.rows(), &keys, fetch)
    }

    /// The first `fetch` rows of a batch.
    fn best(&self, batch: &DeviceBatch, fetch: usize) -> Result<DeviceBatch> {
        let rows = self.in_order(batch, Some(fetch))?;
        let _timer = self.metrics.output_time.timer();
        let device = self.device.as_ref();
        let best = gathered(device, batch, &rows, batch.columns())?;
        // A few rows must not keep the text of whole chunks alive.
        let keeps_text = |i: usize, column: &Column| {
            has_views(self.schema.field(i).data_type())
                && (!column.is_resident() || device.keeps_text_on_host(column))
        };
        let columns = (0..best.columns()).map(|i| {
            let column = best.any(i)?;
            Ok(Some(match keeps_text(i, column.moved()) {
                true => device
                    .upload(&[compact_views(column.download(device)?)?])?
                    .into(),
                false => column.clone(),
            }))
        });
        Ok(DeviceBatch::new(
            best.rows(),
            columns.collect::<Result<_>>()?,
        ))
    }

    /// A batch as a chunk that is kept.
    fn kept(&self, batch: DeviceBatch) -> InputChunk {
        let consumer = MemoryConsumer::new("BowtieSort[evicted]");
        let reservation = consumer.register(&self.pool);
        InputChunk::of_batch(batch, &self.device, &self.schema, reservation)
    }

    /// The first `fetch` rows of all chunks in place of these. After a failure they are unchanged.
    fn merge_best(&mut self, fetch: usize) -> Result<()> {
        let best = step::shared(self.device.as_ref(), OnRefusal::Shrink, |_| {
            self.best(&self.together()?, fetch)
        })?;
        self.chunks = vec![self.kept(best)];
        Ok(())
    }

    /// Whether the rows of several chunks can be one batch: the keys of small dictionaries may not tell all their values apart.
    fn can_be_concatenated(&self) -> bool {
        let mut fields = self.schema.fields().iter();
        !fields.any(|field| has_small_dictionary(field.data_type()))
    }

    /// All rows as one batch on the device.
    fn together(&self) -> Result<DeviceBatch> {
        let parts = self.chunks.iter().map(|c| self.upload(c, &(0..c.rows())));
        let parts = parts.collect::<Result<Vec<DeviceBatch>>>()?;
        if let [part] = parts.as_slice() {
            return Ok(part.clone());
        }
        let columns = (0..self.needs.len()).map(|i| {
            let columns = parts.iter().map(|part| part.any(i));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            BatchColumn::concat(self.device.as_ref(), &columns).map(Some)
        });
        let rows = parts.iter().map(DeviceBatch::rows).sum();
        Ok(DeviceBatch::new(rows, columns.collect::<Result<_>>()?))
    }

    /// All rows in order.
    pub(crate) fn finish(&mut self) -> Result<Sorted> {
        if self.rows() == 0 {
            return Ok(Sorted::Nothing);
        }
        match self.sorted_on_device()? {
            Some(sorted) => {
                self.chunks.clear();
                Ok(Sorted::OnDevice(Box::new(sorted)))
            }
            None => self.runs().map(Sorted::Runs),
        }
    }

    /// All rows in order on the device; `None` where they do not fit together.
    fn sorted_on_device(&mut self) -> Result<Option<SortedRows>> {
        let mut bytes = 0;
        for chunk in &self.chunks {
            bytes += chunk.bytes()?;
        }
        let copies = match self.chunks.len() {
            1 => 1,
            _ => 2,
        };
        let rows = self.rows();
        let needed = (bytes * copies).saturating_add(rows as u64 * WORK_BYTES);
        let device = Arc::clone(&self.device);
        let apart = copies > 1 && !self.can_be_concatenated();
        if apart || rows > MAX_CHUNK_ROWS || needed > device.budget().limit() {
            return Ok(None);
        }
        let sort = |run: &mut Self, _: &step::Step<'_>| {
            let batch = run.together()?;
            let order = run.in_order(&batch, run.spec.fetch)?;
            Ok((batch, order))
        };
        let sorted = step::retried_if_it_fits(device.as_ref(), self, sort, |_| true);
        let sorted = sorted.if_it_fits()?;
        let peak = device.budget().peak();
        self.metrics.peak_device_bytes.set_max(peak as usize);
        Ok(sorted.map(|(batch, order)| {
            let columns = self.spec.schema.fields().len();
            SortedRows::new(device, batch, order, columns, self.metrics.clone())
        }))
    }

    /// All rows in sorted runs on the host: of each chunk one, or one of each part of it.
    fn runs(&mut self) -> Result<Vec<Run>> {
        let mut runs = vec![];
        self.leave_device()?;
        for mut chunk in std::mem::take(&mut self.chunks) {
            self.each_part(&mut chunk, &mut runs, |run, chunk, rows, runs| {
                let batch = run.upload(chunk, rows)?;
                runs.extend(run.sorted_run(&batch, runs)?);
                Ok(())
            })?;
            chunk.unload();
        }
        Ok(runs)
    }

    /// The rows of a batch in order, on the host.
    fn sorted_run(&self, batch: &DeviceBatch, others: &[Run]) -> Result<Option<Run>> {
        let device = self.device.as_ref();
        let order = self.in_order(batch, self.spec.fetch)?;
        let each = spilled_rows(batch.bytes() as usize / batch.rows().max(1));
        let mut writer = RunWriter::new(&self.schema, &self.pool, self.spilling.as_ref(), others);
        for from in (0..order.len()).step_by(each) {
            let some = device.row_slice(&order, from..(from + each).min(order.len()))?;
            let piece = gathered(device, batch, &some, batch.columns())?;
            writer.append(piece.download(device, &self.schema)?)?;
        }
        writer.finish()
    }
}
