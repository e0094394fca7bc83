//! Uploads of columns by a [`ColumnStore`], as codes where these are narrower.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use datafusion::execution::memory_pool::MemoryConsumer;

use crate::device::data::column::Column;
use crate::device::data::encoding::{ArrayValues, CodedValues, Encoding};
use crate::device::row_width::mean_bytes;
use crate::error::{IfItFits as _, Result};
use crate::store::column_store::ColumnStore;
use crate::store::kept_column::KeptColumn;
use crate::store::prepared_column::{Codes, HostColumn, PreparedColumn};
use crate::store::scan::{ForScan, HostShare, Scan, WantedColumn};
use crate::store::sent::{Sent, Staying};

impl ColumnStore {
    /// Begins to upload a column that is not stored on the device, and perhaps `on_host`. It may stay where there is room, or where columns
    /// that were used longer ago make it. Otherwise it is kept in host memory, if that has room, and the handle `for_scan` uploads it for
    /// this scan alone.
    pub(super) fn upload(
        &self,
        for_scan: Option<ForScan<'_>>,
        scan: &Scan,
        wanted: &impl WantedColumn,
        on_host: Option<HostColumn>,
    ) -> Result<Option<Sent>> {
        let (mut prepared, is_kept) = match on_host {
            Some(known) => (known.prepared, true),
            None => match self.prepare(scan, wanted)? {
                Some(prepared) => (Arc::new(prepared), false),
                None => return Ok(None),
            },
        };
        let encoding = match &prepared.codes {
            None => None,
            // A dictionary without room on the device: the caller uploads values.
            Some(codes) => match self.encoding(codes) {
                Err(error) if error.is_divisible() || error.is_of_expressions() => return Ok(None),
                encoding => Some(encoding?),
            },
        };
        let blocks = prepared.codes.as_ref();
        let blocks = blocks.and_then(|codes| codes.blocks.clone());
        let kept = |column| KeptColumn {
            column: Arc::new(column),
            encoding: encoding.clone(),
            blocks: blocks.clone(),
        };
        if let Some(column) = self.upload_in_room(scan, &prepared.parts)? {
            if !is_kept && self.is_contended.load(Ordering::Relaxed) {
                self.keep_on_host(scan, wanted, &prepared)?;
            }
            return Ok(Some(Sent {
                staying: Some(Staying::new(&self.underway, column.bytes())),
                kept: kept(column),
            }));
        }
        let Some(for_scan) = for_scan else {
            return Ok(None);
        };
        if !is_kept && let Some(kept) = self.keep_on_host(scan, wanted, &prepared)? {
            prepared = kept.prepared;
        }
        match for_scan()?.upload_kept(&prepared.parts) {
            // The caller uploads smaller chunks.
            Err(error) if error.is_divisible() || error.is_of_expressions() => Ok(None),
            column => Ok(Some(Sent {
                kept: kept(column?),
                staying: None,
            })),
        }
    }

    /// A column in the form in which the device stores it. `None` if it was not read, or is one of a table in memory that has no room anywhere:
    /// its codes would be made for each query.
    fn prepare(&self, scan: &Scan, wanted: &impl WantedColumn) -> Result<Option<PreparedColumn>> {
        let Some(parts) = wanted.arrays() else {
            return Ok(None);
        };
        let Some(first) = parts.first() else {
            return Ok(None);
        };
        // A value has at least one bit.
        let rows: usize = parts.iter().map(|part| part.len()).sum();
        let least_bytes = rows.div_ceil(8) as u64;
        let has_room = self.may_add(scan, least_bytes) || self.may_add_on_host(scan, least_bytes);
        if !has_room && !wanted.is_in_files() {
            return Ok(None);
        }
        let encodes = self.device.copies_uploads(first.data_type()) || wanted.is_in_files();
        let encoded = match has_room && encodes {
            true => self.device.encode(&parts)?,
            false => None,
        };
        Ok(Some(match encoded {
            None => PreparedColumn { parts, codes: None },
            Some(encoded) => PreparedColumn {
                parts: encoded.codes,
                codes: Some(Codes {
                    kind: encoded.code,
                    bound: encoded.bound,
                    nullable: parts.iter().any(|part| part.null_count() > 0),
                    values: encoded.values,
                    blocks: encoded.blocks.map(Arc::new),
                }),
            },
        }))
    }

