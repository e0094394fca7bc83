//! Nodes that another machine reads as they were planned.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::not_impl_err;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::JoinType;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use crate::executors::task_border::{Border, TaskBorderExec};
use crate::files::{is_compressed, refused};

type Plan = Arc<dyn ExecutionPlan>;

/// A node that is there after it was sent and divided with the rows that it was planned for.
///
/// # Errors
/// For an `OFFSET`, or for files, of which its message cannot say what they are.
pub(super) fn that_arrive_as_planned(node: Plan) -> Result<Transformed<Plan>> {
    let other = match node.children()[..] {
        [] if is_compressed(node.as_ref()) => return refused(),
        [] => with_metrics(&node)?,
        [_, _] => with_nullable_filter(&node)?,
        _ => None,
    };
    let limited = with_limit_above(other.as_ref().unwrap_or(&node))?;
    Ok(limited
        .or(other)
        .map_or_else(|| Transformed::no(node), Transformed::yes))
}

/// A node of one partition that ends after some rows, below a limit: once it has several, each of them ends after as many. And one that ends after
/// more rows than DataFusion's message of it can say, such as an `OFFSET` without a limit, without this.
fn with_limit_above(node: &Plan) -> Result<Option<Plan>> {
    let limit = node.downcast_ref::<GlobalLimitExec>();
    if let Some(skip) = limit.map(GlobalLimitExec::skip)
        && u32::try_from(skip).is_err()
    {
        return not_impl_err!(
            "bowtie: OFFSET {skip} cannot be sent: DataFusion's message of it has numbers below 4294967296"
        );
    }
    if let Some(limit) = limit {
        let rows = limit.fetch().filter(|rows| *rows < i64::MAX as usize);
        return Ok(Some(limited(Arc::clone(limit.input()), limit.skip(), rows)));
    }
    let Some(rows) = node.fetch() else {
        return Ok(None);
    };
    let (is_sendable, is_limit) = (rows < u32::MAX as usize, rows < i64::MAX as usize);
    // Swapped, it would have ended after rows of another order.
    let is_ordered_join = node.children().len() == 2 && node.output_ordering().is_some();
    let is_one = node.output_partitioning().partition_count() == 1;
    let is_merge = node.is::<SortPreservingMergeExec>() || node.is::<CoalescePartitionsExec>();
    if is_sendable && !is_ordered_join && (!is_one || is_merge || node.is::<SortExec>()) {
        return Ok(None);
    }
    let other = match is_sendable && !is_ordered_join {
        true => Some(Arc::clone(node)),
        false => node.with_fetch(None),
    };
    Ok(other.map(|other| match is_one && is_limit {
        true => limited(other, 0, Some(rows)),
        false => other,
    }))
}

/// The rows after some, in the order that the input has now: a limit requires none, and DataFusion's rule, which runs again, would take a merge from
/// below it.
fn limited(input: Plan, skip: usize, rows: Option<usize>) -> Plan {
    let order = input.output_ordering().cloned();
    let input = match order.is_some() {
        true => TaskBorderExec::above(input, Border::InOrder),
        false => input,
    };
    let mut limit = GlobalLimitExec::new(input, skip, rows);
    limit.set_required_ordering(order);
    Arc::new(limit)
}

/// The sort, and the merge, below a limit, which end after the rows that this takes. It has a border above them, which the rule that adds them does not
/// look through.
pub(super) fn ended_by_limit(node: Plan) -> Result<Transformed<Plan>> {
    let limit = node.downcast_ref::<GlobalLimitExec>();
    let Some((limit, rows)) = limit.and_then(|limit| Some((limit, limit.fetch()?))) else {
        return Ok(Transformed::no(node));
    };
    let border = limit.input();
    let ([below], true) = (&border.children()[..], border.is::<TaskBorderExec>()) else {
        return Ok(Transformed::no(node));
    };
    let rows = limit.skip().saturating_add(rows);
    // As many as a message can say.
    let below = ended_after(below, rows).filter(|_| rows < u32::MAX as usize);
    let Some(below) = below else {
        return Ok(Transformed::no(node));
    };
    let border = replace_children_if_necessary(Arc::clone(border), vec![below])?;
    let limit = replace_children_if_necessary(Arc::clone(&node), vec![border])?;
    Ok(Transformed::yes(limit))
}

/// A sort, or a merge of sorts, of the first rows.
fn ended_after(plan: &Plan, rows: usize) -> Option<Plan> {
    let is_merge = plan.is::<SortPreservingMergeExec>();
    if !is_merge && !plan.is::<SortExec>() || plan.fetch().is_some() {
        return None;
    }
    let ended = plan.with_fetch(Some(rows))?;
    let below = is_merge
        .then(|| ended_after(plan.children().first()?, rows))
        .flatten();
    match below {
        Some(below) => replace_children_if_necessary(ended, vec![below]).ok(),
        None => Some(ended),
    }
}

/// As many rows, one or none, from memory. Of a task that reads no partition of such a node Ballista makes this node itself, which has metrics; and it
/// takes no note of the end of a task that has more of them than another: the query waits for ever.
fn with_metrics(node: &Plan) -> Result<Option<Plan>> {
    let rows = if node.is::<PlaceholderRowExec>() {
        1
    } else if node.is::<EmptyExec>() {
        0
    } else {
        return Ok(None);
    };
    // A placeholder has no values, whatever its schema says.
    let schema = match rows {
        0 => node.schema(),
        _ => nullable(&node.schema()),
    };
    let columns = schema.fields().iter();
    let columns = columns.map(|field| new_null_array(field.data_type(), rows));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let row = RecordBatch::try_new_with_options(Arc::clone(&schema), columns.collect(), &options)?;
    let partitions = node.output_partitioning().partition_count();
    let rows = vec![vec![row]; partitions];
    let memory: Plan = MemorySourceConfig::try_new_exec(&rows, schema, None)?;
    Ok(Some(memory))
}

fn nullable(schema: &Schema) -> SchemaRef {
    let columns = schema.fields().iter();
    let columns = columns.map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(columns.collect::<Vec<_>>()))
}

/// An outer sort-merge join whose filter takes NULL: DataFusion 55 tests unmatched rows, too, and ends where the schema of its filter has none.
fn with_nullable_filter(node: &Plan) -> Result<Option<Plan>> {
    let Some(join) = node.downcast_ref::<SortMergeJoinExec>() else {
        return Ok(None);
    };
    let Some(filter) = join.filter() else {
        return Ok(None);
    };
    if join.join_type() == JoinType::Inner {
        return Ok(None);
    }
    let filter = JoinFilter::new(
        Arc::clone(filter.expression()),
        filter.column_indices().to_vec(),
        nullable(filter.schema()),
    );
    let join = SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        Some(filter),
        join.join_type(),
        join.sort_options().to_vec(),
        join.null_equality(),
    )?;
    Ok(Some(Arc::new(join)))
}
