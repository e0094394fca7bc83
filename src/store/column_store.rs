//! [`ColumnStore`]: the columns of tables that stay on one device between queries.
//!
//! ```text
//! scan asks for columns ─► stored ─────────────────────────────► hit
//!                          └─ not stored ─ room, or columns that were used longer ago ─► upload, store
//!                                          └─ no room ─► the caller uploads rows for itself
//! ```
//!
//! A query's reservation that exceeds the device's budget evicts stored columns before it is refused (`device/budget.rs`). Columns that
//! a query uses stay until it is done.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::device::budget::{Budget, Reclaim};
use crate::device::data::column::Column;
use crate::device::data::encoding::Encoding;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::store::column_key::{ColumnHandle, ColumnKey, CurrentFiles, Origin, TableColumns};
use crate::store::dictionaries::Dictionaries;
use crate::store::kept_column::KeptColumn;
use crate::store::pin::Pin;
use crate::store::scan::{Found, Scan, WantedColumn};

/// Columns on one device, reserved in a budget of their own.
#[derive(Debug)]
pub(crate) struct ColumnStore {
    /// Its stream owns the columns.
    pub(crate) device: Arc<dyn Device>,
    stored: Mutex<Stored>,
    /// Bytes of all stored columns, without dictionaries.
    bytes: AtomicU64,
    pub(crate) dictionaries: Dictionaries,
}

#[derive(Debug, Default)]
struct Stored {
    columns: HashMap<ColumnHandle, StoredColumn>,
    /// The number of scans so far.
    scans: u64,
}

#[derive(Debug)]
pub(crate) struct StoredColumn {
    key: ColumnKey,
    kept: KeptColumn,
    name: Arc<str>,
    hits: u64,
    /// The number of the scan that used it last.
    pub(crate) last_scan: u64,
    last_use: Instant,
    /// It stays until it is unpinned, or these are gone.
    pins: Vec<Pin>,
}

impl StoredColumn {
    fn is_pinned(&self) -> bool {
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
        Arc::strong_count(&self.kept.column) == 1 && (!self.is_pinned() || self.key.is_dead())
    }
}

/// A stored column, for `bowtie_cache()`.
#[derive(Debug, Clone)]
pub(crate) struct StoredColumnInfo {
    /// Finds its table.
    pub origin: Option<Origin>,
    pub name: Arc<str>,
    pub rows: usize,
    pub bytes: u64,
    /// `None` for values as they are.
    pub encoding: Option<String>,
    pub hits: u64,
    pub idle: Duration,
    pub pinned: bool,
}

impl ColumnStore {
    /// A store on `device`, whose columns are reserved in `budget`, and given up for other reservations in it.
    ///
    /// # Errors
    /// If the device opens no stream.
    pub(crate) fn new(device: &dyn Device, budget: &Arc<Budget>) -> Result<Arc<Self>> {
        let never = Arc::new(AtomicBool::new(false));
        let store = Arc::new(Self {
            device: device.attach(budget.of_store(), never)?,
            stored: Mutex::default(),
            bytes: AtomicU64::new(0),
            dictionaries: Dictionaries::default(),
        });
        let of_store: Weak<Self> = Arc::downgrade(&store);
        let of_store: Weak<dyn Reclaim> = of_store;
        budget.take_from(&of_store);
        Ok(store)
    }

    /// Begins a scan that may add columns until the store holds `limit` bytes.
    pub(crate) fn begin_scan(&self, limit: u64) -> Scan {
        self.remove_dead();
        let mut stored = self.stored.lock();
        stored.scans += 1;
        Scan {
            number: stored.scans,
            limit,
            pin: None,
        }
    }

    /// The wanted columns, if all of them are stored, for work of the handle `on`.
    ///
    /// # Errors
    /// If the driver fails.
    pub(crate) fn hits<W: WantedColumn>(
        &self,
        on: &dyn Device,
        scan: &Scan,
        wanted: &[W],
    ) -> Result<Option<Found>> {
        let columns = wanted.iter().map(|wanted| self.hit(scan, wanted));
        let Some(columns) = columns.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        Ok(Some(Found {
            hit_bytes: columns.iter().map(|kept| kept.column.bytes()).sum(),
            columns: KeptColumn::borrow(on, columns)?,
            sent_bytes: 0,
        }))
    }

