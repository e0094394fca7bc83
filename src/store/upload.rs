//! Uploads of columns by a [`ColumnStore`], as codes where these are narrower.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef};
use datafusion::execution::memory_pool::MemoryConsumer;

use crate::device::data::column::Column;
use crate::device::data::encoding::{ArrayValues, CodedValues, Encoding};
use crate::device::primitives::device::Device;
use crate::device::row_width::mean_bytes;
use crate::error::Result;
use crate::store::column_store::ColumnStore;
use crate::store::kept_column::KeptColumn;
use crate::store::prepared_column::{HostColumn, PreparedColumn};
use crate::store::scan::{HostShare, Scan, WantedColumn};

impl ColumnStore {
    /// Uploads a column that is not stored on the device, and perhaps `on_host`. It stays where there is room, or where columns that were
    /// used longer ago make it. Otherwise it is kept in host memory, and the handle `for_scan` uploads it for this scan alone.
    pub(crate) fn upload(
        &self,
        for_scan: Option<&dyn Device>,
        scan: &Scan,
        wanted: &impl WantedColumn,
        on_host: Option<HostColumn>,
    ) -> Result<Option<KeptColumn>> {
        let (mut prepared, is_kept) = match on_host {
            Some(known) => (known.prepared, true),
            None => match self.prepare(scan, wanted, for_scan.is_some())? {
                Some(prepared) => (Arc::new(prepared), false),
                None => return Ok(None),
            },
        };
        if let Some(column) = self.upload_in_room(scan, &prepared.parts)? {
            if !is_kept && self.is_contended.load(Ordering::Relaxed) {
                self.keep_on_host(scan, wanted, &prepared)?;
            }
            let kept = prepared.uploaded(column);
            return Ok(Some(self.on_device.put(scan, wanted, kept)));
        }
        let Some(for_scan) = for_scan else {
            return Ok(None);
        };
        if !is_kept && let Some(kept) = self.keep_on_host(scan, wanted, &prepared)? {
            prepared = kept.prepared;
        }
        match for_scan.upload_kept(&prepared.parts) {
            // The caller uploads smaller chunks.
            Err(error) if error.is_divisible() || error.is_of_expressions() => Ok(None),
            column => Ok(Some(prepared.uploaded(column?))),
        }
    }

    /// Makes codes of a column where these are narrower. `None` for a column that was not read, or that has no room on the device, unless it
    /// is uploaded `anyway`.
    fn prepare(
        &self,
        scan: &Scan,
        wanted: &impl WantedColumn,
        anyway: bool,
    ) -> Result<Option<PreparedColumn>> {
        let Some(parts) = wanted.arrays() else {
            return Ok(None);
        };
        let Some(first) = parts.first() else {
            return Ok(None);
        };
        // A value has at least one bit. A column without room is not encoded.
        let rows: usize = parts.iter().map(|part| part.len()).sum();
        if !anyway && !self.may_add(scan, rows.div_ceil(8) as u64) {
            return Ok(None);
        }
        let encodes = self.device.copies_uploads(first.data_type()) || wanted.is_in_files();
        let encoded = match encodes {
            true => self.device.encode(&parts)?,
            false => None,
        };
        let Some(encoded) = encoded else {
            return Ok(Some(PreparedColumn {
                parts,
                encoding: None,
                blocks: None,
            }));
        };
        let values = match encoded.values {
            ArrayValues::Offset { data_type, least } => CodedValues::Offset { data_type, least },
            ArrayValues::Dictionary(values) => {
                let of = self.dictionaries.of(self.device.as_ref(), values);
                match of {
                    Err(error) if error.is_divisible() || error.is_of_expressions() => {
                        return Ok(None);
                    }
                    of => CodedValues::Dictionary(of?),
                }
            }
        };
        let encoding = Encoding {
            code: encoded.code,
            bound: encoded.bound,
            nullable: parts.iter().any(|part| part.null_count() > 0),
            values,
        };
        Ok(Some(PreparedColumn {
            parts: encoded.codes,
            encoding: Some(encoding),
            blocks: encoded.blocks.map(Arc::new),
        }))
    }

