//! [`Scatter`]: copies the rows of a chunk to hash partitions, on the host.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::error::{BowtieError, Result};
use crate::exec::chunk::sizes::array_bytes;
use crate::exec::chunk::staged_chunk::{ChunkShape, StagedChunk};
use crate::exec::input::chunk::InputChunk;
use crate::exec::memory::compact_views::compact_views;
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::partition::hash_partition::HashPartition;
use crate::exec::partition::keys::Keys;
use crate::exec::partition::limits::Limits;

/// A seed that no other hash of rows uses, so that the rows of one DataFusion partition, or of one spill file, are
/// spread over all partitions here.
const SEED: u64 = 0x0070_6172_7473;

/// About the most bytes that are copied outside the memory pool when it refuses memory.
const CONCURRENT_BYTES: usize = 16 << 20;

/// How rows are assigned to partitions.
pub(crate) struct Scatter {
    pub keys: Keys,
    /// An empty reservation, from which those of copies are made.
    pub reservation: Arc<MemoryReservation>,
}

/// The rows of a chunk, copied partition by partition.
pub(crate) struct Scattered {
    shape: ChunkShape,
    failures: Vec<(usize, Arc<DataFusionError>)>,
    pieces: Vec<Piece>,
    reservation: MemoryReservation,
}

/// The rows of one partition.
struct Piece {
    partition: usize,
    rows: usize,
    bytes: usize,
    /// The stored columns of the chunk. Casts are not stored.
    columns: Vec<ArrayRef>,
}

/// A chunk that could not be copied, with the error.
pub(crate) struct DoesNotFit {
    pub chunk: Box<InputChunk>,
    pub error: BowtieError,
}

impl Scatter {
    /// Copies the rows of a chunk. A resident chunk is downloaded first. The chunk's reservation becomes that of the
    /// copy.
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
            chunk.check_evaluated(|column| self.keys.columns.contains(&column))?;
            let mut copied = match &chunk {
                InputChunk::Staged(staged) => self.rows_of(staged)?,
                InputChunk::Spilled(spilled) => self.rows_of(spilled.chunk()?.as_ref())?,
                InputChunk::Resident(_) => {
                    return Err(BowtieError::Internal("rows on the device".into()));
                }
            };
            match &chunk {
                // No other chunk shares the reservation.
                InputChunk::Staged(staged) if Arc::strong_count(&staged.reservation) == 1 => {
                    copied.reservation = staged.reservation.split(staged.reservation.size());
                    // The copy has about as many bytes as the rows. If the pool refuses the difference, it keeps the
                    // reservation of the rows.
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

    /// Copies the rows of a chunk without a reservation, some at a time.
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

    /// Copies the rows of a chunk without a reservation.
    fn rows_of(&self, chunk: &StagedChunk) -> Result<Scattered> {
        let (shape, rows) = (chunk.shape(), chunk.rows());
        let keys = self.keys.columns.iter().map(|key| chunk.whole(*key));
        let by_partition = self.by_partition(&keys.collect::<Result<Vec<_>>>()?, rows)?;
        let columns = chunk.stored(&shape, 0..rows)?;
        let mut pieces = vec![];
        for (partition, of_part) in by_partition.into_iter().enumerate() {
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
                partition,
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

    /// The rows of each partition, in input order. Rows with a NULL key that equals nothing are spread over all
    /// partitions.
    fn by_partition(&self, keys: &[ArrayRef], rows: usize) -> Result<Vec<UInt32Array>> {
        let mut hashes = vec![0; rows];
        create_hashes(keys, &RandomState::with_seed(SEED), &mut hashes)?;
        let partitions = u64::from(self.keys.partitions);
        for hash in &mut hashes {
            *hash = ((*hash >> 32) * partitions) >> 32;
        }
        if !self.keys.null_equal {
            for nulls in keys.iter().filter_map(|key| key.logical_nulls()) {
                for row in (0..rows).filter(|row| nulls.is_null(*row)) {
                    hashes[row] = row as u64 % partitions;
                }
            }
        }
        let mut counts = vec![0; self.keys.partitions as usize];
        for partition in &hashes {
            counts[*partition as usize] += 1;
        }
        let mut by_partition: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
        for (row, partition) in hashes.iter().enumerate() {
            by_partition[*partition as usize].push(row as u32);
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

    /// Adds the rows to their partitions.
    pub(crate) fn to(self, partitions: &mut [HashPartition]) -> Result<()> {
        for piece in self.pieces {
            let reserved = piece.bytes.min(self.reservation.size());
            self.reservation.shrink(reserved);
            let partition = &mut partitions[piece.partition];
            partition.evict_others(&self.shape, piece.rows, piece.bytes, &piece.columns)?;
            partition.push(piece.rows, piece.bytes, reserved, piece.columns);
            partition.may_fail(&self.failures);
        }
        Ok(())
    }
}
