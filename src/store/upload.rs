//! Uploads of columns that a [`ColumnStore`] keeps, as codes where these are narrower.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use crate::device::data::column::Column;
use crate::device::data::encoding::{ArrayValues, CodedValues, Encoding};
use crate::device::row_width::mean_bytes;
use crate::error::Result;
use crate::store::column_store::ColumnStore;
use crate::store::kept_column::KeptColumn;
use crate::store::scan::{Scan, WantedColumn};

impl ColumnStore {
    /// Uploads a column, and evicts columns that were used longer ago if there is no room.
    pub(crate) fn upload(
        &self,
        scan: &Scan,
        wanted: &impl WantedColumn,
    ) -> Result<Option<KeptColumn>> {
        let Some(parts) = wanted.arrays() else {
            return Ok(None);
        };
        let Some(first) = parts.first() else {
            return Ok(None);
        };
        // A value has at least one bit. A column without room is not encoded.
        let rows: usize = parts.iter().map(|part| part.len()).sum();
        if !self.may_add(scan, rows.div_ceil(8) as u64) {
            return Ok(None);
        }
        let encodes = self.device.copies_uploads(first.data_type()) || wanted.is_in_files();
        let encoded = match encodes {
            true => self.device.encode(&parts)?,
            false => None,
        };
        let Some(encoded) = encoded else {
            let column = self.upload_in_room(scan, &parts)?;
            return Ok(column.map(|column| KeptColumn {
                column: Arc::new(column),
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
        let column = self.upload_in_room(scan, &encoded.codes)?;
        Ok(column.map(|column| KeptColumn {
            column: Arc::new(column),
            blocks: encoded.blocks.map(Arc::new),
            encoding: Some(Encoding {
                code: encoded.code,
                bound: encoded.bound,
                nullable: parts.iter().any(|part| part.null_count() > 0),
                values,
            }),
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
                        self.evict(beyond, |column| column.last_scan < scan.number);
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
            if self.evict(missing, |column| column.last_scan < scan.number) == 0 {
                return Ok(None);
            }
        }
    }
}

/// Bytes of the values of some arrays, approximately.
fn mean_bytes_of(parts: &[ArrayRef]) -> Result<u64> {
    let each = parts
        .iter()
        .map(|part| Ok(mean_bytes(part)? * part.len() as u64));
    each.sum()
}
