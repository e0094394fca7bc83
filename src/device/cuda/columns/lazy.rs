//! [`LazyColumn`]: a payload column that is uploaded once enough of its rows were gathered, or never.
//!
//! Before the upload, row ids are downloaded and the host gathers from the arrays of the column. A selective join of a
//! million by a million rows with a few thousand matches so uploads only its keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::ArrayRef;
use parking_lot::Mutex;

use crate::device::data::buffer::check_chunk_rows;
use crate::device::data::column::Column;
use crate::device::lazy_column::Payload;
use crate::error::Result;

/// The column is uploaded when one in this number of its rows was gathered. Either way bytes are transferred once: a
/// row id for each row gathered on the host; or each value of the column uploaded, and each gathered value downloaded.
/// But a row gathered on the host is also a random read, which takes about as long as the transfer of a few cache
/// lines.
const ROWS_FOR_ONE: u64 = 16;

/// A column that may not be uploaded yet.
#[derive(Debug)]
pub(crate) struct LazyColumn {
    /// The arrays of the column.
    pub(crate) parts: Vec<ArrayRef>,
    rows: usize,
    /// Told of the upload.
    pub(crate) payload: Arc<Payload>,
    /// Rows gathered so far.
    gathered: AtomicU64,
    /// The column after its upload. The lock is held during the upload, so that there is only one.
    pub(crate) resident: Mutex<Option<Arc<Column>>>,
    /// Set when an upload found too little memory: it is not retried.
    pub(crate) does_not_fit: AtomicBool,
}

impl LazyColumn {
    /// A column of `parts`. An error where they have more rows than a chunk may have.
    pub(crate) fn new(parts: &[ArrayRef], payload: &Arc<Payload>) -> Result<Self> {
        let rows = parts.iter().map(|part| part.len()).sum();
        check_chunk_rows(rows)?;
        Ok(Self {
            parts: parts.to_vec(),
            rows,
            payload: Arc::clone(payload),
            gathered: AtomicU64::new(0),
            resident: Mutex::default(),
            does_not_fit: AtomicBool::new(false),
        })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn parts(&self) -> &[ArrayRef] {
        &self.parts
    }

    /// Counts `rows` more gathered rows. Whether an upload is worth it now.
    pub(crate) fn is_worthwhile(&self, rows: usize) -> bool {
        let gathered = self.gathered.fetch_add(rows as u64, Ordering::Relaxed) + rows as u64;
        gathered.saturating_mul(ROWS_FOR_ONE) > self.rows as u64
    }
}
