//! Gathers rows of a column in any storage: by kernels, or on the host for a lazy column that was not uploaded.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::cuda::columns::lazy::LazyColumn;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::device::CudaDevice;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::host::columns::values::{bytes_of, gather_parts};
use crate::device::primitives::transfer::TransferPrimitives;
use crate::device::threads;
use crate::error::{IfItFits as _, Result};

impl CudaDevice {
    /// Gathers rows of a lazy column. Uploads the column first, if enough of its rows were gathered and memory allows.
    pub(crate) fn gather_lazy(&self, lazy: &LazyColumn, rows: &Buffer<u32>) -> Result<Column> {
        let is_worthwhile = lazy.is_worthwhile(rows.len());
        let mut resident = lazy.resident.lock();
        if resident.is_none() && is_worthwhile && !lazy.does_not_fit.load(Ordering::Relaxed) {
            *resident = self.upload_if_it_fits(lazy)?;
            lazy.does_not_fit
                .store(resident.is_none(), Ordering::Relaxed);
        }
        match resident.as_ref().and_then(|column| column.stored()) {
            Some(stored) => self.gather_stored(stored, rows),
            None => {
                drop(resident);
                let ids = rows.read_once(|| self.words_to_host(rows))?;
                let budget = &self.stream.budget;
                threads::in_pool(|| gather_parts(budget, &lazy.parts, ids))?
            }
        }
    }

    /// Uploads the column, unless it needs more than half of the free budget, which the output needs too.
    fn upload_if_it_fits(&self, lazy: &LazyColumn) -> Result<Option<Arc<Column>>> {
        let budget = &self.stream.budget;
        let most_bytes = budget.available() / 2;
        if bytes_of(&lazy.parts)? > most_bytes {
            return Ok(None);
        }
        let column = self.upload(&lazy.parts).if_it_fits()?;
        // Some columns stay on the host in any case.
        let column = column.filter(|column| column.stored().is_some());
        if let Some(column) = &column {
            lazy.payload.uploaded(column.bytes());
        }
        Ok(column)
    }
}

impl CudaDevice {
    /// Gathers rows of a column in any storage.
    pub(crate) fn gather_stored(&self, column: &Storage, rows: &Buffer<u32>) -> Result<Column> {
        match column {
            Storage::Fixed(values) => self.stream.gather(values, rows),
            Storage::Text(text) => {
                let gathered = self.stream.gather_text(text, rows)?;
                Ok(Column::cuda(gathered, rows.len()))
            }
            Storage::Indirect(indirect) => {
                let gathered = self.stream.gather_indirect(indirect, rows)?;
                Ok(Column::cuda(gathered, rows.len()))
            }
            Storage::Shingles(shingles) => {
                let gathered = self.stream.gather_shingles(shingles, rows)?;
                Ok(Column::cuda(gathered, rows.len()))
            }
            Storage::LazyColumn(lazy) => self.gather_lazy(lazy, rows),
        }
    }
}
