//! [`differs_when_read_again`]: whether a query may have other rows, or other values in them, each time that it is read. In: its logical plan, before any
//! optimizer. Out: a reason, if it may. Who reads a query several times asks here.
//!
//! Rows come in another order each time, also in one partition: threads take batches as they are free, and memory decides what is spilled.
//!
//! | node | has the same rows each time |
//! |---|---|
//! | any expression | unless it has a volatile function |
//! | `LIMIT`, `OFFSET`, `DISTINCT ON` | in an order that decides all columns: rows that tie are equal then |
//! | `COUNT`, `BOOL_AND`, `BIT_OR`, … | yes |
//! | `MIN`, `MAX` | unless they are floats under `GROUP BY`, where the order decides between NaN and others |
//! | `SUM`, `AVG` | unless they are floats, whose sums depend on the order |
//! | `ARRAY_AGG`, `FIRST_VALUE`, … | in an order by all of their arguments, or one that decides all columns |
//! | other aggregates | not known, so no |
//! | a window | in an order that decides all columns. Ranks do in any order, and so do aggregates that do, over frames of peers or of the whole partition |
//! | a call of `bowtie_asof`, `bowtie_nearest` or `bowtie_similar` | no: any of the partners that tie are kept |
//! | a call of `bowtie_clusters` | if its query has |
//! | a stream, a node of another extension | no: the one ends, and nothing is known of the other |
//! | any other table, join, set operation, … | yes, if its inputs have |

use std::any::Any;

use arrow::datatypes::DataType;
use datafusion::catalog::stream::StreamTable;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::ArrayAgg;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion::functions_aggregate::bool_and_or::{BoolAnd, BoolOr};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::first_last::{FirstValue, LastValue};
use datafusion::functions_aggregate::grouping::Grouping;
use datafusion::functions_aggregate::median::Median;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::nth_value::NthValueAgg;
use datafusion::functions_aggregate::percentile_cont::PercentileCont;
use datafusion::functions_aggregate::string_agg::StringAgg;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::functions_window::cume_dist::CumeDist;
use datafusion::functions_window::rank::Rank;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Distinct, Expr, ExprSchemable, LogicalPlan, Sort, TableScan, Window,
    WindowFrame, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{OptimizerContext, OptimizerRule};

use crate::plan::clusters_table::ClustersTable;
use crate::plan::compile::permitted::repeats;

/// Why a query may have other rows each time that it is read, if it may: the words go behind "has".
pub(crate) fn differs_when_read_again(plan: &LogicalPlan) -> Result<Option<String>> {
    let plan = without_unread(plan)?;
    // Told before others: what ORDER BY random() LIMIT 1 lacks is not an order without ties.
    if is_volatile(&plan)? {
        return Ok(Some("a volatile function, such as random()".into()));
    }
    let mut why = None;
    plan.apply_with_subqueries(|node| {
        why = reason(node)?;
        Ok(go_on(why.is_none()))
    })?;
    Ok(why)
}

/// Whether an expression of a plan has a volatile function.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(go_on(!found))
    })?;
    Ok(found)
}

fn go_on(on: bool) -> TreeNodeRecursion {
    if on {
        TreeNodeRecursion::Continue
    } else {
        TreeNodeRecursion::Stop
    }
}

/// The plan without columns that nobody reads: what is not computed does not differ. As it is where DataFusion cannot tell them, and where a
/// lateral subquery may read them.
fn without_unread(plan: &LogicalPlan) -> Result<LogicalPlan> {
    if plan.exists(|node| Ok(matches!(node, LogicalPlan::Subquery(_))))? {
        return Ok(plan.clone());
    }
    let read = OptimizeProjections::new().rewrite(plan.clone(), &OptimizerContext::new());
    Ok(read.map_or_else(|_| plan.clone(), |read| read.data))
}

/// Why one node may have other rows, where its inputs have the same.
fn reason(node: &LogicalPlan) -> Result<Option<String>> {
    Ok(match node {
        LogicalPlan::Limit(limit) => of_limit(sort_of(&limit.input)),
        LogicalPlan::Sort(sort) if sort.fetch.is_some() => of_limit(Some(sort)),
        LogicalPlan::TableScan(scan) => of_scan(scan)?,
        LogicalPlan::Distinct(Distinct::On(distinct)) => {
            let order = distinct.sort_expr.iter().flatten().map(|key| &key.expr);
            let keys = distinct.on_expr.iter().chain(order);
            let has_ties = !decide(keys, &distinct.input);
            has_ties.then(|| "a DISTINCT ON whose ORDER BY may have ties".into())
        }
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
        LogicalPlan::Window(window) => of_window(window),
        LogicalPlan::Extension(_) => Some("a node of another extension".into()),
        _ => None,
    })
}

