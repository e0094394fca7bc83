//! [`Scatter`]: rows of a chunk by the hashes of their keys.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::error::{BowtieError, Result};
use crate::exec::input::chunk::InputChunk;
use crate::exec::memory::compact_views::compact_views;
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::partition::hash_partition::HashPartition;
use crate::exec::partition::keys::Keys;
use crate::exec::partition::limits::Limits;
use crate::exec::transfer::sizes::array_bytes;
use crate::exec::transfer::staged_chunk::{ChunkShape, StagedChunk};

/// Of hashes that nobody else spreads rows by: those of one partition, or of one file, go to all parts.
const SEED: u64 = 0x0070_6172_7473;

/// Bytes, about, that are copied beside a memory pool that has no room.
const CONCURRENT_BYTES: usize = 16 << 20;

/// How rows go to parts.
pub(crate) struct Scatter {
    pub keys: Keys,
    /// Of nothing: from the pool that copies are reserved in.
    pub reservation: Arc<MemoryReservation>,
}

/// Rows of a chunk, copied part by part.
pub(crate) struct Scattered {
    shape: ChunkShape,
    failures: Vec<(usize, Arc<DataFusionError>)>,
    pieces: Vec<Piece>,
    reservation: MemoryReservation,
}

/// Rows of one part.
struct Piece {
    part: usize,
    rows: usize,
    bytes: usize,
    /// Those of the chunk that are arrays.
    columns: Vec<ArrayRef>,
}

/// A chunk that was not copied, and why.
pub(crate) struct DoesNotFit {
    pub chunk: Box<InputChunk>,
    pub error: BowtieError,
}

impl Scatter {
    /// The rows of a chunk, for which what was reserved for it is reserved now.
    pub(crate) fn copy(
        &self,
        mut chunk: InputChunk,
        memory_limits: &Limits,
    ) -> std::result::Result<Scattered, DoesNotFit> {
        let leave_device = |chunk: &mut InputChunk| {
            step::shared(memory_limits.device.as_ref(), OnRefusal::Shrink, |_| {
                chunk.leave_device(memory_limits.spilling.as_ref())
            })
        };
        let copied = leave_device(&mut chunk).and_then(|()| {
            memory_limits.device.check_cancelled()?;
            self.keys_have_values(&chunk)?;
            let mut copied = match &chunk {
                InputChunk::Staged(staged) => self.rows_of(staged)?,
                InputChunk::Spilled(spilled) => self.rows_of(spilled.chunk()?.as_ref())?,
                InputChunk::Resident(_) => {
                    return Err(BowtieError::Internal("rows on the device".into()));
                }
            };
            match &chunk {
                // Nobody else shares it.
                InputChunk::Staged(staged) if Arc::strong_count(&staged.reservation) == 1 => {
                    copied.reservation = staged.reservation.split(staged.reservation.size());
                    // Bytes of a copy differ little: where there is no room for them, there is for those of the rows.
                    if copied.reservation.try_resize(copied.bytes()).is_err() {
                        return Ok(copied);
                    }
                }
                _ => copied.reservation.try_grow(copied.bytes())?,
            }
            Ok(copied)
        });
        copied.map_err(|error| DoesNotFit {
            chunk: Box::new(chunk),
            error,
        })
    }

    /// The rows of a chunk beside the memory pool, some at a time.
    pub(crate) fn copy_concurrently(
        &self,
        chunk: &InputChunk,
        take: &mut dyn FnMut(Scattered) -> Result<()>,
    ) -> Result<()> {
        match chunk {
            InputChunk::Staged(staged) => take(self.rows_of(staged)?),
            InputChunk::Spilled(spilled) => {
                spilled.each(CONCURRENT_BYTES, &mut |rows| take(self.rows_of(rows)?))
            }
            InputChunk::Resident(_) => Err(BowtieError::Internal("rows on the device".into())),
        }
    }

    /// A key without a value is the query's error, whether it meets rows of the other side or not.
    fn keys_have_values(&self, chunk: &InputChunk) -> Result<()> {
        let mut failures = chunk.failures().iter();
        match failures.find(|(column, _)| self.keys.columns.contains(column)) {
            Some((_, error)) => Err(BowtieError::DataFusion(Arc::clone(error))),
            None => Ok(()),
        }
    }

    /// Nothing is reserved for them yet.
    fn rows_of(&self, chunk: &StagedChunk) -> Result<Scattered> {
        let (shape, rows) = (chunk.shape(), chunk.rows());
        let keys = self.keys.columns.iter().map(|key| chunk.whole(*key));
        let by_partition = self.by_partition(&keys.collect::<Result<Vec<_>>>()?, rows)?;
        let columns = chunk.stored(&shape, 0..rows)?;
        let mut pieces = vec![];
        for (part, of_part) in by_partition.into_iter().enumerate() {
            if of_part.is_empty() {
                continue;
            }
            let (mut bytes, mut own) = (0, vec![]);
            for column in &columns {
                let piece = compact_views(take(column, &of_part, None)?)?;
                bytes += match piece.data_type() {
                    // All pieces share the values.
                    DataType::Dictionary(..) => array_bytes(column).div_ceil(rows) * of_part.len(),
                    _ => array_bytes(&piece),
                };
                own.push(piece);
            }
            pieces.push(Piece {
                part,
                rows: of_part.len(),
                bytes,
                columns: own,
            });
        }
        Ok(Scattered {
            shape,
            failures: chunk.failures.clone(),
            pieces,
            reservation: self.reservation.new_empty(),
        })
    }

    /// The rows of each part, in their order. Rows whose keys equal none, as one is NULL, go to all parts in turn.
    fn by_partition(&self, keys: &[ArrayRef], rows: usize) -> Result<Vec<UInt32Array>> {
        let mut hashes = vec![0; rows];
        create_hashes(keys, &RandomState::with_seed(SEED), &mut hashes)?;
        let parts = u64::from(self.keys.parts);
        for hash in &mut hashes {
            *hash = ((*hash >> 32) * parts) >> 32;
        }
        if !self.keys.null_equal {
            for nulls in keys.iter().filter_map(|key| key.logical_nulls()) {
                for row in (0..rows).filter(|row| nulls.is_null(*row)) {
                    hashes[row] = row as u64 % parts;
                }
            }
        }
        let mut counts = vec![0; self.keys.parts as usize];
        for part in &hashes {
            counts[*part as usize] += 1;
        }
        let mut by_partition: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
        for (row, part) in hashes.iter().enumerate() {
            by_partition[*part as usize].push(row as u32);
        }
        Ok(by_partition.into_iter().map(UInt32Array::from).collect())
    }
}

impl Scattered {
    pub(crate) fn rows(&self) -> usize {
        self.pieces.iter().map(|piece| piece.rows).sum()
    }

    fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Adds the rows to their parts.
    pub(crate) fn to(self, parts: &mut [HashPartition]) -> Result<()> {
        for piece in self.pieces {
            let reserved = piece.bytes.min(self.reservation.size());
            self.reservation.shrink(reserved);
            let part = &mut parts[piece.part];
            part.evict_others(&self.shape, piece.rows, piece.bytes, &piece.columns)?;
            part.push(piece.rows, piece.bytes, reserved, piece.columns);
            part.may_fail(&self.failures);
        }
        Ok(())
    }
}