    /// The encoding of codes, with its dictionary on the device.
    fn encoding(&self, codes: &Codes) -> Result<Encoding> {
        let values = match &codes.values {
            ArrayValues::Offset { data_type, least } => CodedValues::Offset {
                data_type: data_type.clone(),
                least: *least,
            },
            ArrayValues::Dictionary(values) => {
                let values = Arc::clone(values);
                CodedValues::Dictionary(self.dictionaries.of(self.device.as_ref(), values)?)
            }
        };
        Ok(Encoding {
            code: codes.kind,
            bound: codes.bound,
            nullable: codes.nullable,
            values,
        })
    }

    /// Begins to upload the parts of a column if there is room for it, or can be made.
    fn upload_in_room(&self, scan: &Scan, parts: &[ArrayRef]) -> Result<Option<Column>> {
        let bytes = mean_bytes_of(parts)?;
        let bytes_beside = |bytes: u64| self.bytes().saturating_add(bytes);
        loop {
            // Another session's columns may be more than this one's limit: they are not its to evict.
            if bytes > scan.limit || self.bytes() > scan.limit.saturating_mul(2) {
                return Ok(None);
            }
            let beyond = bytes_beside(bytes).saturating_sub(scan.limit);
            let uploaded = (beyond == 0).then(|| self.device.upload_kept(parts));
            let missing = match uploaded {
                Some(Ok(column)) => {
                    // Text may be longer than was estimated.
                    let beyond = bytes_beside(column.bytes()).saturating_sub(scan.limit);
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
        let is_there = prepared.codes.is_none() && !wanted.is_in_files();
        let Some(share) = scan.host.as_ref().filter(|_| !is_there) else {
            return Ok(None);
        };
        let bytes = mean_bytes_of(&prepared.parts)? + text_of_views(&prepared.parts);
        if !self.make_room_on_host(scan, share, bytes) {
            return Ok(None);
        }
        let reservation = MemoryConsumer::new("bowtie.host_cache").register(&share.pool);
        while reservation.try_grow(bytes as usize).is_err() {
            // The pool is full, perhaps with columns that were used longer ago.
            let evicted = self.on_host.evict(bytes, |entry| {
                entry.last_scan < scan.number && Arc::ptr_eq(&entry.column.pool, &share.pool)
            });
            if evicted == 0 {
                return Ok(None);
            }
        }
        // Offsets of 32 bits address no more than 2 GiB of text.
        let Some(compact) = prepared.compact().if_it_fits()? else {
            return Ok(None);
        };
        // Text may be longer than was estimated, and a dictionary has values.
        let bytes = compact.bytes();
        let has_room = self.make_room_on_host(scan, share, bytes);
        if !has_room || reservation.try_resize(bytes as usize).is_err() {
            return Ok(None);
        }
        let column = HostColumn {
            prepared: Arc::new(compact),
            reservation: Arc::new(reservation),
            pool: Arc::clone(&share.pool),
        };
        let kept = self.on_host.put(scan, wanted, column);
        // Another scan may have added a column at the same time.
        let beyond = self.on_host.bytes().saturating_sub(share.limit);
        if beyond > 0 {
            self.on_host.evict(beyond, |of| of.last_scan <= scan.number);
        }
        Ok(Some(kept))
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

/// Bytes of text that views refer to.
fn text_of_views(parts: &[ArrayRef]) -> u64 {
    let bytes = parts.iter().map(|part| match part.data_type() {
        DataType::Utf8View => part.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => part.as_binary_view().total_buffer_bytes_used(),
        _ => 0,
    });
    bytes.sum::<usize>() as u64
}