/// The order in which the rows of a plan come, if it says one.
fn sort_of(plan: &LogicalPlan) -> Option<&Sort> {
    match plan {
        LogicalPlan::Sort(sort) => Some(sort),
        LogicalPlan::Projection(projection) => sort_of(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => sort_of(&alias.input),
        LogicalPlan::Limit(limit) => sort_of(&limit.input),
        _ => None,
    }
}

/// A limit of rows in an order.
fn of_limit(sort: Option<&Sort>) -> Option<String> {
    let Some(sort) = sort else {
        return Some("a LIMIT without an ORDER BY".into());
    };
    let keys = sort.expr.iter().map(|key| &key.expr);
    let has_ties = !decide(keys, &sort.input);
    has_ties.then(|| "a LIMIT whose ORDER BY may have ties".into())
}

fn of_scan(scan: &TableScan) -> Result<Option<String>> {
    if scan.fetch.is_some() {
        return Ok(of_limit(None));
    }
    let Ok(provider) = source_as_provider(&scan.source) else {
        return Ok(None);
    };
    // Its pairs are read each time.
    if let Some(clusters) = provider.downcast_ref::<ClustersTable>() {
        return differs_when_read_again(clusters.pairs());
    }
    let is_stream = provider.is::<StreamTable>();
    Ok(is_stream.then(|| "a table that is a stream".into()))
}

fn of_aggregate(aggregate: &Aggregate) -> Option<String> {
    let schema = aggregate.input.schema();
    let calls = aggregate.aggr_expr.iter().map(unaliased);
    let mut differing = calls.filter_map(|expr| match expr {
        Expr::AggregateFunction(call) => {
            let value = expr.get_type(schema);
            let is_same = if is_extreme(&call.func) && !aggregate.group_expr.is_empty() {
                is_exact(value)
            } else {
                is_same_in_any_order(&call.func, value) || is_ordered(call, aggregate)
            };
            (!is_same).then(|| call.func.name())
        }
        _ => None,
    });
    let name = differing.next()?;
    Some(format!(
        "the aggregate {name}, whose value depends on the order of rows"
    ))
}

fn of_window(window: &Window) -> Option<String> {
    // The rows of these functions are numbered (`plan/partners/numbered.rs`).
    let is_own =
        |expr: &Expr| matches!(expr, Expr::Alias(alias) if alias.name.starts_with("__bowtie_"));
    if window.window_expr.iter().any(is_own) {
        let own = "a call of bowtie_asof, bowtie_nearest or bowtie_similar, which keep any of the partners that tie";
        return Some(own.into());
    }
    let schema = window.input.schema();
    let calls = window.window_expr.iter().map(unaliased);
    let mut differing = calls.filter_map(|expr| match expr {
        Expr::WindowFunction(call) => {
            let is_same = has_no_ties(call, window) || is_of_peers(call, expr.get_type(schema));
            (!is_same).then(|| call.fun.name())
        }
        _ => None,
    });
    let name = differing.next()?;
    Some(format!(
        "the window function {name}, whose ORDER BY may have ties"
    ))
}

/// Whether an aggregate has one value, in whatever order its rows come.
fn is_same_in_any_order(function: &AggregateUDF, value: Result<DataType>) -> bool {
    let implementation: &dyn Any = function.inner().as_ref();
    if implementation.is::<Sum>() || implementation.is::<Avg>() {
        return is_exact(value);
    }
    let bitwise = [bit_and_udaf(), bit_or_udaf(), bit_xor_udaf()];
    implementation.is::<Count>()
        || is_extreme(function)
        || implementation.is::<BoolAnd>()
        || implementation.is::<BoolOr>()
        || implementation.is::<Median>()
        || implementation.is::<PercentileCont>()
        || implementation.is::<Grouping>()
        || bitwise.iter().any(|known| function == known.as_ref())
}

/// Whether a type is that of numbers that are not rounded.
fn is_exact(value: Result<DataType>) -> bool {
    value.is_ok_and(|value| !value.is_floating())
}

fn is_extreme(function: &AggregateUDF) -> bool {
    let implementation: &dyn Any = function.inner().as_ref();
    implementation.is::<Min>() || implementation.is::<Max>()
}

/// Whether an aggregate of rows in an order has one in which rows that tie have the same arguments.
fn is_ordered(call: &AggregateFunction, aggregate: &Aggregate) -> bool {
    let implementation: &dyn Any = call.func.inner().as_ref();
    let has_order = implementation.is::<ArrayAgg>()
        || implementation.is::<StringAgg>()
        || implementation.is::<FirstValue>()
        || implementation.is::<LastValue>()
        || implementation.is::<NthValueAgg>();
    let order = || call.params.order_by.iter().map(|key| &key.expr);
    let mut arguments = call.params.args.iter();
    let are_keys = arguments.all(|argument| {
        matches!(argument, Expr::Literal(..)) || order().any(|key| key == argument)
    });
    let keys = aggregate.group_expr.iter().chain(order());
    has_order && (are_keys || decide(keys, &aggregate.input))
}

/// Whether rows of a window's partition that tie in its order are equal.
fn has_no_ties(call: &WindowFunction, window: &Window) -> bool {
    let order = call.params.order_by.iter().map(|key| &key.expr);
    decide(call.params.partition_by.iter().chain(order), &window.input)
}

/// Whether a window function has one value for all rows that tie in its order, whatever comes first.
fn is_of_peers(call: &WindowFunction, value: Result<DataType>) -> bool {
    match &call.fun {
        WindowFunctionDefinition::WindowUDF(function) => {
            let implementation: &dyn Any = function.inner().as_ref();
            implementation.is::<Rank>() || implementation.is::<CumeDist>()
        }
        WindowFunctionDefinition::AggregateUDF(function) => {
            let WindowFrame {
                units,
                start_bound,
                end_bound,
                ..
            } = &call.params.window_frame;
            let is_whole = start_bound.is_unbounded() && end_bound.is_unbounded();
            (is_whole || *units != WindowFrameUnits::Rows) && is_same_in_any_order(function, value)
        }
    }
}

/// Whether rows of a plan that are equal in all of the keys are equal in all columns.
fn decide<'a>(keys: impl Iterator<Item = &'a Expr>, plan: &LogicalPlan) -> bool {
    let schema = plan.schema();
    let columns = keys.filter_map(|key| match unaliased(key) {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        _ => None,
    });
    let columns: Vec<usize> = columns.collect();
    are_decided((0..schema.fields().len()).collect(), &columns, plan)
}

