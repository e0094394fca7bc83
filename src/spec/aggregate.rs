//! Aggregates: over a join, computed without making its pairs (\[T\] section 4), and over groups of rows (\[W\] section 3.2).

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::{JoinSpec, Side, SideInput};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    BitAnd,
    BitOr,
    BitXor,
}

/// How the values of a group become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fold {
    /// Rows, or values that are not NULL: an Int64, never NULL. The others are NULL where no value is not.
    Count,
    /// Wrapping, in the values' own type.
    Sum,
    Min,
    Max,
    And,
    Or,
    Xor,
}

impl AggregateFunction {
    /// The states of DataFusion's accumulator, in its order.
    pub(crate) fn folds(self) -> &'static [Fold] {
        match self {
            Self::Count => &[Fold::Count],
            Self::Sum => &[Fold::Sum],
            Self::Avg => &[Fold::Count, Fold::Sum],
            Self::Min => &[Fold::Min],
            Self::Max => &[Fold::Max],
            Self::BoolAnd | Self::BitAnd => &[Fold::And],
            Self::BoolOr | Self::BitOr => &[Fold::Or],
            Self::BitXor => &[Fold::Xor],
        }
    }
}

/// One aggregate. Its FILTER clause, if any, is already part of its argument (as CASE).
#[derive(Debug, Clone)]
pub(crate) struct AggregateSpec {
    pub function: AggregateFunction,
    /// The side and the column of its argument; `None` for COUNT(*).
    pub argument: Option<(Side, usize)>,
    /// DataFusion's own aggregate, which merges our partial states and finishes them.
    pub aggregate: Arc<AggregateFunctionExpr>,
}

/// The side whose columns are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupSide {
    /// No GROUP BY: one row comes out, also when nothing matches.
    Nothing,
    /// Columns of this side, by index in its input.
    Side(Side),
}

/// A join and the aggregation above it.
#[derive(Debug, Clone)]
pub(crate) struct JoinAggregateSpec {
    /// Inner, or the outer join that keeps all rows of the grouped side; its output is unused.
    pub join: JoinSpec,
    pub group_side: GroupSide,
    pub group_columns: Vec<usize>,
    pub aggregates: Vec<AggregateSpec>,
    /// Group columns, then one column for each aggregate.
    pub schema: SchemaRef,
    /// Whether the node above reads the groups on the device.
    pub stays: bool,
    /// GROUP BY expressions and aggregates as EXPLAIN shows them.
    pub group_display: Vec<String>,
    pub aggregate_display: Vec<String>,
}

/// One aggregate over groups of rows. Its FILTER clause, if any, is already part of its argument (as CASE).
#[derive(Debug, Clone)]
pub(crate) struct GroupAggregate {
    pub function: AggregateFunction,
    /// The column of its argument; `None` for COUNT(*).
    pub argument: Option<usize>,
    /// Whether equal values of a group count once: its state is the list of them.
    pub distinct: bool,
    /// DataFusion's own aggregate, which merges our partial states and finishes them.
    pub aggregate: Arc<AggregateFunctionExpr>,
}

/// One of the grouping sets; the only one without GROUPING SETS, ROLLUP or CUBE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupingSet {
    /// Which of the keys are NULL in it.
    pub nulls: Vec<bool>,
    /// What it says in the column of grouping ids, if there is one.
    pub id: Option<u64>,
}

/// Rows, grouped by nothing or by some columns, and aggregates over each group.
#[derive(Debug, Clone)]
pub(crate) struct GroupSpec {
    pub input: SideInput,
    /// Columns of the input.
    pub keys: Vec<usize>,
    pub sets: Vec<GroupingSet>,
    pub aggregates: Vec<GroupAggregate>,
    /// Keys, the grouping id if there is one, then one column for each aggregate.
    pub schema: SchemaRef,
    /// Whether the node above reads the groups on the device.
    pub stays: bool,
    /// GROUP BY expressions and aggregates as EXPLAIN shows them.
    pub group_display: Vec<String>,
    pub aggregate_display: Vec<String>,
}

impl GroupSpec {
    /// Columns of the output before the aggregates.
    pub(crate) fn key_columns(&self) -> usize {
        self.schema.fields().len() - self.aggregates.len()
    }
}
