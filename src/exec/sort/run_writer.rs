//! [`Run`]: sorted rows on the host, in memory or in a file, and the [`RunWriter`] that makes it.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::sorts::streaming_merge::SortedSpillFile;

use crate::error::Result;
use crate::exec::chunk::sizes::batch_bytes;
use crate::exec::memory::compact_views::compact_views;
use crate::exec::memory::spill::{SpillWriter, Spilling};

/// Sorted rows on the host.
pub(crate) enum Run {
    /// Reserved in the memory pool.
    InMemory(Vec<RecordBatch>, MemoryReservation),
    InFile(SortedSpillFile),
}

impl Run {
    fn reserved(&self) -> usize {
        match self {
            Self::InMemory(_, reservation) => reservation.size(),
            Self::InFile(_) => 0,
        }
    }
}

/// Writes a run: to memory as long as a quarter of the pool suffices, otherwise to a file.
pub(crate) struct RunWriter<'a> {
    schema: &'a SchemaRef,
    spilling: Option<&'a Spilling>,
    batches: Vec<RecordBatch>,
    reservation: MemoryReservation,
    file: Option<SpillWriter>,
    /// Bytes of the largest batch.
    largest: usize,
    /// Bytes of other runs in memory.
    others: usize,
}

impl<'a> RunWriter<'a> {
    pub(crate) fn new(
        schema: &'a SchemaRef,
        pool: &Arc<dyn MemoryPool>,
        spilling: Option<&'a Spilling>,
        others: &[Run],
    ) -> Self {
        let consumer = MemoryConsumer::new("BowtieSort[runs]").with_can_spill(spilling.is_some());
        Self {
            schema,
            spilling,
            batches: vec![],
            reservation: consumer.register(pool),
            file: None,
            largest: 0,
            others: others.iter().map(Run::reserved).sum(),
        }
    }

    /// Whether runs take so much of the pool that a merge of them may find no memory: it needs about as much as a batch of each.
    fn take_too_much(&self, spilling: &Spilling) -> bool {
        let reserved = self.others + self.reservation.size();
        reserved > spilling.most / 2 || spilling.pool_is_full()
    }

    /// Appends rows.
    pub(crate) fn append(&mut self, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        // Other rows' text must not be kept alive, nor written.
        let columns = batch.columns().iter().cloned().map(compact_views);
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(self.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        self.largest = self.largest.max(batch.get_array_memory_size());
        if let Some(file) = &mut self.file {
            return Ok(file.append(&batch)?);
        }
        let reserved = self.reservation.try_grow(batch_bytes(&batch));
        self.batches.push(batch);
        match self.spilling {
            Some(spilling) if reserved.is_err() || self.take_too_much(spilling) => {
                let mut file = spilling.create(self.schema, "BowtieSort")?;
                for batch in self.batches.drain(..) {
                    file.append(&batch)?;
                }
                self.reservation.free();
                self.file = Some(file);
                Ok(())
            }
            _ => Ok(reserved?),
        }
    }

    /// The run; `None` without rows.
    pub(crate) fn finish(self) -> Result<Option<Run>> {
        let Some(file) = self.file else {
            let run = (!self.batches.is_empty()).then_some(self.batches);
            return Ok(run.map(|batches| Run::InMemory(batches, self.reservation)));
        };
        let file = file.finish()?;
        Ok(file.map(|file| {
            Run::InFile(SortedSpillFile {
                file,
                max_record_batch_memory: self.largest,
            })
        }))
    }
}
