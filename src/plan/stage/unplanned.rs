//! A pipeline as it was before DataFusion's rules for distribution and order, which is the form that bowtie's rule reads: without exchanges,
//! without sorts for merges, and without the filters that run while the query does. The same rules add again what is still needed.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use crate::plan::recognise::lone_stage::LoneStageExec;
use crate::plan::stage::members::moves_rows;

type Plan = Arc<dyn ExecutionPlan>;

/// `node` above `children`, which were made likewise.
pub(crate) fn unplanned(node: &Plan, children: Vec<Plan>) -> Result<Plan> {
    let plan = without_exchanges(node, children)?;
    // Their limits are of all rows already.
    let is_whole = node.is::<GlobalLimitExec>()
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<CoalescePartitionsExec>();
    match is_whole {
        true => Ok(plan),
        false => limited(node, plan),
    }
}

/// `plan`, which is made of `node`, below the limit of `node`. Of a node with one partition DataFusion makes the limit of all rows its own, and
/// what is planned anew may have more partitions, each of which would have as many rows.
pub(crate) fn limited(node: &Plan, plan: Plan) -> Result<Plan> {
    let fetch = node.fetch();
    let fetch = fetch.filter(|_| node.output_partitioning().partition_count() == 1);
    match fetch {
        Some(_) => Ok(Arc::new(GlobalLimitExec::new(in_order(&plan)?, 0, fetch))),
        None => Ok(plan),
    }
}

fn without_exchanges(node: &Plan, children: Vec<Plan>) -> Result<Plan> {
    if let [child] = &children[..] {
        if node.is::<GlobalLimitExec>() || node.is::<LocalLimitExec>() {
            let child = in_order(child)?;
            return replace_children_if_necessary(Arc::clone(node), vec![child]);
        }
        if moves_rows(node) {
            return Ok(Arc::clone(child));
        }
        if let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() {
            return merged(node, merge, child);
        }
        if let Some(sort) = node.downcast_ref::<SortExec>() {
            let apart = node.output_partitioning().partition_count() > 1;
            // A new one has another filter for its scan.
            let sorted = SortExec::new(sort.expr().clone(), Arc::clone(child))
                .with_fetch(sort.fetch())
                .with_preserve_partitioning(sort.preserve_partitioning() && apart);
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
    let aggregate = replace_children_if_necessary(Arc::clone(node), children)?;
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

/// The merge of sorted partitions as the sort that it was.
fn merged(node: &Plan, merge: &SortPreservingMergeExec, child: &Plan) -> Result<Plan> {
    let sort = child.downcast_ref::<SortExec>();
    let Some(sort) = sort.filter(|sort| sort.expr() == merge.expr()) else {
        return replace_children_if_necessary(Arc::clone(node), vec![Arc::clone(child)]);
    };
    let fetch = [merge.fetch(), sort.fetch()].into_iter().flatten().min();
    let sorted = SortExec::new(merge.expr().clone(), Arc::clone(sort.input())).with_fetch(fetch);
    Ok(Arc::new(sorted))
}

/// The input of a limit, whose merge is a sort: a limit requires no order, so that the rules would leave out a merge below it.
fn in_order(input: &Plan) -> Result<Plan> {
    if let Some(merge) = input.downcast_ref::<SortPreservingMergeExec>() {
        let sort = SortExec::new(merge.expr().clone(), Arc::clone(merge.input()));
        return Ok(Arc::new(sort.with_fetch(merge.fetch())));
    }
    match (&input.children()[..], &input.maintains_input_order()[..]) {
        ([below], [true]) => {
            let below = vec![in_order(below)?];
            replace_children_if_necessary(Arc::clone(input), below)
        }
        _ => Ok(Arc::clone(input)),
    }
}

/// The input of a merge join or an aggregation that was sorted for it.
fn without_sort(input: &Plan) -> Plan {
    match input.downcast_ref::<SortExec>() {
        Some(sort) if sort.fetch().is_none() => Arc::clone(sort.input()),
        _ => Arc::clone(input),
    }
}
