//! [`HashPartition`]: one hash partition of an input. In: copied rows. Out: chunks. Under memory pressure its rows are
//! spilled.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::error::Result;
use crate::exec::chunk::chunk_limits::ChunkLimits;
use crate::exec::chunk::sizes::elements_of;
use crate::exec::chunk::staged_chunk::{ChunkShape, StagedChunk};
use crate::exec::input::chunk::InputChunk;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::spilled_chunk::ChunkWriter;

/// The rows of a round whose keys have hashes in one range.
pub(crate) struct HashPartition {
    number: u32,
    limits: ChunkLimits,
    waiting: Waiting,
    reservation: MemoryReservation,
    /// The file with the first rows of the next chunk, if they were spilled.
    file: Option<ChunkWriter>,
    /// Finished chunks.
    chunks: Vec<InputChunk>,
}

/// The rows of the next chunk.
#[derive(Default)]
struct Waiting {
    shape: Option<ChunkShape>,
    /// The arrays of each stored column. Casts are not stored.
    columns: Vec<Vec<ArrayRef>>,
    /// These three include the rows in the file.
    rows: usize,
    bytes: usize,
    elements: usize,
    failures: Vec<(usize, Arc<DataFusionError>)>,
}

impl HashPartition {
    pub(crate) fn new(number: u32, limits: ChunkLimits, of: &MemoryReservation) -> Self {
        Self {
            number,
            limits,
            waiting: Waiting::default(),
            reservation: of.new_empty(),
            file: None,
            chunks: vec![],
        }
    }

    /// Prepares for a push. Ends the chunk if it would become too long with these rows, or if they have other columns.
    pub(crate) fn evict_others(
        &mut self,
        shape: &ChunkShape,
        rows: usize,
        bytes: usize,
        columns: &[ArrayRef],
    ) -> Result<()> {
        let elements = columns.iter().map(elements_of).max().unwrap_or(0);
        let waiting = &self.waiting;
        let fits = waiting.rows + rows <= self.limits.rows
            && waiting.bytes + bytes <= self.limits.bytes
            && waiting.elements + elements <= ChunkLimits::MOST_ELEMENTS
            && waiting.shape.as_ref().is_none_or(|known| known == shape);
        if !fits && waiting.rows > 0 {
            self.end_chunk()?;
        }
        self.waiting.elements += elements;
        if self.waiting.shape.is_none() {
            self.waiting.shape = Some(shape.clone());
            self.waiting.columns = vec![vec![]; columns.len()];
        }
        Ok(())
    }

    /// Adds rows of `bytes` bytes, of which the caller has freed `reserved` bytes in the memory pool.
    pub(crate) fn push(
        &mut self,
        rows: usize,
        bytes: usize,
        reserved: usize,
        columns: Vec<ArrayRef>,
    ) {
        self.reservation.grow(reserved);
        let waiting = &mut self.waiting;
        waiting.rows += rows;
        waiting.bytes += bytes;
        for (parts, column) in waiting.columns.iter_mut().zip(columns) {
            parts.push(column);
        }
    }

    /// Adds the evaluation failures of a chunk from which rows were added.
    pub(crate) fn may_fail(&mut self, failures: &[(usize, Arc<DataFusionError>)]) {
        let known = &mut self.waiting.failures;
        for (column, error) in failures {
            if known.iter().all(|(of, _)| of != column) {
                known.push((*column, Arc::clone(error)));
            }
        }
    }

    /// Spills all rows.
    pub(crate) fn spill(&mut self, spilling: &Spilling) -> Result<()> {
        for chunk in &mut self.chunks {
            chunk.leave_host(spilling)?;
        }
        let Some(staged) = self.staged() else {
            return Ok(());
        };
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(ChunkWriter::of(&staged, spilling)?),
        };
        file.append_chunk(&staged)
    }

    /// The waiting rows that are not in the file, if there are any.
    fn staged(&mut self) -> Option<StagedChunk> {
        let columns = &mut self.waiting.columns;
        let rows = columns.first()?.iter().map(|part| part.len()).sum();
        if rows == 0 {
            return None;
        }
        let parts = columns.iter_mut().map(std::mem::take).collect();
        let shape = self.waiting.shape.as_ref()?;
        let failures = self.waiting.failures.clone();
        let reservation = self.reservation.take();
        let staged = StagedChunk::restored(shape, rows, parts, failures, reservation);
        Some(staged.of_partition(self.number))
    }

    /// Finishes the current chunk.
    fn end_chunk(&mut self) -> Result<()> {
        let staged = self.staged();
        let chunk = match (self.file.take(), staged) {
            (Some(mut file), staged) => {
                if let Some(staged) = staged {
                    file.append_chunk(&staged)?;
                }
                let failures = std::mem::take(&mut self.waiting.failures);
                let chunk = file.finish(failures, &self.reservation)?;
                chunk.map(|chunk| InputChunk::Spilled(chunk.of_partition(self.number)))
            }
            (None, staged) => staged.map(InputChunk::Staged),
        };
        self.chunks.extend(chunk);
        self.waiting = Waiting::default();
        Ok(())
    }

    /// Takes over the rows of another partition if both fit into one chunk. Returns whether they do; then the other one
    /// is empty.
    pub(crate) fn absorb(&mut self, other: &mut Self) -> bool {
        let (these, those) = (&mut self.waiting, &other.waiting);
        let alone =
            |part: &[InputChunk], file: &Option<ChunkWriter>| part.is_empty() && file.is_none();
        let fits = alone(&self.chunks, &self.file)
            && alone(&other.chunks, &other.file)
            && these.rows + those.rows <= self.limits.rows
            && these.bytes + those.bytes <= self.limits.bytes
            && these.elements + those.elements <= ChunkLimits::MOST_ELEMENTS
            && (these.rows == 0 || those.rows == 0 || these.shape == those.shape);
        if !fits {
            return false;
        }
        let those = std::mem::take(&mut other.waiting);
        self.reservation.grow(other.reservation.free());
        if these.rows == 0 {
            *these = those;
            return true;
        }
        these.rows += those.rows;
        these.bytes += those.bytes;
        these.elements += those.elements;
        for (parts, more) in these.columns.iter_mut().zip(those.columns) {
            parts.extend(more);
        }
        self.may_fail(&those.failures);
        true
    }

    /// Takes all chunks out of the partition.
    pub(crate) fn finish(&mut self) -> Result<Vec<InputChunk>> {
        self.end_chunk()?;
        Ok(std::mem::take(&mut self.chunks))
    }
}
