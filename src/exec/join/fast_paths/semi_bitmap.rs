//! [`BitmapSemiJoin`]: semi, anti and mark joins by equal keys, in which one bit for each key tells which rows have a
//! match.
//!
//! ```text
//! left rows are emitted:   range of left keys ─► bitmap ◄─ set by each right chunk; probed by the left chunks at the end
//! right rows are emitted:  range of left keys ─► bitmap ◄─ set by the left chunks; probed by each right chunk
//! ```
//!
//! The bitmap serves all left chunks, so there are no tiles: a chunk is processed by itself, and only its keys are
//! uploaded. Resident rows whose output stays on the device are selected in the pass that probes. For other rows flags
//! are set first. If right rows are emitted and there is a single resident left chunk, the range may be a sample's
//! ([`KeyBitmap::of`]).

use std::sync::Arc;

use datafusion::common::JoinType;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange, are_addresses};
use crate::device::data::structures::Flags;
use crate::device::primitives::device::Device;
use crate::error::{IfItFits as _, Result};
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::memory::step::Step;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::ir::strategies::EquiStrategy;
use crate::spec::join::{JoinSpec, MatchMethod};

/// A join by a key bitmap, between two steps.
#[derive(Debug)]
pub(crate) struct BitmapSemiJoin {
    /// The side whose rows are emitted.
    side: Side,
    strategy: Option<EquiStrategy>,
    /// Whether NULL keys are equal.
    null_equal: bool,
    /// Key columns of each side.
    left: Vec<usize>,
    right: Vec<usize>,
    /// The bitmap, once the range of the left keys is known.
    bits: Option<KeyBitmap>,
}

impl BitmapSemiJoin {
    /// `None` if the join has conditions beside equal keys, keys that cannot be addressed directly, or output that
    /// depends on more than the existence of a match.
    pub(crate) fn of(spec: &JoinSpec) -> Option<Self> {
        use JoinType::*;
        let side = match spec.kind {
            LeftSemi | LeftAnti | LeftMark => Side::Left,
            RightSemi | RightAnti | RightMark => Side::Right,
            Inner | Left | Right | Full => return None,
        };
        let MatchMethod::Equi(strategy @ (None | Some(EquiStrategy::Direct))) = spec.theta.method
        else {
            return None;
        };
        let equalities = &spec.theta.equalities;
        let addresses = equalities.iter().all(|(left, right)| {
            let data_type = spec.left.data_type(*left);
            are_addresses(data_type) && data_type == spec.right.data_type(*right)
        });
        if equalities.is_empty() || !spec.matches_by_keys_alone() || !addresses {
            return None;
        }
        let (left, right) = equalities.iter().copied().unzip();
        Some(Self {
            side,
            strategy,
            null_equal: spec.theta.null_equal(),
            left,
            right,
            bits: None,
        })
    }

    /// Processes the current right chunk for all left rows: sets its bits, or makes the bitmap that its rows probe
    /// afterwards. False if the range of the left keys is too wide: then tiles find the matches of this and all later
    /// right chunks.
    pub(crate) fn probe_chunk(
        &mut self,
        step: &Step<'_>,
        matrix: &mut Matrix,
        metrics: &DeviceMetrics,
    ) -> Result<bool> {
        let _timer = metrics.prepare_time.timer();
        let device = Arc::clone(&matrix.device);
        let device = device.as_ref();
        if self.bits.is_none() {
            self.bits = self.made(step, matrix, device)?;
            if self.bits.is_some() {
                metrics.indexed_by("key_bits");
            }
        }
        let Some(bits) = &self.bits else {
            return Ok(false);
        };
        if self.side == Side::Left {
            matrix.each_keys(step, Side::Right, 0, &self.right, &mut |_, keys| {
                device.set_key_bits(bits, keys)
            })?;
        }
        metrics.chunks.add(1);
        Ok(true)
    }

