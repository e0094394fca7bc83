//! FIRST_VALUE and LAST_VALUE: where rows that tie in their order cannot change the result.
//!
//! Of rows that tie, DataFusion keeps the first one that it reads, or, without groups, another one for LAST_VALUE. So the result is
//! DataFusion's where the order determines the value, and where both read the rows in the same order.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, binary, is_not_null};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::error::Decline;
use crate::exec::scan::table::Table;
use crate::plan::compile::permitted::{Use, permits};
use crate::plan::recognise::aggregate_function::{Find, where_true};
use crate::plan::recognise::refusal::Refusal;
use crate::plan::sources::aggregate_source::GroupSource;
use crate::spec::aggregate::{AggregateFunction, GroupAggregate, GroupState, RowOrder};

/// The spec of an aggregate `function`, which is one of these two.
pub(crate) fn first_or_last(
    source: &GroupSource<'_>,
    find: &mut Find<'_>,
    aggregate: &Arc<AggregateFunctionExpr>,
    function: AggregateFunction,
    filter: &Option<Arc<dyn PhysicalExpr>>,
    may_store: bool,
) -> Result<GroupAggregate, Refusal> {
    let name = aggregate.name();
    let decline = |why: &str| Err(Decline(format!("{name} {why}")).into());
    let [value] = &aggregate.expressions()[..] else {
        return decline("does not have exactly one argument");
    };
    if aggregate.is_distinct() {
        return decline("has DISTINCT, which is not implemented on a device");
    }
    let orders = aggregate.order_bys();
    // One that says an expression twice has fewer columns than states.
    match LexOrdering::new(orders.to_vec()) {
        None => {
            return decline("has no ORDER BY, so any row of a group may be its result: add one");
        }
        Some(order) if order.len() < orders.len() => {
            return decline("has an expression twice in its ORDER BY: remove one");
        }
        Some(_) => {}
    }
    let by: Vec<_> = orders.iter().map(|order| &order.expr).collect();
    let no_groups = source.bottom.group_expr().is_true_no_grouping();
    let last = function == AggregateFunction::Last;
    let keeps_first = !last || (!no_groups && aggregate.groups_accumulator_supported());
    let input = source.bottom.input();
    let same = decides(&by, value) || (keeps_first && comes_as_it_lies(input, may_store));
    if !same {
        return decline(
            "depends on which of the rows that tie in its ORDER BY is first: add keys that make the order unique",
        );
    }

    let schema = input.schema();
    let guarded = |expression: &Arc<dyn PhysicalExpr>| match filter {
        // Without groups DataFusion evaluates it on rows that pass the filter alone.
        Some(filter) if no_groups && !permits(expression, Use::Move(&schema)) => {
            where_true(filter, Arc::clone(expression))
        }
        _ => Ok(Arc::clone(expression)),
    };
    let value = guarded(value)?;
    let argument = find(&value)?;
    let by = orders
        .iter()
        .map(|order| Ok((find(&guarded(&order.expr)?)?, order.options)))
        .collect::<Result<_, Refusal>>()?;
    let not_null = match aggregate.ignore_nulls() {
        true => Some(is_not_null(value)?),
        false => None,
    };
    let filter = match (filter.clone(), not_null) {
        (Some(filter), Some(not_null)) => Some(binary(filter, Operator::And, not_null, &schema)?),
        (filter, not_null) => filter.or(not_null),
    };
    let filter = filter.map(|filter| find(&filter)).transpose()?;
    Ok(GroupAggregate {
        merges: None,
        function,
        argument: Some(argument),
        state: GroupState::Row(RowOrder { by, last, filter }),
        aggregate: Arc::clone(aggregate),
    })
}

/// Whether rows that are equal in all of `by` have the same value, as it is computed from these.
fn decides(by: &[&Arc<dyn PhysicalExpr>], value: &Arc<dyn PhysicalExpr>) -> bool {
    if by.contains(&value) {
        return true;
    }
    let columns: Vec<usize> = by
        .iter()
        .filter_map(|by| Some(by.downcast_ref::<Column>()?.index()))
        .collect();
    let read = collect_columns(value);
    read.iter().all(|column| columns.contains(&column.index()))
}

/// Whether the order of the rows is that of a scan: no join, no sort, and no known order, by which DataFusion would keep the last row
/// instead of the first. Files that are stored are read in another order: their ends come last. Of several partitions no order is known anyway.
fn comes_as_it_lies(input: &Arc<dyn ExecutionPlan>, may_store: bool) -> bool {
    fn keeps_order(plan: &Arc<dyn ExecutionPlan>, may_store: bool) -> bool {
        match plan.children()[..] {
            [] => {
                let in_order = plan.output_partitioning().partition_count() == 1;
                !(in_order && may_store && Table::of(plan).is_some_and(|table| table.is_in_files()))
            }
            [child] => plan.maintains_input_order() == [true] && keeps_order(child, may_store),
            _ => false,
        }
    }
    input.output_ordering().is_none() && keeps_order(input, may_store)
}
