//! A pipeline as it was before DataFusion's rules for distribution and order, which is the form that bowtie's rule reads: without exchanges,
//! without sorts for merges, and without the filters that run while the query does. The same rules add again what is still needed.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use crate::plan::sources::lone_stage::LoneStageExec;
use crate::plan::stage::aggregates::in_any_order;
use crate::plan::stage::hidden_order::{leaves_out_keys, unprojected};
use crate::plan::stage::members::moves_rows;

type Plan = Arc<dyn ExecutionPlan>;

/// `node` above `children`, which were made likewise. `by_partition`: for each of its partitions alone.
pub(crate) fn unplanned(node: &Plan, children: Vec<Plan>, by_partition: bool) -> Result<Plan> {
    if let ([child], Some(limit)) = (&children[..], node.downcast_ref::<GlobalLimitExec>()) {
        let (skip, fetch) = (limit.skip(), limit.fetch());
        let most = fetch.map(|fetch| skip.saturating_add(fetch));
        let child = in_order(limit.input(), Arc::clone(child), most);
        return Ok(Arc::new(GlobalLimitExec::new(child, skip, fetch)));
    }
    if let ([child], Some(limit)) = (&children[..], node.downcast_ref::<LocalLimitExec>()) {
        return first_rows(limit.input(), Arc::clone(child), limit.fetch());
    }
    let plan = without_exchanges(node, children, by_partition)?;
    let limits_itself = node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<CoalescePartitionsExec>();
    match node.fetch() {
        Some(fetch) if !limits_itself => below_own_limit(node, plan, fetch),
        _ => Ok(plan),
    }
}

/// `plan`, which is made of `node`, with the limit that `node` has as one above it. A projection that it has may leave out keys of the order
/// in which the rows come: then it follows the limit.
fn below_own_limit(node: &Plan, plan: Plan, fetch: usize) -> Result<Plan> {
    if !leaves_out_keys(node)? {
        // Where any rows will do, a join stops early. A filter with a limit is none for a device.
        let stops_early = node.output_ordering().is_none() && !node.is::<FilterExec>();
        let plan = match stops_early {
            true => plan,
            false => plan.with_fetch(None).unwrap_or(plan),
        };
        return first_rows(node, plan, fetch);
    }
    let (node, projection) = unprojected(node)?;
    let (plan, _) = unprojected(&plan)?;
    let plan = first_rows(&node, plan, fetch)?;
    let Some(projection) = projection else {
        return Ok(plan);
    };
    let schema = plan.schema();
    let columns = projection.iter().map(|column| {
        let name = schema.field(*column).name();
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, *column));
        (expr, name.clone())
    });
    Ok(Arc::new(ProjectionExec::try_new(
        columns.collect::<Vec<_>>(),
        plan,
    )?))
}

/// The first `fetch` rows of each partition of `plan`, which is made of `node`, by the order of `node`.
fn first_rows(node: &Plan, plan: Plan, fetch: usize) -> Result<Plan> {
    let plan = in_order(node, plan, Some(fetch));
    Ok(match node.output_partitioning().partition_count() {
        // DataFusion makes the limit of all rows one of a node with one partition. What is planned anew may have more of them.
        0 | 1 => Arc::new(GlobalLimitExec::new(plan, 0, Some(fetch))),
        _ => Arc::new(LocalLimitExec::new(plan, fetch)),
    })
}

/// `plan`, which is made of `node`, with its first `fetch` rows, or all, in the order of `node`. DataFusion leaves out a sort below a limit where the
/// rows come in the order anyway, as they may not on a device.
fn in_order(node: &Plan, plan: Plan, fetch: Option<usize>) -> Plan {
    if is_above_sort(&plan) {
        return plan;
    }
    match node.output_ordering() {
        Some(ordering) if !node.is::<DataSourceExec>() => {
            let has_parts = node.output_partitioning().partition_count() > 1;
            let sorted = SortExec::new(LexOrdering::clone(ordering), plan).with_fetch(fetch);
            Arc::new(sorted.with_preserve_partitioning(has_parts))
        }
        _ => plan,
    }
}

