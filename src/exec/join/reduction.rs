//! [`Reduction`]: drops the rows of a right chunk whose key no left row has, before the chunk is indexed or probed. In: a chunk. Out: its
//! rows that may have a match.
//!
//! It pays where the left side is much shorter and equal keys are not the whole condition: such a join sorts what it indexes. One pass with a
//! bit for each key of the left side's range costs a small part of that.

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange, are_addresses};
use crate::device::primitives::device::Device;
use crate::error::{IfItFits as _, Result};
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::memory::step::Step;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::spec::join::JoinSpec;

/// The least multiple of the left side's rows that a chunk must have.
const MUCH_LONGER: usize = 2;
/// Chunks of fewer rows are joined faster than they are reduced.
const LEAST_ROWS: usize = 1 << 13;
/// After a chunk of which fewer than this part were dropped no other one is reduced.
const LEAST_SHARE: usize = 8;

/// The reduction of a join's right chunks.
#[derive(Debug)]
pub(crate) struct Reduction {
    /// Key columns of each side.
    left: Vec<usize>,
    right: Vec<usize>,
    null_equal: bool,
    bits: Bits,
}

/// The keys of the left side.
#[derive(Debug)]
enum Bits {
    NotYet,
    /// Their range is too wide, or memory did not suffice.
    None,
    Of(KeyBitmap),
}

impl Reduction {
    /// `None` for a join by equal keys alone, one that emits right rows without a match, and keys that cannot be addressed directly.
    pub(crate) fn of(spec: &JoinSpec) -> Option<Self> {
        let equalities = &spec.theta.equalities;
        let addresses = equalities.iter().all(|(left, right)| {
            let data_type = spec.left.data_type(*left);
            are_addresses(data_type) && data_type == spec.right.data_type(*right)
        });
        let emits_unmatched = spec.flags_side(Side::Right) || spec.null_aware;
        if equalities.is_empty() || !addresses || emits_unmatched || spec.matches_by_keys_alone() {
            return None;
        }
        let (left, right) = equalities.iter().copied().unzip();
        Some(Self {
            left,
            right,
            null_equal: spec.theta.null_equal(),
            bits: Bits::NotYet,
        })
    }

    /// The rows of `chunk` whose key a left row has; `None` where that was not worth its time, or memory did not suffice.
    pub(crate) fn reduced(
        &mut self,
        step: &Step<'_>,
        matrix: &mut Matrix,
        chunk: &InputChunk,
        metrics: &DeviceMetrics,
    ) -> Result<Option<InputChunk>> {
        let InputChunk::Resident(resident) = chunk else {
            return Ok(None);
        };
        let rows = chunk.rows();
        let left_rows: usize = matrix.left().iter().map(InputChunk::rows).sum();
        if rows < LEAST_ROWS || rows / MUCH_LONGER < left_rows {
            return Ok(None);
        }
        if matches!(self.bits, Bits::NotYet) {
            self.bits = match self.made(step, matrix, rows as u64) {
                Err(error) if error.is_divisible() || error.is_out_of_host_memory() => Bits::None,
                made => made?.map_or(Bits::None, Bits::Of),
            };
        }
        let Bits::Of(bits) = &self.bits else {
            return Ok(None);
        };
        let device = matrix.device.as_ref();
        let selected = self.selected(device, bits, &resident.batch).if_it_fits()?;
        let Some(reduced) = selected.flatten() else {
            // The join needs the bitmap's memory.
            self.bits = Bits::None;
            return Ok(None);
        };
        let dropped = rows - reduced.rows();
        metrics.reduced(dropped);
        if dropped < rows / LEAST_SHARE {
            self.bits = Bits::None;
        }
        Ok(Some(InputChunk::Resident(resident.of_batch(reduced))))
    }

    /// The rows of a batch whose key's bit is set, with all of its columns; `None` if it has all of them.
    fn selected(
        &self,
        device: &dyn Device,
        bits: &KeyBitmap,
        batch: &DeviceBatch,
    ) -> Result<Option<DeviceBatch>> {
        let keys = self.right.iter().map(|key| batch.column(*key));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let keys: Vec<&Column> = keys.iter().map(|key| key.as_ref()).collect();
        let columns: Vec<_> = (0..batch.columns()).map(|i| batch.any(i).ok()).collect();
        let moved: Vec<&Column> = columns.iter().flatten().map(|c| c.moved()).collect();
        let Some((rows, kept)) = device.select_keys(bits, &keys, true, &moved)? else {
            return Ok(None);
        };
        let mut kept = kept.into_iter();
        let columns = columns.into_iter().map(|column| {
            let (column, kept) = (column?, kept.next()?);
            Some(column.of_moved(kept))
        });
        Ok(Some(DeviceBatch::new(rows, columns.collect())))
    }

    /// The bits of all left keys, if their range is narrow for `rows` rows.
    fn made(&self, step: &Step<'_>, matrix: &mut Matrix, rows: u64) -> Result<Option<KeyBitmap>> {
        let is_narrow = |range: &KeyRange| range.is_narrow(self.null_equal, rows, None);
        let Some(range) = matrix.range_of_left(step, &self.left, &is_narrow)? else {
            return Ok(None);
        };
        let bits = KeyBitmap::new(matrix.device.as_ref(), &range, self.null_equal)?;
        if let Some(bits) = &bits {
            matrix.set_bits_of_left(step, &self.left, bits)?;
        }
        Ok(bits)
    }
}
