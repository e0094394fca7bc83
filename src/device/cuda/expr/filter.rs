//! The rows for which a column is TRUE (SELECT of \[D\] table 1, here as flag, scan, compact;
//! `kernels/columns/rows_select.cuh`). In: flags and columns. Out: the columns of the rows that pass.
//!
//! Values of 4, 8 and 16 bytes are compacted from the flags. Other values are gathered by row ids, which are computed
//! at most once.

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::to_host;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::primitives::rows::RowPrimitives;
use crate::error::{BowtieError, Result};

/// The number of rows that pass, and their columns; `None` if all pass.
pub(crate) fn kept(
    device: &CudaDevice,
    flags: &Column,
    columns: &[&Column],
) -> Result<Option<(usize, Vec<Column>)>> {
    let stream = &device.stream;
    let rows = flags.rows();
    if rows == 0 {
        return Ok(None);
    }
    let uploaded = match flags.on_cuda() {
        Some(_) => None,
        None => Some(to_host::column_from_host(device, flags)?),
    };
    let Some(Storage::Fixed(flags)) = uploaded.as_ref().unwrap_or(flags).stored() else {
        return Err(BowtieError::Internal("flags without bits".into()));
    };
    let both = match &flags.valid {
        Some(valid) => Some(rows::bits_and(stream, &flags.values, valid, rows)?),
        None => None,
    };
    let bits = both.as_ref().unwrap_or(&flags.values);
    let (offsets, selected) = rows::select_offsets(stream, bits, rows)?;
    if selected == rows {
        return Ok(None);
    }
    let mut ids: Option<Buffer<u32>> = None;
    let mut kept = Vec::with_capacity(columns.len());
    for column in columns {
        let compacted = match column.stored() {
            Some(Storage::Fixed(values)) => compacted(values),
            _ => None,
        };
        kept.push(match compacted {
            Some((values, width)) => {
                let at = (&offsets, selected);
                let compact = Values {
                    data_type: values.data_type.clone(),
                    values: rows::select_values(stream, bits, rows, at, &values.values, width)?,
                    valid: match &values.valid {
                        None => None,
                        Some(valid) => {
                            let ids = compute_ids(device, &mut ids, (bits, rows), at)?;
                            Some(rows::gather_bits(stream, valid, memory(ids)?, selected)?)
                        }
                    },
                    original: None,
                    made: Some(stream.mark()?),
                };
                Column::cuda(compact, selected)
            }
            None => {
                let ids = compute_ids(device, &mut ids, (bits, rows), (&offsets, selected))?;
                device.gather(column, ids)?
            }
        });
    }
    Ok(Some((selected, kept)))
}

/// The ids of the rows that pass, computed on first use.
fn compute_ids<'i>(
    device: &CudaDevice,
    ids: &'i mut Option<Buffer<u32>>,
    (bits, rows): (&Memory, usize),
    (offsets, selected): (&Memory, usize),
) -> Result<&'i Buffer<u32>> {
    let made = match ids.take() {
        Some(made) => made,
        None => rows::select_at(&device.stream, bits, rows, offsets, selected, None)?,
    };
    Ok(ids.insert(made))
}

fn compacted(values: &Values) -> Option<(&Values, usize)> {
    let width = width(&values.data_type)?;
    matches!(width, 4 | 8 | 16).then_some((values, width))
}
