//! From the aggregates of a stage that merges partial states, which another stage has made, to [`GroupAggregate`]s whose folds merge them.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;

use crate::error::Decline;
use crate::ir::fold::Fold;
use crate::plan::compile::key_types::is_orderable;
use crate::plan::recognise::aggregate_function::{Find, function_of, is_summed};
use crate::plan::recognise::refusal::Refusal;
use crate::plan::sources::aggregate_source::GroupSource;
use crate::spec::aggregate::{AggregateFunction, GroupAggregate, GroupState};

/// The aggregates of a stage that merges partial states: these are the columns behind the keys, in the order of the aggregates.
pub(crate) fn merging_aggregates(
    source: &GroupSource<'_>,
    find: &mut Find<'_>,
) -> Result<Vec<GroupAggregate>, Refusal> {
    let input = source.bottom.input().schema();
    let mut next = source.bottom.group_expr().expr().len();
    let mut aggregates = vec![];
    for aggregate in source.bottom.aggr_expr() {
        let name = aggregate.name();
        let states = aggregate.state_fields()?;
        let function = function_of(aggregate).filter(|function| {
            let folds = function.folds().len();
            folds == states.len() && merges_by_folds(*function, aggregate)
        });
        let Some(function) = function else {
            return Err(Decline(format!(
                "the partial states of {name} are merged by DataFusion alone"
            ))
            .into());
        };
        let mut merges = vec![];
        for (state, fold) in states.iter().zip(function.folds()) {
            let known = input.fields().get(next);
            let data_type = state.data_type();
            if known.is_none_or(|known| known.data_type() != data_type)
                || !can_fold(*fold, data_type)
            {
                return Err(Decline(format!(
                    "the partial states of {name} are of type {data_type}, which a device does not merge"
                ))
                .into());
            }
            let column: Arc<dyn PhysicalExpr> =
                Arc::new(Column::new(input.field(next).name(), next));
            merges.push(find(&column)?);
            next += 1;
        }
        aggregates.push(GroupAggregate {
            function,
            argument: None,
            merges: Some(merges),
            state: GroupState::Folds,
            aggregate: Arc::clone(aggregate),
        });
    }
    Ok(aggregates)
}

/// Whether a fold of each state merges the partial states of an aggregate.
fn merges_by_folds(function: AggregateFunction, aggregate: &AggregateFunctionExpr) -> bool {
    use crate::spec::aggregate::AggregateFunction::*;
    match function {
        Min | Max | BoolAnd | BoolOr | BitAnd | BitOr => true,
        Count | Sum | Avg => !aggregate.is_distinct(),
        BitXor => !aggregate.is_distinct(),
        Variance | Median | Percentile | First | Last => false,
    }
}

/// Whether a device merges states of this type, which are of `fold`.
fn can_fold(fold: Fold, state: &DataType) -> bool {
    match fold.of_states() {
        Fold::Sum => is_summed(state),
        Fold::Min | Fold::Max => is_orderable(state),
        Fold::And | Fold::Or | Fold::Xor => state.is_integer() || *state == DataType::Boolean,
        Fold::Count | Fold::Mean | Fold::SquaredDeviations => false,
    }
}
