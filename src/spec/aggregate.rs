//! Aggregates: over a join, computed without materialising its matches (\[T\] section 4), and over groups of rows (\[W\] section 3.2).

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::ir::fold::Fold;
use crate::ir::strategies::{GroupStrategy, Grouping};
use crate::spec::join::SideInput;

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
    /// VAR_SAMP, VAR_POP, STDDEV_SAMP and STDDEV_POP: DataFusion's accumulators finish them differently.
    Variance,
    Median,
    /// PERCENTILE_CONT, which DataFusion finishes by its second argument.
    Percentile,
    First,
    Last,
}

impl AggregateFunction {
    /// The states of DataFusion's accumulator, in its order; none where the states are not folds.
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
            Self::Variance => &[Fold::Count, Fold::Mean, Fold::SquaredDeviations],
            Self::Median | Self::Percentile | Self::First | Self::Last => &[],
        }
    }
}

/// The partial state of an aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupState {
    /// The folds of its function.
    Folds,
    /// A list of its distinct values.
    DistinctValues,
    /// A list of all its values.
    Values,
    /// The value of one row, and its sort keys.
    Row(RowOrder),
}

/// A row of each group by an order: of rows that tie, the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowOrder {
    /// Columns of the input.
    pub by: Vec<(usize, SortOptions)>,
    /// The last one in this order, not the first one.
    pub last: bool,
    /// The Boolean column of its filter; `None`: all rows.
    pub filter: Option<usize>,
}

impl RowOrder {
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        let by = self.by.iter().map(|(column, _)| *column);
        by.chain(self.filter)
    }
}

/// One aggregate over groups of rows. Its FILTER clause, if any, is already part of its argument (as CASE).
#[derive(Debug, Clone)]
pub(crate) struct GroupAggregate {
    pub function: AggregateFunction,
    /// The column of its argument; `None` for COUNT(*), and where it merges states.
    pub argument: Option<usize>,
    /// The columns of its partial states, one for each fold, which an earlier stage made; `None`: it reads rows.
    pub merges: Option<Vec<usize>>,
    pub state: GroupState,
    /// DataFusion's own aggregate, which merges our partial states and finishes them.
    pub aggregate: Arc<AggregateFunctionExpr>,
}

impl GroupAggregate {
    /// Its folds, each with the column that it folds.
    pub(crate) fn folds(&self) -> impl Iterator<Item = (Fold, Option<usize>)> {
        let folds = self.function.folds().iter().enumerate();
        folds.map(|(i, fold)| match &self.merges {
            None => (*fold, self.argument),
            Some(states) => (fold.of_states(), states.get(i).copied()),
        })
    }

    /// The columns that it folds or collects.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        let states = self.merges.iter().flatten().copied();
        self.argument.into_iter().chain(states)
    }

    /// Whether a fold merges several of its states: not lists, nor means.
    pub(crate) fn merges_on_device(&self) -> bool {
        self.state == GroupState::Folds && self.function != AggregateFunction::Variance
    }
}

/// One of the grouping sets; the only one without GROUPING SETS, ROLLUP or CUBE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupingSet {
    /// Which of the keys are NULL in it.
    pub nulls: Vec<bool>,
    /// Its grouping id, if the output has a column of these.
    pub id: Option<u64>,
}

/// A grouped aggregation; without keys, of all rows.
#[derive(Debug, Clone)]
pub(crate) struct GroupSpec {
    pub input: SideInput,
    /// Columns of the input.
    pub keys: Vec<usize>,
    pub sets: Vec<GroupingSet>,
    pub aggregates: Vec<GroupAggregate>,
    /// What the device leaves open it chooses by a sample of the keys.
    pub grouping: Grouping,
    /// Keys, the grouping id if there is one, then one column for each aggregate, or for each of its states.
    pub schema: SchemaRef,
    /// Whether the output has partial states, which a later stage merges, not results.
    pub writes_states: bool,
    /// Whether the groups stay on the device, if their states are the results.
    pub output_on_device: bool,
    /// Whether a download reads the groups, which then are rows in the memory pool.
    pub is_downloaded: bool,
    /// The rows come from stored tables alone, on a GPU: the bytes of views are there too.
    pub views_are_text: bool,
    /// GROUP BY expressions and aggregates as EXPLAIN shows them.
    pub group_display: Vec<String>,
    pub aggregate_display: Vec<String>,
}

impl GroupSpec {
    /// The strategy as EXPLAIN shows it; `None` without keys.
    pub(crate) fn strategy(&self) -> Option<&'static str> {
        let name = self.grouping.strategy.map_or("auto", GroupStrategy::name);
        (!self.keys.is_empty()).then_some(name)
    }

    /// Columns of the output before the aggregates.
    pub(crate) fn key_columns(&self) -> usize {
        let has_id = self.sets.iter().any(|set| set.id.is_some());
        self.keys.len() + usize::from(has_id)
    }
}
