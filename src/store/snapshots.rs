//! [`Snapshots`]: the snapshots of tables in memory that are kept between queries.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use parking_lot::Mutex;
use tokio::sync::RwLockReadGuard;

use crate::store::table_snapshot::TableSnapshot;

/// Tables of fewer arrays are copied by each plan, as DataFusion does: it takes some microseconds.
const LEAST_ARRAYS: usize = 1 << 10;
/// How long the batches of a table may outlive it.
const SWEEP: Duration = Duration::from_secs(1);

/// A snapshot of each large table in memory that was read lately.
///
/// A snapshot holds the batches of its table. So that it does not outlive them, a thread drops those whose table is gone or has
/// changed; it ends when none is left.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// By the address of the table.
    tables: HashMap<usize, KeptTable>,
    is_swept: bool,
}

#[derive(Debug, Clone)]
struct KeptTable {
    /// Keeps its address from being used again.
    table: Weak<dyn TableProvider>,
    snapshot: Arc<TableSnapshot>,
}

impl KeptTable {
    /// Whether the table exists and has not changed. Is not said of a table that is being written.
    fn is_current(&self) -> bool {
        let Some(table) = self.table.upgrade() else {
            return false;
        };
        let table = table.downcast_ref::<MemTable>();
        table.and_then(locked).is_none_or(|guards| {
            self.snapshot
                .has(&batches(&guards), &self.snapshot.all_columns())
        })
    }
}

/// The batches of a table, locked; `None` while it is written.
fn locked(table: &MemTable) -> Option<Vec<RwLockReadGuard<'_, Vec<RecordBatch>>>> {
    let partitions = table.batches.iter();
    partitions.map(|batches| batches.try_read().ok()).collect()
}

