//! Aggregates over a join, computed without materialising its matches (\[T\] section 4).

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::ir::side::Side;
use crate::spec::aggregate::AggregateFunction;
use crate::spec::join::JoinSpec;

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
    /// No GROUP BY: one row of output, also when nothing matches.
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
    /// Group columns, then one column for each aggregate, or for each of its states.
    pub schema: SchemaRef,
    /// Whether the output has partial states, which a later stage merges, not results.
    pub writes_states: bool,
    /// Whether the node above reads the groups on the device.
    pub output_on_device: bool,
    /// GROUP BY expressions and aggregates as EXPLAIN shows them.
    pub group_display: Vec<String>,
    pub aggregate_display: Vec<String>,
}
