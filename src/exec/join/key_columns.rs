//! Passes over the key columns of one side alone, for paths that need no tiles (key bitmap, presorted walk). In: a
//! chunk. Out: its key columns on the device, whole or in parts.

use std::ops::Range;
use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange};
use crate::device::lazy_column::Need;
use crate::error::{BowtieError, Result};
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::memory::shrink::{Answer, Halving, Part, by_halves};
use crate::exec::memory::step::Step;
use crate::ir::side::Side;

/// Parts of a chunk begin at a multiple of 64 rows, the flags of a word.
const WORDS: Halving = Halving {
    least: 0,
    aligned: 64,
};

/// Called with the row of the chunk at which a part begins, and with the part's key columns.
type Take<'a> = &'a mut dyn FnMut(usize, &[&Column]) -> Result<()>;

impl Matrix {
    /// Calls `take` with the `keys` columns of a left chunk, or of the current right chunk, on the device: once for all
    /// rows, or, if device memory does not suffice, for one part after the other. A part for which `take` failed to
    /// allocate may be passed again.
    pub(crate) fn each_keys(
        &mut self,
        step: &Step<'_>,
        side: Side,
        left_chunk: usize,
        keys: &[usize],
        take: Take<'_>,
    ) -> Result<()> {
        // The left chunk in use; none if the keys are the right side's.
        let worked_on = match side {
            Side::Left => left_chunk,
            Side::Right => usize::MAX,
        };
        self.relieve_pool(worked_on)?;
        self.unload_but(worked_on);
        let chunk = self.chunk_of_keys(side, left_chunk, keys)?;
        let rows = 0..chunk.rows();
        let device = Arc::clone(&self.device);
        let work = |matrix: &mut Self, part: &Part| {
            device.check_cancelled()?;
            matrix.try_keys(side, left_chunk, &part.rows, keys, take)?;
            matrix.left_pool = false;
            Ok(())
        };
        let answer = |matrix: &mut Self, error: &BowtieError| {
            let evicted = match error.is_out_of_host_memory() {
                true => matrix.leave_pool_once()?,
                false if !step.may_shrink(error) => return Ok(Answer::Fail),
                false => {
                    matrix.drop_resident() || (error.is_out_of_device_memory() && matrix.evict())
                }
            };
            Ok(match evicted {
                true => Answer::Repeat,
                false => Answer::Halve,
            })
        };
        by_halves(self, rows, WORDS, work, answer)
    }

    fn try_keys(
        &self,
        side: Side,
        left_chunk: usize,
        rows: &Range<usize>,
        keys: &[usize],
        take: Take<'_>,
    ) -> Result<()> {
        let batch = match self.resident(side, left_chunk, rows) {
            Some(batch) => batch,
            None => {
                let needed = |column| match keys.contains(&column) {
                    true => Need::Now,
                    false => Need::Never,
                };
                let needs: Vec<Need> = (0..self.spec.input(side).columns()).map(needed).collect();
                let chunk = self.chunk(side, left_chunk)?;
                chunk.upload(self.device.as_ref(), rows, &needs, &self.metrics)?
            }
        };
        let columns = keys.iter();
        let columns = columns.map(|column| batch.column(*column).map(AsRef::as_ref));
        take(rows.start, &columns.collect::<Result<Vec<_>>>()?)
    }

    /// All rows of a chunk, if they are resident with the output columns and the `keys`.
    pub(crate) fn whole_with_keys(
        &self,
        side: Side,
        left_chunk: usize,
        keys: &[usize],
    ) -> Result<Option<DeviceBatch>> {
        self.chunk_of_keys(side, left_chunk, keys)?;
        let whole = self.whole(side, left_chunk);
        Ok(whole.filter(|batch| keys.iter().all(|key| batch.column(*key).is_ok())))
    }

    /// The range of all left keys, in the columns `keys`; `None` if it is not `narrow`, or there is no left chunk.
    pub(crate) fn range_of_left(
        &mut self,
        step: &Step<'_>,
        keys: &[usize],
        narrow: &dyn Fn(&KeyRange) -> bool,
    ) -> Result<Option<KeyRange>> {
        let device = Arc::clone(&self.device);
        let mut all: Option<KeyRange> = None;
        for chunk in 0..self.left.len() {
            self.each_keys(step, Side::Left, chunk, keys, &mut |_, keys| {
                let range = device.key_range(keys)?;
                all = Some(match all.take() {
                    Some(others) => others.with(&range),
                    None => range,
                });
                Ok(())
            })?;
            // Further chunks can only widen the range.
            if !all.as_ref().is_some_and(narrow) {
                return Ok(None);
            }
        }
        Ok(all)
    }

    /// Sets the bits of all left keys, in the columns `keys`.
    pub(crate) fn set_bits_of_left(
        &mut self,
        step: &Step<'_>,
        keys: &[usize],
        bits: &KeyBitmap,
    ) -> Result<()> {
        let device = Arc::clone(&self.device);
        for chunk in 0..self.left.len() {
            self.each_keys(step, Side::Left, chunk, keys, &mut |_, keys| {
                device.set_key_bits(bits, keys)
            })?;
        }
        Ok(())
    }

    /// All rows of a chunk, if they are resident with the output columns.
    pub(crate) fn whole(&self, side: Side, left_chunk: usize) -> Option<DeviceBatch> {
        let rows = 0..self.chunk(side, left_chunk).ok()?.rows();
        self.resident(side, left_chunk, &rows)
            .filter(DeviceBatch::is_resident)
    }

    /// A left chunk or the current right chunk. Fails if one of its `keys` failed to evaluate on some row.
    fn chunk_of_keys(&self, side: Side, left_chunk: usize, keys: &[usize]) -> Result<&InputChunk> {
        let chunk = self.chunk(side, left_chunk)?;
        chunk.check_evaluated(|column| keys.contains(&column))?;
        Ok(chunk)
    }

    /// The `rows` of a chunk as they are on the device: as a tile's side, or as a chunk that arrived resident.
    fn resident(&self, side: Side, left_chunk: usize, rows: &Range<usize>) -> Option<DeviceBatch> {
        let (uploaded, number) = match side {
            Side::Left => (&self.resident_left, left_chunk),
            Side::Right => (&self.resident_right, self.right_chunks),
        };
        let these = uploaded.as_ref();
        let these = these.filter(|these| these.chunk == number && these.rows == *rows);
        let came = || {
            let chunk = self.chunk(side, left_chunk).ok()?.resident();
            chunk.filter(|came| *rows == (0..came.rows())).cloned()
        };
        these.map(|these| these.batch.clone()).or_else(came)
    }

    fn chunk(&self, side: Side, left_chunk: usize) -> Result<&InputChunk> {
        let chunk = match side {
            Side::Left => self.left.get(left_chunk),
            Side::Right => self.right.as_ref(),
        };
        chunk.ok_or_else(|| BowtieError::Internal("keys of no chunk".into()))
    }

    /// Drops the resident left rows when no tile needs them any more.
    pub(crate) fn forget_left(&mut self) {
        self.resident_left = None;
    }

    /// Drops the resident rows that were kept for later tiles; false if there are none.
    fn drop_resident(&mut self) -> bool {
        let left = self.resident_left.take().is_some();
        self.resident_right.take().is_some() || left
    }
}