fn batches<'a>(guards: &'a [RwLockReadGuard<'_, Vec<RecordBatch>>]) -> Vec<&'a [RecordBatch]> {
    guards.iter().map(|batches| batches.as_slice()).collect()
}

impl Snapshots {
    /// What some columns of a table in memory hold now; other columns of the snapshot may have changed. `None` for other tables, and where
    /// a copy of the list of batches costs little. A sorted table has none, as its scan says how it is sorted.
    pub(crate) fn of(
        self: &Arc<Self>,
        provider: &Arc<dyn TableProvider>,
        columns: &BTreeSet<usize>,
    ) -> Option<Arc<TableSnapshot>> {
        let table = provider.downcast_ref::<MemTable>()?;
        let guards = locked(table)?;
        let now = batches(&guards);
        let width = table.schema().fields().len();
        let batches = now.iter().map(|batches| batches.len()).sum::<usize>();
        if batches * width < LEAST_ARRAYS || !table.sort_order.lock().is_empty() {
            return None;
        }
        let address = Arc::as_ptr(provider).cast::<()>().addr();
        let known = {
            let kept = self.0.lock();
            let known = kept.tables.get(&address);
            known.map(|known| Arc::clone(&known.snapshot))
        };
        if let Some(known) = known.filter(|known| known.has(&now, columns)) {
            return Some(known);
        }
        // Its batches are public: whoever changes them may break its schema, and DataFusion says so.
        let mut all = now.iter().copied().flatten();
        if !all.all(|batch| batch.num_columns() == width) {
            return None;
        }
        let partitions = now.iter().map(|batches| batches.to_vec()).collect();
        let snapshot = Arc::new(TableSnapshot::new(table.schema(), partitions));
        let mut kept = self.0.lock();
        if kept.is_swept || self.sweep_regularly() {
            kept.is_swept = true;
            let table = Arc::downgrade(provider);
            let snapshot = Arc::clone(&snapshot);
            let replaced = kept.tables.insert(address, KeptTable { table, snapshot });
            drop(kept);
            // Its batches are freed without the lock.
            drop(replaced);
        }
        Some(snapshot)
    }

    /// Drops the snapshots of tables that are gone.
    pub(crate) fn drop_dead(&self) {
        let mut kept = self.0.lock();
        let dead = kept
            .tables
            .extract_if(|_, kept| kept.table.strong_count() == 0);
        let dead: Vec<_> = dead.collect();
        drop(kept);
        drop(dead);
    }

    /// Drops the snapshots of tables that are gone or have changed. Returns whether some are left.
    fn sweep(&self) -> bool {
        let known: Vec<(usize, KeptTable)> = {
            let kept = self.0.lock();
            let tables = kept.tables.iter();
            tables
                .map(|(address, kept)| (*address, kept.clone()))
                .collect()
        };
        // The tables are compared, and batches freed, without the lock.
        let old = known.into_iter().filter(|(_, kept)| !kept.is_current());
        let old: Vec<_> = old.collect();
        let mut kept = self.0.lock();
        for (address, old) in &old {
            let is_same = |now: &KeptTable| Arc::ptr_eq(&now.snapshot, &old.snapshot);
            if kept.tables.get(address).is_some_and(is_same) {
                kept.tables.remove(address);
            }
        }
        kept.is_swept = !kept.tables.is_empty();
        kept.is_swept
    }

    /// Starts the thread that sweeps. Returns whether there is one.
    fn sweep_regularly(self: &Arc<Self>) -> bool {
        let snapshots = Arc::downgrade(self);
        let sweep = move || loop {
            thread::sleep(SWEEP);
            match snapshots.upgrade() {
                Some(snapshots) if snapshots.sweep() => {}
                _ => return,
            }
        };
        let thread = thread::Builder::new().name("bowtie-snapshots".into());
        thread.spawn(sweep).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn all() -> BTreeSet<usize> {
        BTreeSet::from([0])
    }

    fn table(first: i64) -> Arc<MemTable> {
        let batch = |n: i64| {
            let column: ArrayRef = Arc::new(Int64Array::from(vec![n]));
            RecordBatch::try_from_iter([("a", column)]).unwrap()
        };
        let batches: Vec<_> = (first..first + LEAST_ARRAYS as i64).map(batch).collect();
        Arc::new(MemTable::try_new(batches[0].schema(), vec![batches]).unwrap())
    }

    #[test]
    fn a_table_has_one_snapshot_until_it_changes() {
        let snapshots = Arc::new(Snapshots::default());
        let memory = table(0);
        let provider: Arc<dyn TableProvider> = memory.clone();
        let first = snapshots.of(&provider, &all()).unwrap();
        assert!(Arc::ptr_eq(
            &first,
            &snapshots.of(&provider, &all()).unwrap()
        ));
        let added = memory.batches[0].try_read().unwrap()[0].clone();
        memory.batches[0].try_write().unwrap().push(added);
        let second = snapshots.of(&provider, &all()).unwrap();
        assert_eq!(second.rows(None), LEAST_ARRAYS + 1);
        assert_eq!(first.rows(None), LEAST_ARRAYS);
        // Replaced by a batch of the same length.
        let other = table(7).batches[0].try_read().unwrap()[0].clone();
        memory.batches[0].try_write().unwrap()[0] = other;
        let third = snapshots.of(&provider, &all()).unwrap();
        assert!(!Arc::ptr_eq(&second, &third));
        assert_eq!(third.partitions()[0].len(), LEAST_ARRAYS + 1);
    }

    #[test]
    fn small_sorted_and_locked_tables_have_none() {
        let snapshots = Arc::new(Snapshots::default());
        let memory = table(0);
        let provider: Arc<dyn TableProvider> = memory.clone();
        let guard = memory.batches[0].try_write().unwrap();
        assert!(snapshots.of(&provider, &all()).is_none());
        drop(guard);
        memory.sort_order.lock().push(vec![]);
        assert!(snapshots.of(&provider, &all()).is_none());
        memory.sort_order.lock().clear();
        memory.batches[0].try_write().unwrap().pop();
        assert!(snapshots.of(&provider, &all()).is_none());
    }

    #[test]
    fn batches_do_not_outlive_their_table() {
        let snapshots = Arc::new(Snapshots::default());
        let mut arrays = vec![];
        let mut providers: Vec<Arc<dyn TableProvider>> = vec![];
        for first in 0..2 {
            let memory = table(first);
            arrays.push(Arc::downgrade(
                memory.batches[0].try_read().unwrap()[0].column(0),
            ));
            providers.push(memory);
        }
        for provider in &providers {
            snapshots.of(provider, &all()).unwrap();
        }
        // One is dropped at the next query, the other is cleared and swept.
        providers.pop();
        assert_eq!(arrays[1].strong_count(), 1);
        snapshots.drop_dead();
        assert_eq!(arrays[1].strong_count(), 0);
        let memory = providers[0].downcast_ref::<MemTable>().unwrap();
        memory.batches[0].try_write().unwrap().clear();
        for _ in 0..100 {
            if arrays[0].strong_count() == 0 {
                return;
            }
            thread::sleep(SWEEP / 10);
        }
        panic!("its batches are kept");
    }
}
