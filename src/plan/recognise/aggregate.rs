//! From an aggregation to a [`GroupSpec`], or the reason why not.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Literal, binary, is_not_null, lit};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::error::Decline;
use crate::ir::strategies::{GroupStrategy, Grouping};
use crate::options::{BowtieOptions, Offload};
#[cfg(test)]
use crate::plan::calls;
use crate::plan::compile::fallible::is_widening;
use crate::plan::compile::float_bits::FloatBits;
use crate::plan::compile::key_types::{is_groupable, is_orderable};
use crate::plan::compile::permitted::{Use, permits};
use crate::plan::recognise::aggregate_function::{
    Find, function_of, one_if_not_null, sums_in_own_type, where_true,
};
use crate::plan::recognise::first_last::first_or_last;
use crate::plan::recognise::join_aggregate::AggregateSource;
use crate::plan::recognise::partial_states::merging_aggregates;
use crate::plan::recognise::refusal::Refusal;
use crate::plan::sources::aggregate_source::GroupSource;
use crate::spec::aggregate::{GroupAggregate, GroupSpec, GroupState, GroupingSet};
use crate::spec::join::{JoinSpec, Output, SideInput};

/// A grouping id has 64 bits: one for each key, and the others number equal sets.
const MOST_KEYS_OF_SETS: usize = 48;

/// The spec of an aggregation under `options`. `on_gpu`: whether it would run on a GPU.
pub(crate) fn group_spec(
    source: &GroupSource<'_>,
    options: &BowtieOptions,
    on_gpu: bool,
) -> Result<GroupSpec, Refusal> {
    #[cfg(test)]
    calls::count(calls::Maker::GroupSpec);
    let mut input = SideInput::new(source.bottom.input().schema());
    let spec = spec_of(source, (options, on_gpu), &mut |expression| {
        if !permits(expression, Use::Repeat) {
            let shown = fmt_sql(expression.as_ref());
            return Err(Decline(format!("{shown} is volatile: compute it in a subquery")).into());
        }
        Ok(input.column_of(expression)?)
    })?;
    Ok(GroupSpec { input, ..spec })
}

/// The specs of a join and of the aggregation above it, which reads the join's rows on the device. The aggregation's expressions are columns
/// of the join's inputs. Its own input is not set: it is the join's output.
pub(crate) fn group_above_join(
    source: &GroupSource<'_>,
    above: &AggregateSource<'_>,
    (options, on_gpu): (&BowtieOptions, bool),
    join: JoinSpec,
) -> Result<(JoinSpec, GroupSpec), Refusal> {
    #[cfg(test)]
    calls::count(calls::Maker::ResidentSpec);
    if join.fetch.is_some() {
        return Err(Decline("the join has a limit".into()).into());
    }
    let mut join = join;
    let mut output = vec![];
    let spec = spec_of(source, (options, on_gpu), &mut |expression| {
        let (side, column) = above.argument(&mut join, expression)?;
        let column = Output::Column(side, column);
        let known = output.iter().position(|known| *known == column);
        Ok(known.unwrap_or_else(|| {
            output.push(column);
            output.len() - 1
        }))
    })?;
    let join = JoinSpec {
        output,
        output_on_device: true,
        ..join
    };
    Ok((join, spec))
}

fn spec_of(
    source: &GroupSource<'_>,
    (options, on_gpu): (&BowtieOptions, bool),
    find: &mut Find<'_>,
) -> Result<GroupSpec, Refusal> {
    let input = source.bottom.input();
    if input.boundedness().is_unbounded() {
        return Err(
            Decline("its input is unbounded: bowtie groups finite inputs only".into()).into(),
        );
    }
    // The limit of an aggregation is a hint: a node above cuts its rows.
    let is_limited =
        source.top.limit_options().is_some() || source.bottom.limit_options().is_some();
    if is_limited && options.offload != Offload::Force {
        return Err(Decline(
            "the aggregation has a limit, at which DataFusion's stops early; bowtie.offload = 'force' offloads it".into(),
        )
        .into());
    }
    let group_by = source.bottom.group_expr();
    if group_by.has_grouping_set() && group_by.expr().len() > MOST_KEYS_OF_SETS {
        return Err(Decline(format!(
            "its grouping sets have more than {MOST_KEYS_OF_SETS} keys"
        ))
        .into());
    }
    let (mut keys, mut group_display) = (vec![], vec![]);
    for (expression, name) in group_by.expr() {
        let data_type = expression.data_type(&input.schema())?;
        if !is_groupable(&data_type) {
            return Err(Decline(format!(
                "it groups by {name} of type {data_type}, which bowtie does not support as a key: cast it to a supported type"
            ))
            .into());
        }
        keys.push(find(expression)?);
        group_display.push(name.clone());
    }
    let may_store = options.cache.bytes(true, u64::MAX) > 0;
    let aggregates = match source.stage.reads_states() {
        true => merging_aggregates(source, find)?,
        false => source
            .bottom
            .aggr_expr()
            .iter()
            .zip(source.bottom.filter_expr())
            .map(|(aggregate, filter)| group_aggregate(source, find, aggregate, filter, may_store))
            .collect::<Result<Vec<_>, Refusal>>()?,
    };
    Ok(GroupSpec {
        keys,
        sets: grouping_sets(source),
        aggregate_display: aggregates
            .iter()
            .map(|a| a.aggregate.name().to_string())
            .collect(),
        aggregates,
        grouping: Grouping {
            strategy: strategy(options, on_gpu),
            materialization: options.materialization.0,
        },
        schema: source.top.schema(),
        writes_states: source.stage.writes_states(),
        group_display,
        output_on_device: false,
        is_downloaded: true,
        views_are_text: false,
        input: SideInput::new(input.schema()),
    })
}

