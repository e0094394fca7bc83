//! Puts snapshots below the scans of a query, and DataFusion's own scans back where the rule left them.
//!
//! ```text
//! logical plan ─► scans read snapshots ─► physical plan ─► rule ─► device scans, or DataFusion's own
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::{MemTable, provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::scan::snapshot_source::SnapshotSource;
use crate::plan::snapshots::snapshot_table::SnapshotTable;
use crate::store::snapshots::Snapshots;

/// `plan` with a snapshot in place of each large table in memory; `None` if it reads none. One table has one snapshot in it.
pub(crate) fn with_snapshots(
    plan: &LogicalPlan,
    snapshots: &Arc<Snapshots>,
) -> Result<Option<LogicalPlan>> {
    snapshots.drop_dead();
    // A table that is written is planned as it is.
    if matches!(plan, LogicalPlan::Dml(_)) {
        return Ok(None);
    }
    let mut read: HashMap<usize, (Arc<dyn TableProvider>, BTreeSet<usize>)> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && provider.is::<MemTable>()
        {
            let all = || (0..scan.source.schema().fields().len()).collect();
            let columns = scan.projection.clone().unwrap_or_else(all);
            let (_, known) = read
                .entry(address(&provider))
                .or_insert_with(|| (provider, BTreeSet::new()));
            known.extend(columns);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let tables = read
        .into_iter()
        .filter_map(|(address, (provider, columns))| {
            let snapshot = snapshots.of(&provider, &columns)?;
            let table: Arc<dyn TableProvider> = Arc::new(SnapshotTable(snapshot));
            Some((address, table))
        });
    let tables: HashMap<usize, Arc<dyn TableProvider>> = tables.collect();
    if tables.is_empty() {
        return Ok(None);
    }
    let replaced = plan.clone().transform_down_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        let provider = source_as_provider(&scan.source).ok();
        match provider.and_then(|provider| tables.get(&address(&provider))) {
            Some(table) => {
                scan.source = provider_as_source(Arc::clone(table));
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
        }
    })?;
    Ok(Some(replaced.data))
}

fn address(provider: &Arc<dyn TableProvider>) -> usize {
    Arc::as_ptr(provider).cast::<()>().addr()
}

/// `plan` with DataFusion's own scans in place of those of snapshots.
pub(crate) fn without_snapshots(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if !plan.exists(|node| Ok(SnapshotSource::of(node).is_some()))? {
        return Ok(plan);
    }
    let restored = plan.transform_up(|node| match SnapshotSource::of(&node) {
        Some(source) => {
            let source = DataSourceExec::from_data_source(source.memory_source()?);
            Ok(Transformed::yes(source as Arc<dyn ExecutionPlan>))
        }
        None => Ok(Transformed::no(node)),
    })?;
    Ok(restored.data)
}