/// Whether rows of a plan that are equal in the columns `keys` are equal in `columns`, too: these are computed from the keys, or the keys are those
/// of groups.
fn are_decided(mut columns: Vec<usize>, keys: &[usize], plan: &LogicalPlan) -> bool {
    columns.retain(|column| !keys.contains(column));
    if columns.is_empty() {
        return true;
    }
    match plan {
        LogicalPlan::Projection(projection) => {
            let schema = projection.input.schema();
            let of_input = |expr: &Expr| match unaliased(expr) {
                Expr::Column(column) => schema.maybe_index_of_column(column),
                _ => None,
            };
            let exprs = &projection.expr;
            let below = keys.iter().filter_map(|key| of_input(exprs.get(*key)?));
            let below: Vec<usize> = below.collect();
            let mut read = vec![];
            for column in columns {
                let expr = exprs.get(column);
                // A subquery may read columns, too.
                let Some(expr) = expr.filter(|expr| is_of_columns(expr)) else {
                    return false;
                };
                let of_expr = expr.column_refs().into_iter();
                read.extend(of_expr.filter_map(|column| schema.maybe_index_of_column(column)));
            }
            are_decided(read, &below, &projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => are_decided(columns, keys, &alias.input),
        LogicalPlan::Filter(filter) => are_decided(columns, keys, &filter.input),
        LogicalPlan::Sort(sort) => are_decided(columns, keys, &sort.input),
        LogicalPlan::Aggregate(aggregate) => {
            let groups = aggregate.group_expr_len();
            groups.is_ok_and(|groups| (0..groups).all(|group| keys.contains(&group)))
        }
        _ => false,
    }
}

/// Whether an expression reads no other columns than those that it names.
fn is_of_columns(expr: &Expr) -> bool {
    let reads_more = expr.exists(|expr| Ok(!repeats(expr)));
    reads_more.is_ok_and(|reads_more| !reads_more)
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        _ => expr,
    }
}

#[cfg(test)]
mod tests;