/// Whether the order of a plan is that of a sort of all rows below it.
fn is_above_sort(plan: &Plan) -> bool {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return !sort.preserve_partitioning();
    }
    // An aggregation keeps the order of its input as well, but not on a device.
    let keeps_rows = plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>();
    keeps_rows && plan.children().into_iter().all(is_above_sort)
}

fn without_exchanges(node: &Plan, children: Vec<Plan>, by_partition: bool) -> Result<Plan> {
    if let [child] = &children[..] {
        if moves_rows(node) {
            return Ok(Arc::clone(child));
        }
        if let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() {
            return Ok(merged(merge, child));
        }
        if let Some(sort) = node.downcast_ref::<SortExec>() {
            let has_parts = node.output_partitioning().partition_count() > 1;
            // The first rows of each partition are others than those of all rows. The merge above has a limit, too.
            let fetch = sort.fetch().filter(|_| by_partition || !has_parts);
            // A new one has another filter for its scan.
            let sorted = SortExec::new(sort.expr().clone(), Arc::clone(child))
                .with_fetch(fetch)
                .with_preserve_partitioning(sort.preserve_partitioning() && has_parts);
            return Ok(Arc::new(sorted));
        }
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let join = join.builder().reset_state().with_new_children(children)?;
        return join.build_exec();
    }
    if node.is::<SortMergeJoinExec>() {
        let children = children.iter().map(without_sort).collect();
        return replace_children_if_necessary(Arc::clone(node), children);
    }
    if node.is::<InterleaveExec>() {
        return UnionExec::try_new(children);
    }
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
        return replace_children_if_necessary(Arc::clone(node), children);
    };
    let children: Vec<Plan> = children.iter().map(without_sort).collect();
    let is_last = matches!(
        aggregate.mode(),
        AggregateMode::Final | AggregateMode::FinalPartitioned
    );
    if let [child] = &children[..]
        && is_last
        && let Some(first) = first_stage(child)
    {
        return replace_children_if_necessary(Arc::clone(node), vec![first]);
    }
    let whole = matches!(
        aggregate.mode(),
        AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    let aggregate = replace_children_if_necessary(in_any_order(aggregate)?, children)?;
    Ok(match whole {
        true => aggregate,
        false => LoneStageExec::marking(aggregate),
    })
}

/// The first stage that `plan` is, without its mark.
fn first_stage(plan: &Plan) -> Option<Plan> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let is_first = *aggregate.mode() == AggregateMode::Partial;
    let marked = LoneStageExec::of(plan).filter(|_| is_first)?;
    Some(Arc::clone(marked.aggregate()))
}

/// A merge of partitions as a sort of all rows. Nobody above requires an order whose keys are read no more, so that the rules would leave out the
/// merge, but not the sort; they make a merge of it where the partitions come in its order.
fn merged(merge: &SortPreservingMergeExec, child: &Plan) -> Plan {
    let sort = child.downcast_ref::<SortExec>();
    // A limit of each partition is more than one of all rows.
    let sort = sort.filter(|sort| {
        sort.expr() == merge.expr() && (sort.fetch().is_none() || merge.fetch().is_some())
    });
    let (input, below) = match sort {
        Some(sort) => (sort.input(), sort.fetch()),
        None => (child, None),
    };
    let fetch = [merge.fetch(), below].into_iter().flatten().min();
    Arc::new(SortExec::new(merge.expr().clone(), Arc::clone(input)).with_fetch(fetch))
}

/// The input of a merge join or an aggregation that was sorted for it.
fn without_sort(input: &Plan) -> Plan {
    match input.downcast_ref::<SortExec>() {
        Some(sort) if sort.fetch().is_none() => Arc::clone(sort.input()),
        _ => Arc::clone(input),
    }
}
