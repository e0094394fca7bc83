//! [`IntervalOverlap`]: two inequalities by which intervals of two sides overlap. [`OverlapPasses`]: the same as range joins.

use arrow::datatypes::{DataType, IntervalUnit};

use crate::ir::comparison::Comparison;
use crate::ir::side::Side;
use crate::spec::join::{ColumnComparison, JoinSpec, MatchMethod, MatchSpec, SideInput};

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
    /// The overlap that is the whole condition of a join, beside equalities; `None` for another condition, and for ends whose keys do not
    /// depend on a value alone.
    pub(crate) fn of(join: &JoinSpec) -> Option<Self> {
        let overlap = Self::of_any_order(join)?;
        let is_natural = has_natural_order(join.left.data_type(overlap.left.low))
            && has_natural_order(join.right.data_type(overlap.right.low));
        is_natural.then_some(overlap)
    }

    /// The overlap that is the whole condition of a join, beside equalities, whatever the type of the ends.
    fn of_any_order(join: &JoinSpec) -> Option<Self> {
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
            ends.low != ends.high && data_type == input.data_type(ends.high)
        };
        let is_whole = matches!(join.theta.method, MatchMethod::Dominance)
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

/// What intervals of a side must be: `low ..= high` does not end before it begins, and (if `strictly`) is not empty. A row that has `low` has
/// `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ordered {
    pub ends: Ends,
    pub strictly: bool,
}

/// The passes that find the overlaps of a join's intervals, if these are ordered.
///
/// Of two intervals that overlap, one begins inside the other one. So the overlaps are those of two range joins, by the beginnings of a
/// side each, in which nothing is tested. Both together find each overlap once.
#[derive(Debug, Clone)]
pub(crate) struct OverlapPasses {
    /// Of the left and of the right side.
    pub ordered: [Ordered; 2],
    pub passes: [MatchSpec; 2],
}

impl OverlapPasses {
    /// The ways to find the overlaps that are the whole condition of a join; none for another condition.
    ///
    /// Where ends that are equal do not overlap, intervals of one side must not be empty: each way asks it of another side.
    pub(crate) fn of(join: &JoinSpec) -> Vec<Self> {
        let Some(overlap) = IntervalOverlap::of_any_order(join).filter(|_| join.emits_pairs())
        else {
            return vec![];
        };
        match (overlap.low_op, overlap.high_op) {
            // Whose intervals begin at the same value as those of the other side: left ones.
            (_, Comparison::GtEq) => vec![overlap.passes(join, Side::Left)],
            (Comparison::LtEq, _) => vec![overlap.passes(join, Side::Right)],
            _ => vec![
                overlap.passes(join, Side::Left),
                overlap.passes(join, Side::Right),
            ],
        }
    }
}

impl IntervalOverlap {
    /// The passes of which that by the beginnings of `first` has the intervals of both sides that begin at the same value.
    fn passes(&self, join: &JoinSpec, first: Side) -> OverlapPasses {
        let (left, right) = (self.left, self.right);
        let compared =
            |left: usize, op: Comparison, right: usize| ColumnComparison { left, op, right };
        let (left_begins, right_begins) = match first {
            Side::Left => (Comparison::GtEq, Comparison::Lt),
            Side::Right => (Comparison::Gt, Comparison::LtEq),
        };
        let pass = |build: Side, comparisons: Vec<ColumnComparison>| MatchSpec {
            method: MatchMethod::Range(None),
            build,
            comparisons,
            ..join.theta.clone()
        };
        let by_left = pass(
            Side::Left,
            vec![
                compared(left.low, left_begins, right.low),
                compared(left.low, self.low_op, right.high),
            ],
        );
        let by_right = pass(
            Side::Right,
            vec![
                compared(left.low, right_begins, right.low),
                compared(left.high, self.high_op, right.low),
            ],
        );
        let ordered = |side: Side| {
            let (ends, op) = match side {
                Side::Left => (left, self.high_op),
                Side::Right => (right, self.low_op),
            };
            Ordered {
                ends,
                strictly: side == first && matches!(op, Comparison::Lt | Comparison::Gt),
            }
        };
        OverlapPasses {
            ordered: [ordered(Side::Left), ordered(Side::Right)],
            passes: [by_left, by_right],
        }
    }
}
