//! [`PresortedSemiJoin`]: semi and anti joins of two sides that lie on the device in the order of their keys. One walk over both keeps the right rows
//! that come out, and neither bits nor a table of the left keys are made.

use datafusion::common::JoinType;

use crate::device::data::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::presorted::PresortedKeys;
use crate::error::Result;
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::ir::strategies::{EquiStrategy, Strategy};
use crate::spec::join::{JoinSpec, Output};

#[derive(Debug)]
pub(crate) struct PresortedSemiJoin {
    left: usize,
    right: usize,
    /// Whether right rows with a partner come out, or those without.
    matched: bool,
    /// Right columns that come out.
    output: Vec<usize>,
    /// A right chunk was walked over, so the left keys ascend.
    known: bool,
}

impl PresortedSemiJoin {
    /// `None` for a join whose right rows do not come out by one equal key alone, together where they lie.
    pub(crate) fn of(spec: &JoinSpec) -> Option<Self> {
        let matched = match spec.kind {
            JoinType::RightSemi => true,
            JoinType::RightAnti => false,
            _ => return None,
        };
        let theta = &spec.theta;
        let Strategy::Equi(None | Some(EquiStrategy::SortMerge)) = theta.strategy else {
            return None;
        };
        let only_keys = theta.comparisons.is_empty()
            && spec.whole_filter.is_empty()
            && spec.residual.is_empty()
            && spec.program.is_none();
        let [(left, right)] = theta.equalities[..] else {
            return None;
        };
        if !only_keys || !spec.output_on_device {
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

    /// What comes out of the right chunk at hand; `None` where it, or the left side, is in parts or in another order: then those that follow
    /// are not worth another look.
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
        let output = self.output.iter().map(|column| right.column(*column));
        let output = output.collect::<Result<Vec<_>>>()?;
        let columns: Vec<&Column> = output.iter().map(|column| column.as_ref()).collect();
        let kept = matrix.device.merge_keep(keys, self.matched, &columns)?;
        let Some(kept) = kept else { return Ok(None) };
        if !self.known {
            metrics.indexed_by("merge");
        }
        self.known = true;
        metrics.chunks.add(1);
        Ok(Some(match kept {
            Some((rows, kept)) => {
                let columns = kept.into_iter().map(|column| Some(column.into()));
                DeviceBatch::new(rows, columns.collect())
            }
            None => {
                let columns = output.into_iter().map(|column| Some(column.clone()));
                DeviceBatch::new(right.rows(), columns.collect())
            }
        }))
    }
}
