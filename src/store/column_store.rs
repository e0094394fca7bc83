//! [`ColumnStore`]: the columns of tables that stay on one device between queries, and in host memory where it has no room.
//!
//! ```text
//! scan asks for a column ─► on the device ──────────────────────────────────────────────► hit
//!                           └─ prepared in host memory, or made now of the table's rows
//!                              ├─ room on the device, or columns used longer ago ─► upload, store
//!                              ├─ with a share of host memory ─► keep it there if it has room, upload it for this scan alone
//!                              └─ without one ─► the caller uploads rows for itself
//! ```
//!
//! A query's reservation that exceeds the device's budget evicts stored columns before it is refused (`device/budget.rs`). Columns that
//! a query uses stay until it is done.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::device::budget::{Budget, Reclaim};
use crate::device::counters::Counted;
use crate::device::data::encoding::Encoding;
use crate::device::primitives::device::Device;
use crate::device::trace;
use crate::error::Result;
use crate::store::column_key::{ColumnHandle, CurrentFiles, Origin, TableColumns};
use crate::store::dictionaries::Dictionaries;
use crate::store::kept_column::KeptColumn;
use crate::store::prepared_column::HostColumn;
use crate::store::scan::{ForScan, HostShare, Scan, WantedColumn};
use crate::store::scan_columns::ScanColumns;
use crate::store::sent::Sent;
use crate::store::shelf::{Shelf, Shelved as _};

/// The columns for one device.
#[derive(Debug)]
pub(crate) struct ColumnStore {
    /// Its stream owns the columns on the device.
    pub(crate) device: Arc<dyn Device>,
    /// Reserved in a budget of their own.
    pub(crate) on_device: Shelf<KeptColumn>,
    /// Reserved in DataFusion's memory pool.
    pub(crate) on_host: Shelf<HostColumn>,
    pub(crate) dictionaries: Dictionaries,
    /// The number of scans so far.
    scans: AtomicU64,
    /// Bytes of the columns that are being uploaded to stay.
    pub(super) underway: Arc<AtomicU64>,
    /// Whether columns had to leave the device for others. From then on new ones are kept in host memory too.
    pub(crate) is_contended: AtomicBool,
}