/// The strategy of the options, or what stands in for it on the CPU backend, which has three.
fn strategy(options: &BowtieOptions, on_gpu: bool) -> Option<GroupStrategy> {
    use GroupStrategy::{HashGlobal, HashShared, Partition, Runs, Sort, SortDictionary};
    options.group_strategy.0.map(|wanted| match wanted {
        HashShared | Sort | SortDictionary if !on_gpu => HashGlobal,
        HashShared | HashGlobal | Partition | Sort | SortDictionary | Runs => wanted,
    })
}

/// Grouping sets with DataFusion's ids: a bit for each key that is NULL, the first key's highest, and above them the number of equal sets
/// before.
fn grouping_sets(source: &GroupSource<'_>) -> Vec<GroupingSet> {
    let group_by = source.bottom.group_expr();
    let mut seen: HashMap<&[bool], u64> = HashMap::new();
    let numbered = |nulls: &Vec<bool>, before: u64| {
        let bits = nulls
            .iter()
            .fold(0, |bits, null| bits << 1 | u64::from(*null));
        bits | before.checked_shl(nulls.len() as u32).unwrap_or(0)
    };
    match group_by.groups() {
        // Without keys DataFusion may have no set.
        [] => vec![GroupingSet {
            nulls: vec![],
            id: None,
        }],
        groups => groups
            .iter()
            .map(|nulls| {
                let before = seen.entry(nulls).or_default();
                *before += 1;
                GroupingSet {
                    nulls: nulls.clone(),
                    id: group_by
                        .has_grouping_set()
                        .then(|| numbered(nulls, *before - 1)),
                }
            })
            .collect(),
    }
}

