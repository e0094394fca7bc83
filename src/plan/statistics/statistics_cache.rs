//! [`StatisticsCache`]: statistics of a plan's nodes, computed once for each node while a query is planned.
//!
//! DataFusion's statistics of a table in memory ask every column of every batch for its NULLs and bytes: 100 ms for 49,000 batches of three
//! columns. Here such a table has a row count, which its batches hold, and NULL counts and the bytes of lists if it has few batches.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{JoinType, Statistics, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs};

use crate::plan::sources::join_nodes::join_source;
use crate::plan::sources::join_source::JoinSource;

/// Columns of batches whose NULLs are counted, at most.
const MOST_COUNTED: usize = 1 << 12;

/// Bytes of an element of a list whose type has no width.
const WIDTH_OF_OTHERS: usize = 8;

/// Rows of an input, as far as the plan knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowEstimate(pub Precision<usize>);

impl RowEstimate {
    pub(crate) fn rows(&self) -> Option<u64> {
        self.0.get_value().map(|rows| *rows as u64)
    }
}

/// A node by its address, and one of its partitions or all of them.
type Key = (*const (), Option<usize>);

/// Held with its node, so that no other one gets its address.
type Held = (Arc<dyn ExecutionPlan>, Arc<Statistics>);

/// Statistics of nodes that were asked for.
#[derive(Default)]
pub(crate) struct StatisticsCache {
    computed: RefCell<HashMap<Key, Held>>,
}

impl StatisticsCache {
    /// A node without statistics is no error of the query.
    pub(crate) fn statistics(&self, plan: &Arc<dyn ExecutionPlan>) -> Arc<Statistics> {
        let known = self.compute(plan, None);
        known.unwrap_or_else(|_| Arc::new(Statistics::new_unknown(&plan.schema())))
    }

    pub(crate) fn rows(&self, plan: &Arc<dyn ExecutionPlan>) -> RowEstimate {
        RowEstimate(self.statistics(plan).num_rows)
    }

    pub(crate) fn sides(&self, source: &JoinSource) -> (RowEstimate, RowEstimate) {
        (self.rows(&source.left), self.rows(&source.right))
    }

    /// Elements in the lists of a column, all rows together, as far as bytes tell: those of the column, or of all columns if the others have a width.
    /// `None` where nothing is known.
    pub(crate) fn elements(&self, plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<u64> {
        let statistics = self.statistics(plan);
        let schema = plan.schema();
        let of_column = statistics.column_statistics.get(column);
        let of_column = of_column.and_then(|column| column.byte_size.get_value().copied());
        let of_others = || {
            let others = schema
                .fields()
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != column);
            let widths = others.map(|(_, field)| field.data_type().primitive_width());
            let rows = *statistics.num_rows.get_value()?;
            Some(widths.sum::<Option<usize>>()?.saturating_mul(rows))
        };
        let bytes = match of_column {
            Some(bytes) => bytes,
            None => {
                let all = *statistics.total_byte_size.get_value()?;
                all.saturating_sub(of_others()?)
            }
        };
        Some((bytes / element_width(schema.field(column).data_type())) as u64)
    }

    /// The distinct count of a key of a join.
    fn distinct_count(
        &self,
        side: &Arc<dyn ExecutionPlan>,
        key: &Arc<dyn PhysicalExpr>,
    ) -> Option<u64> {
        let column = key.downcast_ref::<Column>()?;
        let statistics = self.statistics(side);
        let column = statistics.column_statistics.get(column.index())?;
        column.distinct_count.get_value().map(|count| *count as u64)
    }

    /// How many values the keys of a join have on the side that has more, at least, where that is known.
    pub(crate) fn distinct_keys(&self, source: &JoinSource) -> Option<u64> {
        let counts = source.on.iter().flat_map(|(left, right)| {
            [
                self.distinct_count(&source.left, left),
                self.distinct_count(&source.right, right),
            ]
        });
        counts.flatten().max()
    }

    /// Whether the distinct count of each key of a join is known, on both sides.
    pub(crate) fn counts_keys(&self, source: &JoinSource) -> bool {
        source.on.iter().all(|(left, right)| {
            self.distinct_count(&source.left, left).is_some()
                && self.distinct_count(&source.right, right).is_some()
        })
    }

    /// Rows of a node, where a join without distinct counts has at least the rows of its longer side. DataFusion takes such keys for unique,
    /// unless their least and greatest values allow fewer, and estimates the shorter side's rows.
    pub(crate) fn rows_about(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        use JoinType::*;
        let known = |plan| self.rows(plan).rows().map(|rows| rows as f64);
        if let Some(Ok(source)) = join_source(plan) {
            if self.counts_keys(&source) {
                return known(plan);
            }
            let (left, right) = (&source.left, &source.right);
            return match source.kind {
                LeftSemi | LeftAnti | LeftMark => self.rows_about(left),
                RightSemi | RightAnti | RightMark => self.rows_about(right),
                Inner | Left | Right | Full => {
                    let longer = self.rows_about(left)?.max(self.rows_about(right)?);
                    Some(known(plan).map_or(longer, |rows| rows.max(longer)))
                }
            };
        }
        let [input] = plan.children()[..] else {
            return known(plan);
        };
        let share = match (known(plan), known(input)) {
            (Some(rows), Some(of)) if of > 0.0 => rows / of,
            _ => 1.0,
        };
        Some(self.rows_about(input)? * share)
    }