/// A column that a scan holds, wherever it is. It is not evicted meanwhile.
#[derive(Debug)]
pub(crate) enum Held {
    OnDevice(#[expect(dead_code, reason = "held")] KeptColumn),
    OnHost(#[expect(dead_code, reason = "held")] HostColumn),
}

/// A stored column, for `bowtie_cache()`.
#[derive(Debug, Clone)]
pub(crate) struct StoredColumnInfo {
    /// Finds its table.
    pub origin: Option<Origin>,
    pub name: Arc<str>,
    pub rows: usize,
    /// On the device.
    pub bytes: u64,
    /// In host memory.
    pub host_bytes: u64,
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
            on_device: Shelf::default(),
            on_host: Shelf::default(),
            dictionaries: Dictionaries::default(),
            scans: AtomicU64::new(0),
            underway: Arc::default(),
            is_contended: AtomicBool::new(false),
        });
        let of_store: Weak<Self> = Arc::downgrade(&store);
        let of_store: Weak<dyn Reclaim> = of_store;
        budget.take_from(&of_store);
        Ok(store)
    }

    /// Begins a scan that may add columns until the store holds `limit` bytes on the device, and its `host` share beside it.
    pub(crate) fn begin_scan(&self, limit: u64, host: Option<HostShare>) -> Scan {
        self.remove_dead();
        Scan {
            number: self.scans.fetch_add(1, Ordering::Relaxed) + 1,
            limit,
            host,
            pin: None,
        }
    }

    /// The wanted columns, if all of them are stored on the device, for work of the handle `on`.
    ///
    /// # Errors
    /// If the driver fails.
    pub(crate) fn hits<W: WantedColumn>(
        &self,
        on: &dyn Device,
        scan: &Scan,
        wanted: &[W],
    ) -> Result<Option<ScanColumns>> {
        let columns = wanted.iter();
        let columns = columns.map(|wanted| self.on_device.hit(scan, wanted));
        let Some(columns) = columns.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        Ok(Some(ScanColumns {
            hit_bytes: columns.iter().map(|kept| kept.column.bytes()).sum(),
            columns: KeptColumn::borrow(on, columns)?,
            ..ScanColumns::default()
        }))
    }

    /// The wanted columns, for work of the handle `on`. Those that are not stored on the device are uploaded: to stay where there is room,
    /// otherwise by the handle `for_scan`, for this scan alone. `None` if there is no room for them either, or no such handle. To be called
    /// in a step.
    ///
    /// # Errors
    /// If an upload fails, except for want of memory.
    pub(crate) fn load<W: WantedColumn>(
        &self,
        on: &dyn Device,
        for_scan: Option<ForScan<'_>>,
        scan: &Scan,
        wanted: &[W],
    ) -> Result<Option<ScanColumns>> {
        let mut found = ScanColumns::default();
        // Of each column that is sent: its place, and the upload. All of them are waited for together.
        let mut underway: Vec<(usize, Sent)> = vec![];
        for (i, column) in wanted.iter().enumerate() {
            on.check_cancelled()?;
            if let Some(kept) = self.on_device.hit(scan, column) {
                found.hit_bytes += kept.column.bytes();
                found.columns.push(kept);
                continue;
            }
            let on_host = self.on_host.hit(&scan.unpinned(), column);
            let was_on_host = on_host.is_some();
            let Some(sent) = self.upload(for_scan, scan, column, on_host)? else {
                break;
            };
            let kept = sent.kept.clone();
            found.sent_bytes += kept.column.bytes();
            if was_on_host {
                found.host_bytes += kept.column.bytes();
            }
            found.columns.push(kept);
            underway.push((i, sent));
        }
        if underway.iter().any(|(_, sent)| sent.staying.is_some()) {
            self.device.settle()?;
        }
        let for_this_scan = underway.iter().find(|(_, sent)| sent.staying.is_none());
        if let (Some(_), Some(for_scan)) = (for_this_scan, for_scan) {
            for_scan()?.settle()?;
        }
        for (i, sent) in underway {
            if let Some(_counted_until_stored) = sent.staying {
                found.columns[i] = self.on_device.put(scan, &wanted[i], sent.kept);
            }
        }
        if found.columns.len() < wanted.len() {
            return Ok(None);
        }
        found.columns = KeptColumn::borrow(on, std::mem::take(&mut found.columns))?;
        Ok(Some(found))
    }

    /// Those of the wanted columns that are stored.
    pub(crate) fn held<W: WantedColumn>(&self, wanted: &[W]) -> Vec<Option<Held>> {
        let held = wanted.iter().map(|wanted| {
            let on_device = self.on_device.held(wanted).map(Held::OnDevice);
            on_device.or_else(|| self.on_host.held(wanted).map(Held::OnHost))
        });
        held.collect()
    }

    /// Whether the scan may add some `bytes` more on the device: there is room, or columns that were used longer ago are in their place.
    pub(crate) fn may_add(&self, scan: &Scan, bytes: u64) -> bool {
        let stored = self.bytes();
        if bytes > scan.limit || stored > scan.limit.saturating_mul(2) {
            return false;
        }
        let beyond = stored.saturating_add(bytes).saturating_sub(scan.limit);
        beyond == 0 || self.on_device.evictable(scan) >= beyond
    }

    /// The same in host memory.
    pub(crate) fn may_add_on_host(&self, scan: &Scan, bytes: u64) -> bool {
        let Some(share) = &scan.host else {
            return false;
        };
        let stored = self.on_host.bytes();
        let beyond = stored.saturating_add(bytes).saturating_sub(share.limit);
        bytes <= share.limit && (beyond == 0 || self.on_host.evictable(scan) >= beyond)
    }

    /// Removes columns of files that have another version now, pinned ones too: nobody can ask for them.
    pub(crate) fn remove_older(&self, current: &CurrentFiles) {
        self.on_device.remove_older(current);
        self.on_host.remove_older(current);
    }

    /// Removes columns whose tables are gone.
    fn remove_dead(&self) {
        self.on_device.remove_dead();
        self.on_host.remove_dead();
    }

    /// Evicts columns from the device that no query uses and that were last used by a scan before number `scan`, until they have `bytes`
    /// together. Returns their bytes.
    pub(crate) fn evict(&self, bytes: u64, scan: u64) -> u64 {
        let evicted = self
            .on_device
            .evict(bytes, |column| column.last_scan < scan);
        if evicted > 0 {
            self.is_contended.store(true, Ordering::Relaxed);
        }
        evicted
    }

    /// Bytes of all stored columns on the device, and of those that are being uploaded to stay.
    pub(crate) fn bytes(&self) -> u64 {
        let underway = self.underway.load(Ordering::Relaxed);
        self.on_device.bytes() + self.dictionaries.bytes() + underway
    }

    /// All stored columns.
    pub(crate) fn list(&self) -> Vec<StoredColumnInfo> {
        self.remove_dead();
        let mut listed: HashMap<ColumnHandle, StoredColumnInfo> = HashMap::new();
        self.on_device.for_each(|handle, entry| {
            let kept = &entry.column;
            let info = StoredColumnInfo {
                origin: handle.origin(),
                name: Arc::clone(&entry.name),
                rows: kept.column.rows(),
                bytes: kept.bytes(),
                host_bytes: 0,
                encoding: kept.encoding.as_ref().map(Encoding::name),
                hits: entry.hits,
                idle: entry.last_use.elapsed(),
                pinned: entry.is_pinned(),
            };
            listed.insert(handle.clone(), info);
        });
        self.on_host.for_each(|handle, entry| {
            let prepared = &entry.column.prepared;
            let idle = entry.last_use.elapsed();
            let known = listed.entry(handle.clone());
            let info = known.or_insert_with(|| StoredColumnInfo {
                origin: handle.origin(),
                name: Arc::clone(&entry.name),
                rows: prepared.rows(),
                bytes: 0,
                host_bytes: 0,
                encoding: prepared
                    .codes
                    .as_ref()
                    .map(|codes| codes.values.name(codes.kind)),
                hits: 0,
                idle,
                pinned: false,
            });
            info.host_bytes = entry.column.bytes();
            info.hits += entry.hits;
            info.idle = info.idle.min(idle);
        });
        listed.into_values().collect()
    }

    /// Bytes and values of what is stored on the device of some columns.
    pub(crate) fn share_of(&self, columns: &[TableColumns]) -> (u64, u64) {
        let add = |(bytes, values), kept: &KeptColumn| {
            let column = &kept.column;
            (bytes + column.bytes(), values + column.rows() as u64)
        };
        self.on_device.of_tables(columns, add, (0, 0))
    }

    /// Removes these columns, pinned ones too, when the queries that use them are done; but not those in `keep`. Returns
    /// the bytes of those on the device.
    pub(crate) fn unpin(&self, columns: &TableColumns, keep: &HashSet<ColumnHandle>) -> u64 {
        self.on_host.remove_of(columns, keep);
        self.on_device.remove_of(columns, keep)
    }
}

impl Reclaim for ColumnStore {
    fn stored(&self) -> u64 {
        self.bytes()
    }

    fn reclaimable(&self) -> u64 {
        self.on_device.reclaimable()
    }

    fn reclaim(&self, bytes: u64) -> u64 {
        let evicted = self.evict(bytes, u64::MAX);
        trace::count(Counted::EvictedBytes, evicted);
        evicted
    }
}
