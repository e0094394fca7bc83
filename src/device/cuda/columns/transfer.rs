//! Transfers columns to a GPU and back, each as it is stored there.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, make_array, new_null_array};
use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::MOST_ROWS;
use crate::device::cuda::columns::indirect::{self, is_view};
use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::var_width;
use crate::device::cuda::columns::{bytes, fixed_width};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::check_chunk_rows;
use crate::device::data::column::Column;
use crate::device::host::columns::values::{concat_arrays, upload as host_column};
use crate::error::{BowtieError, Result};

/// Uploads `parts` asynchronously as one column, cast to `wanted`. It must be received before it is used.
pub(crate) fn upload(
    stream: &Arc<Stream>,
    parts: &[ArrayRef],
    wanted: &DataType,
) -> Result<Column> {
    let rows = parts.iter().map(|part| part.len()).sum();
    check_chunk_rows(rows)?;
    if rows > MOST_ROWS {
        return Err(BowtieError::MustSplit {
            what: "chunk on a GPU",
            size: rows as u64,
            most: MOST_ROWS as u64,
            unit: "rows",
        });
    }
    let data_type = parts[0].data_type();
    if width(data_type).is_some() {
        return Ok(Column::cuda(
            fixed_width::upload_values(stream, parts, rows, wanted)?,
            rows,
        ));
    }
    let stored: Option<Storage> = match var_width::is_text(data_type) {
        true => var_width::upload_text(stream, parts, rows)?.map(Into::into),
        false => indirect::upload_indirect(stream, parts, rows)?.map(Into::into),
    };
    match stored {
        Some(stored) => Ok(Column::cuda(stored, rows)),
        // The reservation counts it in any case: a column on the host is bounded as one on the device.
        None => host_column(&stream.budget, parts),
    }
}

/// Uploads `parts` asynchronously as a column that outlives its arrays. Views become text, whose bytes are on the GPU too.
pub(crate) fn upload_kept(stream: &Arc<Stream>, parts: &[ArrayRef]) -> Result<Column> {
    let data_type = parts[0].data_type();
    let column = match is_view(data_type) {
        true => {
            let rows = parts.iter().map(|part| part.len()).sum();
            check_chunk_rows(rows)?;
            Column::cuda(indirect::send_views(stream, parts, usize::MAX)?, rows)
        }
        false => upload(stream, parts, data_type)?,
    };
    let rows = column.rows();
    let kept = column.into_stored().and_then(Storage::without_original);
    // Text of a few rows that exceeds the offsets stays on the host.
    let kept = kept.ok_or(BowtieError::MustSplit {
        what: "column of text on a GPU",
        size: rows as u64,
        most: 1,
        unit: "rows",
    })?;
    kept.receive()?;
    Ok(Column::cuda(kept, rows))
}

#[cfg(test)]
thread_local! {
    /// Columns of the GPU that this thread has downloaded.
    pub(crate) static DOWNLOADS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Downloads a column, or returns the single array that it was uploaded from.
pub(crate) fn download(column: &Column) -> Result<ArrayRef> {
    let Some(stored) = column.stored() else {
        return Ok(Arc::clone(column.on_host()?));
    };
    #[cfg(test)]
    DOWNLOADS.set(DOWNLOADS.get() + 1);
    // With several parts, a download is faster than their concatenation by one thread.
    if let Some([original]) = stored.original() {
        return Ok(Arc::clone(original));
    }
    let rows = column.rows();
    match stored {
        Storage::Fixed(values) => {
            let data = ArrayData::builder(values.data_type.clone())
                .len(rows)
                .add_buffer(fixed_width::download_words(values, rows)?)
                .nulls(bytes::download_nulls(
                    values.valid.as_ref(),
                    rows,
                    values.made.as_ref(),
                )?)
                .build()?;
            Ok(make_array(data))
        }
        Storage::Text(text) => var_width::download_text(text, rows),
        Storage::Indirect(indirect) => indirect::download_indirect(indirect, rows),
        Storage::Shingles(shingles) => shingles.download(rows),
        Storage::LazyColumn(lazy) => concat_arrays(lazy.parts()),
    }
}

/// A column of `rows` NULLs.
pub(crate) fn nulls(stream: &Arc<Stream>, data_type: &DataType, rows: usize) -> Result<Column> {
    let array = new_null_array(data_type, rows);
    let bytes = array.to_data().get_slice_memory_size()? as u64;
    let lease = stream.budget.lease(bytes, "output columns")?;
    // The column is for the output: an upload would gain nothing.
    Ok(Column::host(array, lease))
}
