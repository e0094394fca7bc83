//! [`LazyColumn`]: a payload column that is uploaded when enough of its rows were asked for, if ever.
//!
//! Until then row ids come down, and the host gathers from the parts that the column came in. A join of a million rows by a
//! million that lets a few thousand pairs through so sends its keys alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::ArrayRef;
use parking_lot::Mutex;

use crate::device::data::buffer::check_chunk_rows;
use crate::device::data::column::Column;
use crate::device::lazy_column::Payload;
use crate::error::Result;

/// One row of so many, asked for, makes an upload pay. Either way bytes cross the bus once: a row id down for each row gathered
/// on the host, or a value up for each row of the column and down for each gathered one. But a row gathered on the host is a
/// read at random too, which takes about as long as sending a few cache lines.
const ROWS_FOR_ONE: u64 = 16;

/// A column that is not there yet.
#[derive(Debug)]
pub(crate) struct LazyColumn {
    pub(crate) parts: Vec<ArrayRef>,
    rows: usize,
    pub(crate) payload: Arc<Payload>,
    /// Rows asked for so far.
    gathered: AtomicU64,
    /// The column once it was uploaded. Held while it is, so that it is uploaded once.
    pub(crate) resident: Mutex<Option<Arc<Column>>>,
    /// There was no room for it: it is not tried again.
    pub(crate) refused: AtomicBool,
}

impl LazyColumn {
    pub(crate) fn new(parts: &[ArrayRef], payload: &Arc<Payload>) -> Result<Self> {
        let rows = parts.iter().map(|part| part.len()).sum();
        check_chunk_rows(rows)?;
        Ok(Self {
            parts: parts.to_vec(),
            rows,
            payload: Arc::clone(payload),
            gathered: AtomicU64::new(0),
            resident: Mutex::default(),
            refused: AtomicBool::new(false),
        })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn parts(&self) -> &[ArrayRef] {
        &self.parts
    }

    /// Whether it pays to upload it, now that so many more rows are asked for.
    pub(crate) fn pays(&self, rows: usize) -> bool {
        let gathered = self.gathered.fetch_add(rows as u64, Ordering::Relaxed) + rows as u64;
        gathered.saturating_mul(ROWS_FOR_ONE) > self.rows as u64
    }
}