fn group_aggregate(
    source: &GroupSource<'_>,
    find: &mut Find<'_>,
    aggregate: &Arc<AggregateFunctionExpr>,
    filter: &Option<Arc<dyn PhysicalExpr>>,
    may_store: bool,
) -> Result<GroupAggregate, Refusal> {
    let name = aggregate.name();
    let schema = source.bottom.input().schema();
    let Some(function) = function_of(aggregate) else {
        return Err(Decline(format!("{name} is not implemented on a device")).into());
    };
    use crate::spec::aggregate::AggregateFunction::*;
    if let First | Last = function {
        return first_or_last(source, find, aggregate, function, filter, may_store);
    }
    if aggregate.is_distinct() && function == BitXor {
        return Err(Decline(format!(
            "{name} is not implemented on a device: DataFusion has other partial states of it with groups than without"
        ))
        .into());
    }
    let distinct = aggregate.is_distinct()
        && matches!(function, Count | Sum | Avg | Variance | Median | Percentile);
    // The order of a percentile is that of its values: it tells the end from which it counts.
    if !aggregate.order_bys().is_empty() && function != Percentile {
        return Err(Decline(format!(
            "{name} has an ORDER BY, which is not implemented on a device"
        ))
        .into());
    }
    let no_groups = source.bottom.group_expr().is_true_no_grouping();
    let expression = match &aggregate.expressions()[..] {
        [expression] => Arc::clone(expression),
        [expression, _] if function == Percentile => Arc::clone(expression),
        // COUNT of several arguments counts the rows without a NULL among them.
        [first, rest @ ..] if function == Count && !distinct => {
            // AND evaluates not all arguments on every row, but DataFusion does: without groups, on the rows that pass the filter.
            for expression in rest {
                if permits(expression, Use::Move(&schema)) {
                    continue;
                }
                find(&match filter {
                    Some(filter) if no_groups => where_true(filter, Arc::clone(expression))?,
                    _ => Arc::clone(expression),
                })?;
            }
            let mut all = is_not_null(Arc::clone(first))?;
            for expression in rest {
                let this = is_not_null(Arc::clone(expression))?;
                all = binary(all, Operator::And, this, &schema)?;
            }
            where_true(&all, lit(1i64))?
        }
        _ => return Err(Decline(format!("{name} does not have exactly one argument")).into()),
    };
    let is_star = function == Count
        && !distinct
        && expression
            .downcast_ref::<Literal>()
            .is_some_and(|l| !l.value().is_null());
    let data_type = expression.data_type(&schema)?;
    let folds = is_star
        || match function {
            _ if distinct => lists_its_values(aggregate, plain(&data_type))?,
            Median | Percentile => lists_its_values(aggregate, &data_type)?,
            First | Last => false,
            Count => true,
            Sum | Avg => sum_type(aggregate, &data_type)?.is_some(),
            Min | Max => is_orderable(&data_type),
            Variance => data_type == DataType::Float64,
            BoolAnd | BoolOr => data_type == DataType::Boolean,
            BitAnd | BitOr | BitXor => data_type.is_integer(),
        };
    if !folds {
        return Err(Decline(match distinct {
            true => format!("{name} of DISTINCT values of type {data_type} is not implemented on a device: cast its argument"),
            false => format!("{name} of type {data_type} is not implemented on a device: cast its argument"),
        })
        .into());
    }
    let expression = match function {
        _ if distinct => distinguished(expression, &data_type),
        Sum | Avg => match sum_type(aggregate, &data_type)? {
            Some(wider) if wider != data_type => {
                Arc::new(CastExpr::new(expression, wider, None)) as Arc<dyn PhysicalExpr>
            }
            _ => expression,
        },
        _ => expression,
    };
    if filter.is_some() && !is_star && !no_groups && !permits(&expression, Use::Move(&schema)) {
        // With groups DataFusion evaluates the argument also on rows that the filter rejects, and fails on them.
        find(&expression)?;
    }
    let argument = match (filter, is_star) {
        (None, true) => None,
        (None, false) => Some(find(&expression)?),
        // A row that the filter rejects counts as a NULL.
        (Some(filter), is_star) => {
            let value = match function {
                _ if is_star => lit(1i64),
                Count if !distinct => one_if_not_null(expression)?,
                _ => expression,
            };
            Some(find(&where_true(filter, value)?)?)
        }
    };
    Ok(GroupAggregate {
        function,
        argument,
        merges: None,
        state: match function {
            _ if distinct => GroupState::DistinctValues,
            Median | Percentile => GroupState::Values,
            _ => GroupState::Folds,
        },
        aggregate: Arc::clone(aggregate),
    })
}

/// A value that a device distinguishes as DataFusion does: the values of dictionaries, and the bits of floats, as zeros of both signs are
/// equal on a device.
fn distinguished(value: Arc<dyn PhysicalExpr>, data_type: &DataType) -> Arc<dyn PhysicalExpr> {
    let values = plain(data_type);
    let value = match data_type {
        DataType::Dictionary(..) => Arc::new(CastExpr::new(value, values.clone(), None)),
        _ => value,
    };
    match values.is_floating() {
        true => Arc::new(FloatBits::new(value)),
        false => value,
    }
}

/// The type of a dictionary's values; any other as it is.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// The type in which DataFusion sums an argument: its own, or wider decimals, to which the argument is cast. `None`: a device has no such
/// sum.
fn sum_type(
    aggregate: &AggregateFunctionExpr,
    argument: &DataType,
) -> Result<Option<DataType>, Refusal> {
    if sums_in_own_type(aggregate, argument)? {
        return Ok(Some(argument.clone()));
    }
    let state = aggregate.state_fields()?;
    let sum = state.last().map(|field| field.data_type());
    let wider =
        sum.filter(|sum| argument.is_decimal() && sum.is_decimal() && is_widening(argument, sum));
    Ok(wider.cloned())
}

/// Whether the state of an aggregate is a list of its values, which a device can order.
fn lists_its_values(
    aggregate: &AggregateFunctionExpr,
    argument: &DataType,
) -> Result<bool, Refusal> {
    Ok(match &aggregate.state_fields()?[..] {
        [state] => match state.data_type() {
            DataType::List(of) => is_orderable(argument) && holds(of.data_type(), argument),
            _ => false,
        },
        _ => false,
    })
}

/// Whether the values of a type are values of `wider`: the same type, or a decimal of more digits.
fn holds(wider: &DataType, values: &DataType) -> bool {
    use DataType::*;
    match (wider, values) {
        (Decimal32(p, s), Decimal32(q, t))
        | (Decimal64(p, s), Decimal64(q, t))
        | (Decimal128(p, s), Decimal128(q, t))
        | (Decimal256(p, s), Decimal256(q, t)) => p >= q && s == t,
        _ => wider == values,
    }
}
