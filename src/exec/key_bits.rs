//! [`ByKeyBits`]: semi, anti and mark joins of equal keys, in which a bit for each key tells which rows match.
//!
//! ```text
//! left rows come out:    range of the left keys ─► bits ◄─ set by each right chunk; at the end the left chunks look at them
//! right rows come out:   range of the left keys ─► bits ◄─ set by the left chunks; each right chunk looks at them
//! ```
//!
//! The bits serve all left chunks, so there are no tiles: a chunk is looked at by itself, and only its keys are.

use std::sync::Arc;

use datafusion::common::JoinType;

use super::matrix::Matrix;
use super::metrics::DeviceMetrics;
use crate::device::key_bits::are_addresses;
use crate::device::{Device, Flags, KeyBits, KeyRange};
use crate::error::Result;
use crate::spec::{EquiStrategy, JoinSpec, Side, Strategy};

#[derive(Debug)]
pub(super) struct ByKeyBits {
    /// Whose rows come out.
    side: Side,
    strategy: Option<EquiStrategy>,
    null_equal: bool,
    left: Vec<usize>,
    right: Vec<usize>,
    /// Once the range of the left keys is known.
    bits: Option<KeyBits>,
}

impl ByKeyBits {
    /// `None` for a join that needs more than equal keys that are addresses, or more than to know whether there is a match.
    pub(super) fn of(spec: &JoinSpec) -> Option<Self> {
        use JoinType::*;
        let side = match spec.kind {
            LeftSemi | LeftAnti | LeftMark => Side::Left,
            RightSemi | RightAnti | RightMark => Side::Right,
            Inner | Left | Right | Full => return None,
        };
        let Strategy::Equi(strategy @ (None | Some(EquiStrategy::Direct))) = spec.theta.strategy
        else {
            return None;
        };
        let only_keys = spec.theta.comparisons.is_empty()
            && spec.whole_filter.is_empty()
            && spec.residual.is_empty()
            && spec.program.is_none();
        let equalities = &spec.theta.equalities;
        let addresses = equalities.iter().all(|(left, right)| {
            let data_type = spec.left.data_type(*left);
            are_addresses(data_type) && data_type == spec.right.data_type(*right)
        });
        if equalities.is_empty() || !only_keys || !addresses {
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

    /// The right chunk at hand meets all left rows; `flags` are those of its rows where these come out. False where the left keys lie
    /// too far apart: then tiles find the matches, of this chunk and of those to come.
    pub(super) fn meet(
        &mut self,
        matrix: &mut Matrix,
        flags: Option<&Flags>,
        metrics: &DeviceMetrics,
    ) -> Result<bool> {
        let _timer = metrics.prepare_time.timer();
        let device = Arc::clone(&matrix.device);
        let device = device.as_ref();
        if self.bits.is_none() {
            self.bits = self.made(matrix, device)?;
            if self.bits.is_some() {
                metrics.indexed_by("key_bits");
            }
        }
        let Some(bits) = &self.bits else {
            return Ok(false);
        };
        matrix.each_keys(
            Side::Right,
            0,
            &self.right,
            &mut |first, keys| match flags {
                Some(flags) => device.flag_keys(bits, keys, flags, first),
                None => device.set_key_bits(bits, keys),
            },
        )?;
        metrics.chunks.add(1);
        Ok(true)
    }

    fn made(&self, matrix: &mut Matrix, device: &dyn Device) -> Result<Option<KeyBits>> {
        let mut all: Option<KeyRange> = None;
        let rows = matrix.left().iter().map(|chunk| chunk.rows() as u64).sum();
        for chunk in 0..matrix.left().len() {
            matrix.each_keys(Side::Left, chunk, &self.left, &mut |_, keys| {
                let range = device.key_range(keys)?;
                all = Some(match all.take() {
                    Some(others) => others.with(&range),
                    None => range,
                });
                Ok(())
            })?;
            // Those that follow make it no narrower.
            let narrow = |range: &KeyRange| range.is_narrow(self.null_equal, rows, self.strategy);
            if !all.as_ref().is_some_and(narrow) {
                return Ok(None);
            }
        }
        let Some(range) = all else {
            return Ok(None);
        };
        let bits = KeyBits::new(device, &range, self.null_equal)?;
        if let (Some(bits), Side::Right) = (&bits, self.side) {
            for chunk in 0..matrix.left().len() {
                matrix.each_keys(Side::Left, chunk, &self.left, &mut |_, keys| {
                    device.set_key_bits(bits, keys)
                })?;
            }
            matrix.forget_left();
        }
        Ok(bits)
    }

    /// Sets the flags of a left chunk's rows, once all right chunks set their bits.
    pub(super) fn flag_left(&self, matrix: &mut Matrix, chunk: usize, flags: &Flags) -> Result<()> {
        // No right chunk came, so there are no bits.
        let Some(bits) = &self.bits else {
            return Ok(());
        };
        let device = Arc::clone(&matrix.device);
        matrix.each_keys(Side::Left, chunk, &self.left, &mut |first, keys| {
            device.flag_keys(bits, keys, flags, first)
        })
    }
}
