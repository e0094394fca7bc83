//! [`Shelf`]: stored columns in one kind of memory, found by what they were made of.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::store::column_key::{ColumnHandle, ColumnKey, CurrentFiles, TableColumns};
use crate::store::pin::Pin;
use crate::store::scan::{Scan, WantedColumn};

/// The form of a column on a shelf. Clones share its memory.
pub(crate) trait Shelved: Clone {
    fn bytes(&self) -> u64;

    /// Whether there is a clone of it somewhere else.
    fn is_used(&self) -> bool;
}

/// Columns in one kind of memory.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    columns: Mutex<HashMap<ColumnHandle, Entry<T>>>,
    /// Bytes of all of them.
    bytes: AtomicU64,
}

/// A column on a shelf.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    key: ColumnKey,
    pub(crate) column: T,
    pub(crate) name: Arc<str>,
    pub(crate) hits: u64,
    /// The number of the scan that used it last.
    pub(crate) last_scan: u64,
    pub(crate) last_use: Instant,
    /// It stays until it is unpinned, or these are gone.
    pins: Vec<Pin>,
}

impl<T: Shelved> Entry<T> {
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.iter().any(Pin::is_there)
    }

    fn pin_for(&mut self, scan: &Scan) {
        self.pins.retain(Pin::is_there);
        if let Some(pin) = &scan.pin
            && !self.pins.iter().any(|known| known.is(pin))
        {
            self.pins.push(pin.clone());
        }
    }

    /// Whether no query uses it, and it is not pinned for a table that is still there.
    fn may_go(&self) -> bool {
        !self.column.is_used() && (!self.is_pinned() || self.key.is_dead())
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            columns: Mutex::default(),
            bytes: AtomicU64::new(0),
        }
    }
}

impl<T: Shelved> Shelf<T> {
    /// Bytes of all columns.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A column for a scan, if it is there. It is not evicted while the caller holds it.
    pub(crate) fn hit(&self, scan: &Scan, wanted: &impl WantedColumn) -> Option<T> {
        let handle = wanted.handle()?;
        let mut columns = self.columns.lock();
        let known = columns.get_mut(&handle)?;
        if !wanted.has_key(&known.key) {
            return None;
        }
        known.hits += 1;
        known.last_scan = known.last_scan.max(scan.number);
        known.last_use = Instant::now();
        known.pin_for(scan);
        Some(known.column.clone())
    }

    /// The same without a use that counts.
    pub(crate) fn held(&self, wanted: &impl WantedColumn) -> Option<T> {
        let columns = self.columns.lock();
        let known = columns.get(&wanted.handle()?)?;
        wanted.has_key(&known.key).then(|| known.column.clone())
    }

    /// Puts a column on the shelf. If another query has put the same one there meanwhile, that one is returned.
    pub(crate) fn put(&self, scan: &Scan, wanted: &impl WantedColumn, column: T) -> T {
        let Some(handle) = wanted.handle() else {
            return column;
        };
        let mut columns = self.columns.lock();
        if let Some(known) = columns.get_mut(&handle)
            && wanted.has_key(&known.key)
        {
            known.pin_for(scan);
            return known.column.clone();
        }
        self.bytes.fetch_add(column.bytes(), Ordering::Relaxed);
        let entry = Entry {
            key: wanted.key(),
            column: column.clone(),
            name: wanted.name().into(),
            hits: 0,
            last_scan: scan.number,
            last_use: Instant::now(),
            pins: scan.pin.iter().cloned().collect(),
        };
        let replaced = columns.insert(handle, entry);
        drop(columns);
        if let Some(replaced) = replaced {
            self.bytes
                .fetch_sub(replaced.column.bytes(), Ordering::Relaxed);
        }
        column
    }

    /// Bytes of the columns that the scan may evict: those that were used longer ago.
    pub(crate) fn evictable(&self, scan: &Scan) -> u64 {
        let columns = self.columns.lock();
        let older = columns.values().filter(|column| column.may_go());
        let older = older.filter(|column| column.last_scan < scan.number);
        older.map(|column| column.column.bytes()).sum()
    }

    /// Bytes of the columns that no query uses.
    pub(crate) fn reclaimable(&self) -> u64 {
        let columns = self.columns.lock();
        let idle = columns.values().filter(|column| column.may_go());
        idle.map(|column| column.column.bytes()).sum()
    }

    /// Evicts columns that no query uses and that `may` be, those that were used longest ago first, until they have `bytes` together. Returns
    /// their bytes.
    pub(crate) fn evict(&self, bytes: u64, may: impl Fn(&Entry<T>) -> bool) -> u64 {
        self.remove(|columns| {
            let idle = columns.iter();
            let idle = idle.filter(|(_, column)| column.may_go());
            let mut idle: Vec<_> = idle.filter(|(_, column)| may(column)).collect();
            idle.sort_by_key(|(_, column)| column.last_scan);
            let mut freed = 0;
            let least = idle.into_iter().take_while(|(_, column)| {
                let more = freed < bytes;
                freed += column.column.bytes();
                more
            });
            least.map(|(handle, _)| handle.clone()).collect()
        })
    }

    /// Removes columns whose tables are gone.
    pub(crate) fn remove_dead(&self) {
        self.remove_where(|_, key| key.is_dead());
    }

    /// Removes columns of files that have another version now, pinned ones too: nobody can ask for them.
    pub(crate) fn remove_older(&self, current: &CurrentFiles) {
        self.remove_where(|_, key| key.is_older_than(current));
    }

    /// Removes these columns, pinned ones too, when the queries that use them are done; but not those in `keep`. Returns
    /// their bytes.
    pub(crate) fn remove_of(&self, table: &TableColumns, keep: &HashSet<ColumnHandle>) -> u64 {
        self.remove_where(|handle, key| !keep.contains(handle) && key.is_any_of(table))
    }

    fn remove_where(&self, is: impl Fn(&ColumnHandle, &ColumnKey) -> bool) -> u64 {
        self.remove(|columns| {
            let gone = columns.iter();
            let gone = gone.filter(|(handle, column)| is(handle, &column.key));
            gone.map(|(handle, _)| handle.clone()).collect()
        })
    }

    /// Removes the columns that `which` names. Returns their bytes.
    fn remove(
        &self,
        which: impl FnOnce(&HashMap<ColumnHandle, Entry<T>>) -> Vec<ColumnHandle>,
    ) -> u64 {
        let mut columns = self.columns.lock();
        let handles = which(&columns);
        let removed: Vec<_> = handles
            .iter()
            .filter_map(|handle| columns.remove(handle))
            .collect();
        drop(columns);
        let bytes = removed.iter().map(|entry| entry.column.bytes()).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    /// Calls `each` with all columns.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&ColumnHandle, &Entry<T>)) {
        for (handle, entry) in self.columns.lock().iter() {
            each(handle, entry);
        }
    }

    /// The columns of tables that are still there.
    pub(crate) fn of_tables<R>(
        &self,
        tables: &[TableColumns],
        fold: impl Fn(R, &T) -> R,
        first: R,
    ) -> R {
        let columns = self.columns.lock();
        let alive = columns.values().filter(|column| !column.key.is_dead());
        let of_tables = alive.filter(|column| tables.iter().any(|of| column.key.is_any_of(of)));
        of_tables.fold(first, |sum, entry| fold(sum, &entry.column))
    }
}
