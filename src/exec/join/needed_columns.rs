//! [`NeededColumns`]: the columns of both sides that a join uploads, and when.

use std::sync::Arc;

use crate::device::lazy_column::Need;
use crate::error::Result;
use crate::exec::input::chunk::InputChunk;
use crate::ir::side::Side;
use crate::ir::strategies::Materialization;
use crate::spec::join::JoinSpec;

/// The needed columns of each side's input. Columns that decide what matches, and a fused aggregate's arguments, are
/// uploaded with their chunk. Columns that are only gathered, for the output or the residual filter, are uploaded lazily.
#[derive(Debug, Clone)]
pub(crate) struct NeededColumns {
    pub left: Vec<Need>,
    pub right: Vec<Need>,
}

impl NeededColumns {
    /// The needs of `spec`. The columns `others` are uploaded with their chunk too.
    pub(crate) fn of(spec: &JoinSpec, others: impl Iterator<Item = (Side, usize)>) -> Self {
        use crate::spec::join::Output;
        use datafusion::common::JoinSide;
        let width = |side: Side| vec![Need::Never; spec.input(side).columns()];
        let mut needed = Self {
            left: width(Side::Left),
            right: width(Side::Right),
        };
        for (left, right) in &spec.theta.equalities {
            needed.left[*left] = Need::Now;
            needed.right[*right] = Need::Now;
        }
        for comparison in &spec.theta.comparisons {
            needed.left[comparison.left] = Need::Now;
            needed.right[comparison.right] = Need::Now;
        }
        if let Some(partners) = spec.theta.partners() {
            needed.side_mut(spec.theta.build)[partners.column] = Need::Now;
            if let Some(centre) = partners.centre {
                needed.side_mut(spec.theta.build.other())[centre] = Need::Now;
            }
        }
        if let Some(set) = spec.theta.set() {
            needed.left[set.left] = Need::Now;
            needed.right[set.right] = Need::Now;
        }
        if let Some((left, right)) = spec.theta.compared_lists {
            needed.left[left] = Need::Now;
            needed.right[right] = Need::Now;
        }
        let program = spec.program.iter();
        for column in program.clone().flat_map(|p| &p.left) {
            needed.left[*column] = Need::Now;
        }
        for column in program.flat_map(|p| &p.right) {
            needed.right[*column] = Need::Now;
        }
        for (side, column) in others {
            needed.side_mut(side)[column] = Need::Now;
        }
        let lazy = |needed: &mut Self, side: Side, column: usize| {
            let need = &mut needed.side_mut(side)[column];
            if !need.is_any() {
                *need = Need::Lazy(Arc::default());
            }
        };
        let keys = spec
            .best_partners
            .iter()
            .flat_map(|best| best.expressions());
        let keys = keys.chain(spec.values.iter().map(|value| &value.call));
        for filter in spec.residual.iter().chain(&spec.whole_filter).chain(keys) {
            for column in filter.column_indices() {
                match column.side {
                    JoinSide::Left => lazy(&mut needed, Side::Left, column.index),
                    JoinSide::Right => lazy(&mut needed, Side::Right, column.index),
                    JoinSide::None => {}
                }
            }
        }
        let output = spec.output.iter().filter_map(|column| match column {
            Output::Column(side, index) => Some((*side, *index)),
            Output::Mark | Output::Value(_) => None,
        });
        for (side, index) in output {
            match spec.output_on_device || spec.theta.materialization == Some(Materialization::Gftr)
            {
                true => needed.side_mut(side)[index] = Need::Now,
                false => lazy(&mut needed, side, index),
            }
        }
        needed
    }

    fn side_mut(&mut self, side: Side) -> &mut [Need] {
        match side {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        }
    }

    /// Bytes of lazily uploaded columns since the last call.
    pub(crate) fn take_lazy_bytes(&self) -> u64 {
        let needs = self.left.iter().chain(&self.right);
        needs
            .map(|need| match need {
                Need::Lazy(payload) => payload.take_uploaded(),
                _ => 0,
            })
            .sum()
    }

    /// Mean bytes of a row of the needed columns of `chunk`, a chunk of `side`.
    pub(crate) fn row_bytes(&self, side: Side, chunk: &InputChunk) -> Result<usize> {
        let mut bytes = 0;
        for (column, needed) in self.of_side(side).iter().enumerate() {
            if needed.is_any() {
                bytes += chunk.mean_bytes(column)? as usize;
            }
        }
        Ok(bytes)
    }

    pub(crate) fn of_side(&self, side: Side) -> &[Need] {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}
