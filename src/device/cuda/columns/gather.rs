//! Gathers rows of a column in any storage: by kernels, or on the host for a lazy column that was not uploaded.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::cuda::columns::indirect;
use crate::device::cuda::columns::lazy::LazyColumn;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::shingles;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::to_host;
use crate::device::cuda::columns::var_width;
use crate::device::cuda::device::CudaDevice;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::host::columns::values::{bytes_of, gather_parts};
use crate::device::primitives::transfer::TransferPrimitives;
use crate::device::threads;
use crate::error::{IfItFits as _, Result};

/// Gathers rows of a lazy column. Uploads the column first, if enough of its rows were gathered and memory allows.
pub(crate) fn gather_lazy(
    device: &CudaDevice,
    lazy: &LazyColumn,
    rows: &Buffer<u32>,
) -> Result<Column> {
    let is_worthwhile = lazy.is_worthwhile(rows.len());
    let mut resident = lazy.resident.lock();
    if resident.is_none() && is_worthwhile && !lazy.does_not_fit.load(Ordering::Relaxed) {
        *resident = upload_if_it_fits(device, lazy)?;
        lazy.does_not_fit
            .store(resident.is_none(), Ordering::Relaxed);
    }
    match resident.as_ref().and_then(|column| column.stored()) {
        Some(stored) => gather_stored(device, stored, rows),
        None => {
            drop(resident);
            let ids = rows.read_once(|| to_host::words_to_host(rows))?;
            let budget = &device.stream.budget;
            threads::in_pool(|| gather_parts(budget, &lazy.parts, ids))?
        }
    }
}

/// Uploads the column, unless it needs more than half of the free budget, which the output needs too.
fn upload_if_it_fits(device: &CudaDevice, lazy: &LazyColumn) -> Result<Option<Arc<Column>>> {
    let budget = &device.stream.budget;
    let most_bytes = budget.available() / 2;
    if bytes_of(&lazy.parts)? > most_bytes {
        return Ok(None);
    }
    let column = device.upload(&lazy.parts).if_it_fits()?;
    // Some columns stay on the host in any case.
    let column = column.filter(|column| column.stored().is_some());
    if let Some(column) = &column {
        lazy.payload.uploaded(column.bytes());
    }
    Ok(column)
}

/// Gathers rows of a column in any storage.
pub(crate) fn gather_stored(
    device: &CudaDevice,
    column: &Storage,
    rows: &Buffer<u32>,
) -> Result<Column> {
    match column {
        Storage::Fixed(values) => rows::gather(&device.stream, values, rows),
        Storage::Text(text) => {
            let gathered = var_width::gather_text(&device.stream, text, rows)?;
            Ok(Column::cuda(gathered, rows.len()))
        }
        Storage::Indirect(indirect) => {
            let gathered = indirect::gather_indirect(&device.stream, indirect, rows)?;
            Ok(Column::cuda(gathered, rows.len()))
        }
        Storage::Shingles(shingles) => {
            let gathered = shingles::gather_shingles(&device.stream, shingles, rows)?;
            Ok(Column::cuda(gathered, rows.len()))
        }
        Storage::LazyColumn(lazy) => gather_lazy(device, lazy, rows),
    }
}
