//! [`SpilledChunk`]: a chunk of a join's left side in a file, which comes back when its turn comes in the walk of the matrix.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::spill_file::SpillFile;
use parking_lot::Mutex;

use super::spill::{SPILLED_ROWS, Spilling};
use crate::error::Result;
use crate::stream::{ChunkShape, Failures, StagedChunk, batch_bytes};

/// Rows in a file, and in memory as long as somebody works on them.
pub(super) struct SpilledChunk {
    rows: usize,
    schema: SchemaRef,
    file: Arc<dyn SpillFile>,
    shape: ChunkShape,
    failures: Vec<(usize, Arc<DataFusionError>)>,
    /// By column.
    mean_bytes: Vec<u64>,
    /// Bytes of all rows.
    bytes: usize,
    spilling: Spilling,
    /// Of nothing.
    reservation: Arc<MemoryReservation>,
    loaded: Mutex<Option<Arc<StagedChunk>>>,
}

impl SpilledChunk {
    /// `None` where there is nothing to write.
    pub(super) fn write(chunk: &StagedChunk, spilling: &Spilling) -> Result<Option<Self>> {
        let shape = chunk.shape();
        let stored = |rows: Range<usize>| chunk.stored(&shape, rows);
        let fields = stored(0..0)?;
        let fields = fields.iter().enumerate().map(|(i, array)| {
            let data_type = array.data_type().clone();
            Field::new(format!("c{i}"), data_type, true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut writer = spilling.create(&schema, "BowtieJoin")?;
        let mut bytes = 0;
        for begin in (0..chunk.rows()).step_by(SPILLED_ROWS) {
            let rows = begin..(begin + SPILLED_ROWS).min(chunk.rows());
            if schema.fields().is_empty() {
                return Ok(None);
            }
            let batch = RecordBatch::try_new(Arc::clone(&schema), stored(rows)?)?;
            bytes += batch_bytes(&batch);
            writer.append(&batch)?;
        }
        let Some(file) = writer.finish()? else {
            return Ok(None);
        };
        let mean_bytes = (0..shape.columns()).map(|column| chunk.mean_bytes(column));
        Ok(Some(Self {
            rows: chunk.rows(),
            schema,
            file,
            mean_bytes: mean_bytes.collect::<Result<_>>()?,
            shape,
            failures: chunk.failures.clone(),
            bytes,
            spilling: spilling.clone(),
            reservation: Arc::new(chunk.reservation.new_empty()),
            loaded: Mutex::new(None),
        }))
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn failures(&self) -> &Failures {
        &self.failures
    }

    pub(super) fn mean_bytes(&self, column: usize) -> u64 {
        self.mean_bytes[column]
    }

    /// What is reserved for the rows, as long as they are in memory.
    pub(super) fn reservation(&self) -> Arc<MemoryReservation> {
        let loaded = self.loaded.lock();
        let reserved = loaded.as_ref().map(|chunk| &chunk.reservation);
        Arc::clone(reserved.unwrap_or(&self.reservation))
    }

    /// The rows, read if they are not there. Not for a thread that may not block.
    pub(super) fn chunk(&self) -> Result<Arc<StagedChunk>> {
        let mut loaded = self.loaded.lock();
        if let Some(chunk) = loaded.as_ref() {
            return Ok(Arc::clone(chunk));
        }
        let reservation = self.reservation.new_empty();
        reservation.try_grow(self.bytes)?;
        let mut columns = vec![vec![]; self.schema.fields().len()];
        for batch in self.spilling.read(&self.schema, &self.file)? {
            for (parts, array) in columns.iter_mut().zip(batch?.columns()) {
                parts.push(Arc::clone(array));
            }
        }
        let failures = self.failures.clone();
        let chunk = StagedChunk::restored(&self.shape, self.rows, columns, failures, reservation);
        let chunk = Arc::new(chunk);
        *loaded = Some(Arc::clone(&chunk));
        Ok(chunk)
    }

    /// Gives the memory of the rows back, once nobody works on them any more.
    pub(super) fn unload(&self) {
        *self.loaded.lock() = None;
    }
}

impl std::fmt::Debug for SpilledChunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpilledChunk")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
