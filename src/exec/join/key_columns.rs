//! Key columns alone, without the other side's rows: where these are not asked for pair by pair.

use std::ops::Range;
use std::sync::Arc;

use crate::device::data::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::lazy_column::Need;
use crate::error::{BowtieError, Result};
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::memory::shrink::{Answer, Halving, Part, by_halves};
use crate::exec::memory::step::Step;
use crate::ir::side::Side;

/// Parts of a chunk begin at whole words of flags.
const WORDS: Halving = Halving {
    least: 0,
    aligned: 64,
};

/// Called with the row of the chunk that is the first of a part, and with the part's columns.
type Take<'a> = &'a mut dyn FnMut(usize, &[&Column]) -> Result<()>;

impl Matrix {
    /// Hands the `keys` of a left chunk, or of the right chunk at hand, to `take` on the device: of all rows together, or, where there
    /// is no memory, of parts, one of which may be handed over again after `take` was refused.
    pub(crate) fn each_keys(
        &mut self,
        step: &Step<'_>,
        side: Side,
        left_chunk: usize,
        keys: &[usize],
        take: Take<'_>,
    ) -> Result<()> {
        // Which left chunk is worked on: none.
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

    /// All rows of a chunk as they lie on the device, with the columns that come out, and with its `keys`, which are looked at at once.
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

    /// All rows of a chunk as they lie on the device, with the columns that come out.
    pub(crate) fn whole(&self, side: Side, left_chunk: usize) -> Option<DeviceBatch> {
        let rows = 0..self.chunk(side, left_chunk).ok()?.rows();
        self.resident(side, left_chunk, &rows)
            .filter(DeviceBatch::is_resident)
    }

    /// A chunk whose `keys` were evaluated on every row.
    fn chunk_of_keys(&self, side: Side, left_chunk: usize, keys: &[usize]) -> Result<&InputChunk> {
        let chunk = self.chunk(side, left_chunk)?;
        // DataFusion's own join evaluates the keys on every row too, and fails on the same one.
        let mut failures = chunk.failures().iter();
        match failures.find(|(column, _)| keys.contains(column)) {
            Some((_, error)) => Err(BowtieError::DataFusion(Arc::clone(error))),
            None => Ok(chunk),
        }
    }

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

    /// Drops the left rows on the device, for which nobody will ask.
    pub(crate) fn forget_left(&mut self) {
        self.resident_left = None;
    }

    /// Drops the rows on the device that were kept for later; false where there are none.
    fn drop_resident(&mut self) -> bool {
        let left = self.resident_left.take().is_some();
        self.resident_right.take().is_some() || left
    }
}