    /// The wanted columns, for work of the handle `on`. Those that are not stored are uploaded. `None` if there is no room for them. To be
    /// called in a step.
    ///
    /// # Errors
    /// If an upload fails, except for want of memory.
    pub(crate) fn load<W: WantedColumn>(
        &self,
        on: &dyn Device,
        scan: &Scan,
        wanted: &[W],
    ) -> Result<Option<Found>> {
        let mut found = Found::default();
        for wanted in wanted {
            on.check_cancelled()?;
            if let Some(kept) = self.hit(scan, wanted) {
                found.hit_bytes += kept.column.bytes();
                found.columns.push(kept);
                continue;
            }
            let Some(kept) = self.upload(scan, wanted)? else {
                return Ok(None);
            };
            found.sent_bytes += kept.column.bytes();
            found.columns.push(self.insert(scan, wanted, kept));
        }
        found.columns = KeptColumn::borrow(on, std::mem::take(&mut found.columns))?;
        Ok(Some(found))
    }

    /// Those of the wanted columns that are stored. They are not evicted while the caller holds them.
    pub(crate) fn held<W: WantedColumn>(&self, wanted: &[W]) -> Vec<Option<Arc<Column>>> {
        let stored = self.stored.lock();
        let held = wanted.iter().map(|wanted| {
            let known = stored.columns.get(&wanted.handle()?)?;
            wanted
                .has_key(&known.key)
                .then(|| Arc::clone(&known.kept.column))
        });
        held.collect()
    }

    /// Whether the scan may add some `bytes` more: there is room, or columns that were used longer ago are in their place.
    pub(crate) fn may_add(&self, scan: &Scan, bytes: u64) -> bool {
        let stored = self.bytes();
        if bytes > scan.limit || stored > scan.limit.saturating_mul(2) {
            return false;
        }
        let beyond = stored.saturating_add(bytes).saturating_sub(scan.limit);
        if beyond == 0 {
            return true;
        }
        let stored = self.stored.lock();
        let older = stored.columns.values();
        let older = older.filter(|column| column.may_go() && column.last_scan < scan.number);
        older.map(|column| column.kept.column.bytes()).sum::<u64>() >= beyond
    }

    /// Removes columns of files that have another version now, pinned ones too: nobody can ask for them.
    pub(crate) fn remove_older(&self, current: &CurrentFiles) {
        self.remove(|stored| {
            let all = stored.columns.iter();
            let older = all.filter(|(_, column)| column.key.is_older_than(current));
            older.map(|(handle, _)| handle.clone()).collect()
        });
    }

    fn hit(&self, scan: &Scan, wanted: &impl WantedColumn) -> Option<KeptColumn> {
        let handle = wanted.handle()?;
        let mut stored = self.stored.lock();
        let known = stored.columns.get_mut(&handle)?;
        if !wanted.has_key(&known.key) {
            return None;
        }
        known.hits += 1;
        known.last_scan = known.last_scan.max(scan.number);
        known.last_use = Instant::now();
        known.pin_for(scan);
        Some(known.kept.clone())
    }

    /// Stores a column. If another query has stored the same one meanwhile, that one is returned.
    fn insert(&self, scan: &Scan, wanted: &impl WantedColumn, kept: KeptColumn) -> KeptColumn {
        let Some(handle) = wanted.handle() else {
            return kept;
        };
        let mut stored = self.stored.lock();
        if let Some(known) = stored.columns.get_mut(&handle)
            && wanted.has_key(&known.key)
        {
            known.pin_for(scan);
            return known.kept.clone();
        }
        let bytes = kept.column.bytes();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let entry = StoredColumn {
            key: wanted.key(),
            kept: kept.clone(),
            name: wanted.name().into(),
            hits: 0,
            last_scan: scan.number,
            last_use: Instant::now(),
            pins: scan.pin.iter().cloned().collect(),
        };
        let replaced = stored.columns.insert(handle, entry);
        drop(stored);
        if let Some(replaced) = replaced {
            self.bytes
                .fetch_sub(replaced.kept.column.bytes(), Ordering::Relaxed);
        }
        kept
    }