    /// Makes the bitmap, with the bits of the left keys if right rows are emitted; `None` if the range is too wide.
    fn made(
        &self,
        step: &Step<'_>,
        matrix: &mut Matrix,
        device: &dyn Device,
    ) -> Result<Option<KeyBitmap>> {
        let rows = matrix.left().iter().map(|chunk| chunk.rows() as u64).sum();
        let is_narrow = |range: &KeyRange| range.is_narrow(self.null_equal, rows, self.strategy);
        let resident = match (self.side, matrix.left()) {
            (Side::Right, [_]) => matrix.whole_with_keys(Side::Left, 0, &self.left)?,
            _ => None,
        };
        if let Some(batch) = resident {
            let keys = columns(&batch, &self.left)?;
            let bits = KeyBitmap::of(device, &borrowed(&keys), self.null_equal, &is_narrow);
            // Otherwise parts of the chunk may fit.
            if let Some(bits) = bits.if_it_fits()? {
                if bits.is_some() {
                    matrix.forget_left();
                }
                return Ok(bits);
            }
        }
        let Some(range) = matrix.range_of_left(step, &self.left, &is_narrow)? else {
            return Ok(None);
        };
        let bits = KeyBitmap::new(device, &range, self.null_equal)?;
        if let (Some(bits), Side::Right) = (&bits, self.side) {
            matrix.set_bits_of_left(step, &self.left, bits)?;
            matrix.forget_left();
        }
        Ok(bits)
    }

    /// The side whose rows are emitted.
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// Sets the flags of a left chunk, after all right chunks have set their bits, or of the current right chunk, after
    /// the left chunks have.
    pub(crate) fn flag(
        &self,
        step: &Step<'_>,
        matrix: &mut Matrix,
        left_chunk: usize,
        flags: &Flags,
    ) -> Result<()> {
        // Without a right chunk there is no bitmap.
        let Some(bits) = &self.bits else {
            return Ok(());
        };
        let device = Arc::clone(&matrix.device);
        matrix.each_keys(
            step,
            self.side,
            left_chunk,
            self.keys(),
            &mut |first, keys| device.flag_keys(bits, keys, flags, first),
        )
    }

    /// The rows of a left chunk, or of the current right chunk, that have a match (`matched`) or have none, with the
    /// columns `output`; `None` if not all rows are resident.
    pub(crate) fn keep(
        &self,
        matrix: &Matrix,
        left_chunk: usize,
        matched: bool,
        output: &[usize],
    ) -> Result<Option<DeviceBatch>> {
        let Some(bits) = &self.bits else {
            return Ok(None);
        };
        let Some(batch) = matrix.whole_with_keys(self.side, left_chunk, self.keys())? else {
            return Ok(None);
        };
        let keys = columns(&batch, self.keys())?;
        let output = output.iter().map(|at| batch.any(*at));
        let output = output.collect::<Result<Vec<_>>>()?;
        let moved: Vec<&Column> = output.iter().map(|column| column.moved()).collect();
        let device = matrix.device.as_ref();
        let kept = device.select_keys(bits, &borrowed(&keys), matched, &moved)?;
        Ok(Some(match kept {
            Some((rows, kept)) => {
                let kept = output.iter().zip(kept);
                DeviceBatch::of(rows, kept.map(|(column, kept)| column.of_moved(kept)))
            }
            None => DeviceBatch::of(batch.rows(), output.into_iter().cloned()),
        }))
    }

    /// The key columns of the side whose rows are emitted.
    fn keys(&self) -> &[usize] {
        match self.side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}

fn columns(batch: &DeviceBatch, of: &[usize]) -> Result<Vec<Arc<Column>>> {
    of.iter().map(|at| batch.column(*at).cloned()).collect()
}

fn borrowed(columns: &[Arc<Column>]) -> Vec<&Column> {
    columns.iter().map(AsRef::as_ref).collect()
}