    /// Uploads the parts of a column if there is room for it, or can be made.
    fn upload_in_room(&self, scan: &Scan, parts: &[ArrayRef]) -> Result<Option<Column>> {
        let bytes = mean_bytes_of(parts)?;
        loop {
            // Another session's columns may be more than this one's limit: they are not its to evict.
            if bytes > scan.limit || self.bytes() > scan.limit.saturating_mul(2) {
                return Ok(None);
            }
            let beyond = self
                .bytes()
                .saturating_add(bytes)
                .saturating_sub(scan.limit);
            let uploaded = (beyond == 0).then(|| self.device.upload_kept(parts));
            let missing = match uploaded {
                Some(Ok(column)) => {
                    // Text may be longer than was estimated.
                    let beyond = self.bytes().saturating_add(column.bytes());
                    let beyond = beyond.saturating_sub(scan.limit);
                    if beyond > 0 {
                        self.evict(beyond, scan.number);
                    }
                    return Ok(Some(column));
                }
                // A representation has no room for its values: rows are uploaded in smaller chunks.
                Some(Err(error)) if error.is_of_expressions() => return Ok(None),
                Some(Err(error)) if !error.is_divisible() => return Err(error),
                Some(Err(error)) if !error.is_transient() => return Ok(None),
                Some(Err(_)) => bytes.max(1),
                None => beyond,
            };
            if self.evict(missing, scan.number) == 0 {
                return Ok(None);
            }
        }
    }

    /// Keeps a column in host memory, if there is room for it, or can be made.
    fn keep_on_host(
        &self,
        scan: &Scan,
        wanted: &impl WantedColumn,
        prepared: &PreparedColumn,
    ) -> Result<Option<HostColumn>> {
        // The values of a table in memory are there in any case.
        let is_there = prepared.encoding.is_none() && !wanted.is_in_files();
        let Some(share) = scan.host.as_ref().filter(|_| !is_there) else {
            return Ok(None);
        };
        let bytes = mean_bytes_of(&prepared.parts)?;
        if !self.make_room_on_host(scan, share, bytes) {
            return Ok(None);
        }
        let reservation = MemoryConsumer::new("bowtie.host_cache").register(&share.pool);
        while reservation.try_grow(bytes as usize).is_err() {
            // The pool is full, perhaps with columns that were used longer ago.
            if self.on_host.evict(bytes, |of| of.last_scan < scan.number) == 0 {
                return Ok(None);
            }
        }
        // Offsets of 32 bits address no more than 2 GiB of text.
        let Ok(compact) = prepared.compact() else {
            return Ok(None);
        };
        // Text may be longer than was estimated.
        let bytes = compact.bytes();
        let has_room = self.make_room_on_host(scan, share, bytes);
        if !has_room || reservation.try_resize(bytes as usize).is_err() {
            return Ok(None);
        }
        let column = HostColumn {
            prepared: Arc::new(compact),
            reservation: Arc::new(reservation),
        };
        Ok(Some(self.on_host.put(scan, wanted, column)))
    }

    /// Evicts columns that were used longer ago from host memory until the share has room for `bytes`. Whether it has.
    fn make_room_on_host(&self, scan: &Scan, share: &HostShare, bytes: u64) -> bool {
        if !self.may_add_on_host(scan, bytes) {
            return false;
        }
        let stored = self.on_host.bytes();
        let beyond = stored.saturating_add(bytes).saturating_sub(share.limit);
        beyond == 0 || self.on_host.evict(beyond, |of| of.last_scan < scan.number) >= beyond
    }
}

/// Bytes of the values of some arrays, approximately.
fn mean_bytes_of(parts: &[ArrayRef]) -> Result<u64> {
    let each = parts
        .iter()
        .map(|part| Ok(mean_bytes(part)? * part.len() as u64));
    each.sum()
}
