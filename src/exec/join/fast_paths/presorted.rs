//! [`PresortedSemiJoin`]: right semi and anti joins of two resident sides in the order of their keys. One merge of both
//! selects the right rows, without a bitmap or a table of the left keys.

use datafusion::common::JoinType;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::presorted::PresortedKeys;
use crate::error::Result;
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::ir::strategies::EquiStrategy;
use crate::spec::join::{JoinSpec, MatchMethod, Output};

/// A join of presorted sides.
#[derive(Debug)]
pub(crate) struct PresortedSemiJoin {
    /// The key columns.
    left: usize,
    right: usize,
    /// Whether right rows with a match are emitted (semi), or those without (anti).
    matched: bool,
    /// Output columns, all of the right side.
    output: Vec<usize>,
    /// A right chunk was merged, so the left keys are known to ascend.
    known: bool,
}

impl PresortedSemiJoin {
    /// `None` unless the join emits right rows by one equal key alone, and its output stays on the device.
    pub(crate) fn of(spec: &JoinSpec) -> Option<Self> {
        let matched = match spec.kind {
            JoinType::RightSemi => true,
            JoinType::RightAnti => false,
            _ => return None,
        };
        let theta = &spec.theta;
        let MatchMethod::Equi(None | Some(EquiStrategy::SortMerge)) = theta.method else {
            return None;
        };
        let [(left, right)] = theta.equalities[..] else {
            return None;
        };
        if !spec.matches_by_keys_alone() || !spec.output_on_device {
            return None;
        }
        let output = spec.output.iter().map(|column| match column {
            Output::Column(Side::Right, column) => Some(*column),
            _ => None,
        });
        Some(Self {
            left,
            right,
            matched,
            output: output.collect::<Option<Vec<_>>>()?,
            known: false,
        })
    }

    /// The output of the current right chunk. `None` if this chunk or the left side is in several parts, not resident
    /// or not sorted; then later chunks need not be tried.
    pub(crate) fn keep(
        &mut self,
        matrix: &Matrix,
        metrics: &DeviceMetrics,
    ) -> Result<Option<DeviceBatch>> {
        let _timer = metrics.output_time.timer();
        if matrix.left().len() != 1 {
            return Ok(None);
        }
        let left = matrix.whole_with_keys(Side::Left, 0, &[self.left])?;
        let right = matrix.whole_with_keys(Side::Right, 0, &[self.right])?;
        let (Some(left), Some(right)) = (left, right) else {
            return Ok(None);
        };
        let keys = PresortedKeys {
            build: left.column(self.left)?,
            probe: right.column(self.right)?,
            known: self.known,
        };
        let output = self.output.iter().map(|column| right.any(*column));
        let output = output.collect::<Result<Vec<_>>>()?;
        let columns: Vec<&Column> = output.iter().map(|column| column.moved()).collect();
        let kept = matrix.device.merge_keep(keys, self.matched, &columns)?;
        let Some(kept) = kept else { return Ok(None) };
        if !self.known {
            metrics.indexed_by("merge");
        }
        self.known = true;
        metrics.chunks.add(1);
        Ok(Some(match kept {
            Some((rows, kept)) => {
                let kept = output.iter().zip(kept);
                DeviceBatch::of(rows, kept.map(|(column, kept)| column.of_moved(kept)))
            }
            None => DeviceBatch::of(right.rows(), output.into_iter().cloned()),
        }))
    }
}