    /// Removes columns whose tables are gone.
    fn remove_dead(&self) {
        self.remove(|stored| {
            let all = stored.columns.iter();
            let dead = all.filter(|(_, column)| column.key.is_dead());
            dead.map(|(handle, _)| handle.clone()).collect()
        });
    }

    /// Evicts columns that no query uses and that `may` be, those that were used longest ago first, until they have `bytes` together. Returns
    /// their bytes.
    pub(crate) fn evict(&self, bytes: u64, may: impl Fn(&StoredColumn) -> bool) -> u64 {
        self.remove(|stored| {
            let idle = stored.columns.iter();
            let idle = idle.filter(|(_, column)| column.may_go());
            let mut idle: Vec<_> = idle.filter(|(_, column)| may(column)).collect();
            idle.sort_by_key(|(_, column)| column.last_scan);
            let mut freed = 0;
            let least = idle.into_iter().take_while(|(_, column)| {
                let more = freed < bytes;
                freed += column.kept.column.bytes();
                more
            });
            least.map(|(handle, _)| handle.clone()).collect()
        })
    }

    /// Removes the columns that `which` names. Returns their bytes.
    fn remove(&self, which: impl FnOnce(&Stored) -> Vec<ColumnHandle>) -> u64 {
        let mut stored = self.stored.lock();
        let handles = which(&stored);
        let removed: Vec<_> = handles
            .iter()
            .filter_map(|handle| stored.columns.remove(handle))
            .collect();
        drop(stored);
        let bytes = removed
            .iter()
            .map(|column| column.kept.column.bytes())
            .sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    /// Bytes of all stored columns.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) + self.dictionaries.bytes()
    }

    /// All stored columns.
    pub(crate) fn list(&self) -> Vec<StoredColumnInfo> {
        self.remove_dead();
        let stored = self.stored.lock();
        let columns = stored.columns.iter();
        let columns = columns.map(|(handle, stored)| StoredColumnInfo {
            origin: handle.origin(),
            name: Arc::clone(&stored.name),
            rows: stored.kept.column.rows(),
            bytes: stored.kept.column.bytes(),
            encoding: stored.kept.encoding.as_ref().map(Encoding::name),
            hits: stored.hits,
            idle: stored.last_use.elapsed(),
            pinned: stored.is_pinned(),
        });
        columns.collect()
    }

    /// Bytes and values of what is stored of some columns.
    pub(crate) fn share_of(&self, columns: &[TableColumns]) -> (u64, u64) {
        let stored = self.stored.lock();
        let all = stored
            .columns
            .values()
            .filter(|column| !column.key.is_dead());
        let of_table = all.filter(|column| columns.iter().any(|of| column.key.is_any_of(of)));
        of_table.fold((0, 0), |(bytes, values), stored| {
            let column = &stored.kept.column;
            (bytes + column.bytes(), values + column.rows() as u64)
        })
    }

    /// Removes these columns, pinned ones too, when the queries that use them are done; but not those in `keep`. Returns
    /// their bytes.
    pub(crate) fn unpin(&self, columns: &TableColumns, keep: &HashSet<ColumnHandle>) -> u64 {
        self.remove(|stored| {
            let others = stored.columns.iter();
            let others = others.filter(|(handle, _)| !keep.contains(handle));
            let of_table = others.filter(|(_, column)| column.key.is_any_of(columns));
            of_table.map(|(handle, _)| handle.clone()).collect()
        })
    }
}

impl Reclaim for ColumnStore {
    fn stored(&self) -> u64 {
        self.bytes()
    }

    fn reclaimable(&self) -> u64 {
        let stored = self.stored.lock();
        let idle = stored.columns.values().filter(|stored| stored.may_go());
        idle.map(|stored| stored.kept.column.bytes()).sum()
    }

    fn reclaim(&self, bytes: u64) -> u64 {
        self.evict(bytes, |_| true)
    }
}
