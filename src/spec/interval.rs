//! [`IntervalOverlap`]: two inequalities by which intervals of two sides overlap.

use arrow::datatypes::{DataType, IntervalUnit};

use crate::ir::comparison::Comparison;
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::spec::join::{JoinSpec, SideInput};

/// The columns of a side's intervals, by index in its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    pub low: usize,
    pub high: usize,
}

/// `left.low OP right.high AND left.high OP right.low`: intervals that overlap, where each side's are `low ..= high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IntervalOverlap {
    pub left: Ends,
    pub right: Ends,
    /// `<` or `<=`.
    pub low_op: Comparison,
    /// `>` or `>=`.
    pub high_op: Comparison,
}

/// Whether a value's order key depends on the value alone.
fn has_natural_order(data_type: &DataType) -> bool {
    data_type.is_primitive()
        && !matches!(
            data_type,
            DataType::Decimal128(..)
                | DataType::Decimal256(..)
                | DataType::Interval(IntervalUnit::MonthDayNano)
        )
}

impl IntervalOverlap {
    /// The overlap that is the whole condition of a join, beside equalities; `None` for another condition.
    pub(crate) fn of(join: &JoinSpec) -> Option<Self> {
        let [first, second] = join.theta.comparisons[..] else {
            return None;
        };
        let (low, high) = match (first.op, second.op) {
            (Comparison::Lt | Comparison::LtEq, Comparison::Gt | Comparison::GtEq) => {
                (first, second)
            }
            (Comparison::Gt | Comparison::GtEq, Comparison::Lt | Comparison::LtEq) => {
                (second, first)
            }
            _ => return None,
        };
        let overlap = Self {
            left: Ends {
                low: low.left,
                high: high.left,
            },
            right: Ends {
                low: high.right,
                high: low.right,
            },
            low_op: low.op,
            high_op: high.op,
        };
        let is_interval = |input: &SideInput, ends: Ends| {
            let data_type = input.data_type(ends.low);
            ends.low != ends.high
                && data_type == input.data_type(ends.high)
                && has_natural_order(data_type)
        };
        let is_whole = join.theta.strategy == Strategy::Dominance
            && join.residual.is_empty()
            && join.program.is_none();
        (is_whole
            && is_interval(&join.left, overlap.left)
            && is_interval(&join.right, overlap.right))
        .then_some(overlap)
    }

    /// The columns of a side.
    pub(crate) fn ends(&self, side: Side) -> Ends {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }
}