    /// As [`StatisticsContext`](datafusion::physical_plan::StatisticsContext) computes them, which keeps them for one call.
    fn compute(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        partition: Option<usize>,
    ) -> Result<Arc<Statistics>> {
        let key = (Arc::as_ptr(plan).cast::<()>(), partition);
        if let Some((_, known)) = self.computed.borrow().get(&key) {
            return Ok(Arc::clone(known));
        }
        let computed = match in_memory(plan) {
            Some(table) => Arc::new(of_batches(table, partition, &plan.schema())),
            None => self.of_node(plan, partition)?,
        };
        let held = (Arc::clone(plan), Arc::clone(&computed));
        self.computed.borrow_mut().insert(key, held);
        Ok(computed)
    }

    fn of_node(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        partition: Option<usize>,
    ) -> Result<Arc<Statistics>> {
        let (children, requests) = (plan.children(), plan.child_stats_requests(partition));
        if children.len() != requests.len() {
            return internal_err!(
                "{} asks for other inputs' statistics than it has",
                plan.name()
            );
        }
        let inputs = children.into_iter().zip(requests);
        let inputs = inputs.map(|(input, request)| match request {
            ChildStats::At(partition) => self.compute(input, partition),
            ChildStats::Skip => Ok(Arc::new(Statistics::new_unknown(&input.schema()))),
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let args = StatisticsArgs::new().with_partition(partition);
        plan.statistics_from_inputs(&inputs, &args)
    }
}

/// The batches of a scan of a table in memory.
fn in_memory(plan: &Arc<dyn ExecutionPlan>) -> Option<&MemorySourceConfig> {
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    scan.data_source().downcast_ref::<MemorySourceConfig>()
}

/// Statistics of a table in memory, of one partition or of all.
fn of_batches(
    table: &MemorySourceConfig,
    partition: Option<usize>,
    schema: &SchemaRef,
) -> Statistics {
    let partitions = table.partitions();
    let partitions = match partition {
        Some(partition) => match partitions.get(partition) {
            Some(batches) => std::slice::from_ref(batches),
            None => return Statistics::new_unknown(schema),
        },
        None => partitions,
    };
    let batches = || partitions.iter().flatten();
    let mut statistics = Statistics::new_unknown(schema);
    let rows = batches().map(RecordBatch::num_rows).sum();
    statistics.num_rows = Precision::Exact(rows);
    let width = schema.fields().len();
    if partitions.iter().map(Vec::len).sum::<usize>() * width > MOST_COUNTED {
        return statistics;
    }
    let columns = statistics.column_statistics.iter_mut();
    for ((column, field), i) in columns.zip(schema.fields()).zip(0..) {
        let i = table.projection().as_ref().map_or(i, |columns| columns[i]);
        let arrays = || batches().map(|batch| batch.column(i).as_ref());
        if holds_its_nulls(field.data_type()) {
            column.null_count = Precision::Exact(arrays().map(Array::null_count).sum());
        }
        let elements = arrays().map(elements_of).sum::<Option<usize>>();
        if let Some(elements) = elements {
            column.byte_size = Precision::Inexact(elements * element_width(field.data_type()));
        }
    }
    statistics
}

/// Elements in the lists of an array; `None` if it has no lists.
fn elements_of(array: &dyn Array) -> Option<usize> {
    use DataType::*;
    match array.data_type() {
        List(_) => {
            let offsets = array.as_list::<i32>().offsets();
            Some((offsets[array.len()] - offsets[0]) as usize)
        }
        LargeList(_) => {
            let offsets = array.as_list::<i64>().offsets();
            Some((offsets[array.len()] - offsets[0]) as usize)
        }
        // Parts of them may be of no list, or of several.
        ListView(_) => Some(array.as_list_view::<i32>().values().len()),
        LargeListView(_) => Some(array.as_list_view::<i64>().values().len()),
        FixedSizeList(_, size) => Some(array.len() * *size as usize),
        _ => None,
    }
}

/// Bytes of an element of a list.
fn element_width(list: &DataType) -> usize {
    use DataType::*;
    match list {
        List(field)
        | LargeList(field)
        | ListView(field)
        | LargeListView(field)
        | FixedSizeList(field, _) => field.data_type().primitive_width(),
        _ => None,
    }
    .unwrap_or(WIDTH_OF_OTHERS)
}

/// Whether an array of the type says how many of its values are NULL without reading them.
fn holds_its_nulls(data_type: &DataType) -> bool {
    use DataType::*;
    !matches!(
        data_type,
        Null | Dictionary(..) | RunEndEncoded(..) | Union(..)
    )
}

#[cfg(test)]
mod tests;
