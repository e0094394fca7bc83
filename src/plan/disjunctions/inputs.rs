//! Which inputs of a join may be read by several joins instead of one, and at what cost.

use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};

use crate::plan::compile::permitted::repeats;
use crate::plan::snapshots::snapshot_table::SnapshotTable;

/// Pairs up to which a nested loop takes no longer than the plans of several joins.
const FEW_PAIRS: u64 = 1 << 16;

/// Pairs from which the columns that an input computes cost less than a test of each pair, however often they are computed.
const MANY_PAIRS: u64 = 1 << 26;

/// Joins at most that read files.
const MOST_JOINS_OF_FILES: usize = 4;

/// An input that has the same rows each time that it is read: filters, projections and names above a table in memory, files or constants. A
/// limit or a random number may give other rows each time, and so may a table of which nothing is known; a join or an aggregation would be
/// computed each time.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// Before filters; `None` if it is not known.
    rows: Option<u64>,
    is_filtered: bool,
    /// Whether its columns are computed.
    computes: bool,
    is_of_files: bool,
}

impl Input {
    /// `None` if it may not be read several times.
    pub(super) fn of(plan: &LogicalPlan) -> Result<Option<Self>> {
        let mut input = Self::default();
        let mut node = plan;
        loop {
            let mut may_differ = false;
            node.apply_expressions(|expr| {
                may_differ |= expr.exists(|expr| Ok(!repeats(expr)))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            if may_differ {
                return Ok(None);
            }
            node = match node {
                LogicalPlan::Projection(projection) => {
                    input.computes |= !projection.expr.iter().all(is_moved);
                    &projection.input
                }
                LogicalPlan::Filter(filter) => {
                    input.is_filtered = true;
                    &filter.input
                }
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                LogicalPlan::Values(values) => {
                    input.rows = Some(values.values.len() as u64);
                    return Ok(Some(input));
                }
                LogicalPlan::TableScan(scan) => return Ok(input.scanned(scan)),
                _ => return Ok(None),
            };
        }
    }

    fn scanned(self, scan: &TableScan) -> Option<Self> {
        let provider = source_as_provider(&scan.source).ok()?;
        let of_memory = rows_in_memory(provider.as_ref());
        let is_of_files = provider.is::<ListingTable>();
        let is_repeatable = of_memory.is_some() || is_of_files;
        (is_repeatable && scan.fetch.is_none()).then_some(Self {
            rows: of_memory.flatten(),
            is_filtered: self.is_filtered || !scan.filters.is_empty(),
            is_of_files,
            ..self
        })
    }
}

/// Whether `joins` joins of these inputs do less than one that tests all pairs.
pub(super) fn are_worth(inputs: &[Input; 2], joins: usize) -> bool {
    let pairs = match inputs.each_ref().map(|input| input.rows) {
        [Some(left), Some(right)] => Some(left.saturating_mul(right)),
        _ => None,
    };
    if pairs.is_some_and(|pairs| pairs <= FEW_PAIRS) {
        return false;
    }
    let is_filtered = inputs.iter().any(|input| input.is_filtered);
    let computes = inputs.iter().any(|input| input.computes);
    if computes && (is_filtered || pairs.is_some_and(|pairs| pairs < MANY_PAIRS)) {
        return false;
    }
    let reads_files = inputs.iter().any(|input| input.is_of_files);
    !reads_files || (!is_filtered && joins <= MOST_JOINS_OF_FILES)
}

/// The rows of a table in memory, as far as they are known; `None` if it is something else.
fn rows_in_memory(provider: &dyn TableProvider) -> Option<Option<u64>> {
    if let Some(table) = provider.downcast_ref::<MemTable>() {
        let partitions = table.batches.iter().map(|partition| {
            let batches = partition.try_read().ok()?;
            Some(
                batches
                    .iter()
                    .map(|batch| batch.num_rows() as u64)
                    .sum::<u64>(),
            )
        });
        return Some(partitions.sum());
    }
    provider.is::<SnapshotTable>().then_some(None)
}

/// Whether an expression is a column, or a constant.
fn is_moved(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Alias(alias) => is_moved(&alias.expr),
        Expr::Cast(cast) => is_moved(&cast.expr),
        _ => false,
    }
}
