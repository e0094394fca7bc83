//! Where the elements of lists are. A column of lists, or of texts whose windows are the elements, enters; resident values, and the start
//! and length of each row's list among them, leave.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_array};
use arrow::datatypes::{ArrowNativeType, DataType, ToByteSlice};

use crate::device::cuda::columns::bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::shingles::Shingles;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::transfer;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::expr::shingles::{self, Located};
use crate::device::cuda::keys::key_column;
use crate::device::cuda::keys::sort::check_sortable;
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::GroupIds;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::device::threads;
use crate::error::Result;
use crate::list_sets::elements::Lists;

/// The lists of a column.
pub(crate) enum ListColumn<'a> {
    OnHost(ArrayRef),
    /// Windows of the texts of this number of rows; at least one.
    Shingles(&'a Shingles, usize),
}

/// The rows with a list, and the span of each list among the values.
pub(crate) struct ListSpans {
    /// Row ids.
    pub(crate) rows: Buffer<u32>,
    /// The group of each of these rows, and the number of groups.
    pub(crate) groups: Option<(Memory, u32)>,
    /// First value of each row's list, and the number of its values.
    pub(crate) starts: Memory,
    pub(crate) counts: Memory,
    /// Values of the longest list.
    pub(crate) longest: u32,
}

/// The values of a column's lists on the GPU, with the rows that have a list, are in a group and are not NULL in any
/// of `not_null`. An error if there are too many values to sort.
pub(crate) fn list_spans(
    device: &CudaDevice,
    lists: &ListColumn<'_>,
    groups: Option<GroupIds<'_>>,
    not_null: &[&Keys],
) -> Result<(Column, ListSpans)> {
    let stream = &device.stream;
    let rows = lists.rows();
    check_chunk_rows(rows)?;
    let Located {
        values,
        valid: mut kept,
        starts,
        counts,
        longest,
    } = match lists {
        ListColumn::OnHost(lists) => sent_lists(device, lists)?,
        ListColumn::Shingles(shingles, rows) => shingles::windows(stream, shingles, *rows)?,
    };
    for keys in not_null {
        if let Some(valid) = valid_memory(keys.valid.as_ref())? {
            kept = Some(rows::bits_and(
                stream,
                kept.as_ref().unwrap_or(valid),
                valid,
                rows,
            )?);
        }
    }
    if let Some((groups, _)) = groups {
        let grouped = rows::bits_of_groups(stream, memory(groups)?, rows)?;
        kept = Some(rows::bits_and(
            stream,
            kept.as_ref().unwrap_or(&grouped),
            &grouped,
            rows,
        )?);
    }
    let Some(kept) = kept else {
        let spans = ListSpans {
            rows: rows::sequence(stream, 0, rows)?,
            groups: None,
            starts,
            counts,
            longest,
        };
        return Ok((values, spans));
    };
    let rows = rows::select(stream, &kept, rows, None)?;
    let of_rows =
        |words: &Memory| rows::gather_values(stream, words, memory(&rows)?, rows.len(), 4);
    let spans = ListSpans {
        groups: match groups {
            Some((ids, count)) => Some((of_rows(memory(ids)?)?, count)),
            None => None,
        },
        starts: of_rows(&starts)?,
        counts: of_rows(&counts)?,
        rows,
        longest,
    };
    Ok((values, spans))
}

/// The lists of a column, without a copy of those that are on the host.
pub(crate) fn list_column<'a>(column: &'a Column) -> Result<ListColumn<'a>> {
    match column.stored() {
        Some(Storage::Shingles(shingles)) if column.rows() > 0 => {
            Ok(ListColumn::Shingles(shingles, column.rows()))
        }
        _ => transfer::download(column).map(ListColumn::OnHost),
    }
}

/// Uploads lists.
fn sent_lists(device: &CudaDevice, lists: &ArrayRef) -> Result<Located> {
    let (stream, rows) = (&device.stream, lists.len());
    let lists = Lists::of(lists)?;
    check_sortable(lists.values.len())?;
    let values = by_bits(&lists.values)?;
    let values = transfer::upload(stream, std::slice::from_ref(&values), values.data_type())?;
    device.receive(&values)?;
    let valid = match lists.nulls() {
        Some(nulls) => Some(bytes::upload_bits(stream, nulls.inner(), "validity")?),
        None => None,
    };
    let (starts, counts, longest) = send_spans(stream, &lists, rows)?;
    Ok(Located {
        values,
        valid,
        starts,
        counts,
        longest,
    })
}

impl ListColumn<'_> {
    fn rows(&self) -> usize {
        match self {
            Self::OnHost(lists) => lists.len(),
            Self::Shingles(_, rows) => *rows,
        }
    }
}

/// Floats as their bits, by which elements are compared.
fn by_bits(values: &ArrayRef) -> Result<ArrayRef> {
    let bits = match values.data_type() {
        DataType::Float16 => DataType::UInt16,
        DataType::Float32 => DataType::UInt32,
        DataType::Float64 => DataType::UInt64,
        _ => return Ok(Arc::clone(values)),
    };
    let data = values.to_data().into_builder().data_type(bits).build()?;
    Ok(make_array(data))
}

/// First value and number of values of each row's list, and the greatest number.
fn send_spans(stream: &Arc<Stream>, lists: &Lists, rows: usize) -> Result<(Memory, Memory, u32)> {
    let Some(offsets) = lists.offsets() else {
        let (starts, counts) = threads::in_pool(|| lists.spans(rows))?;
        let longest = counts.iter().copied().max().unwrap_or(0);
        return Ok((
            send_words(stream, &starts)?,
            send_words(stream, &counts)?,
            longest,
        ));
    };
    // A kernel would take others for addresses.
    debug_assert!(offsets.is_sorted(), "offsets of lists decrease");
    let first = offsets[0] as u32;
    let offsets = send_words(stream, &offsets[..])?;
    let starts = stream.alloc(rows * 4, "lists")?;
    let counts = stream.alloc(rows * 4, "lists")?;
    let args = (
        (&offsets).into(),
        first.into(),
        (rows as u32).into(),
        (&starts).into(),
        (&counts).into(),
    );
    // SAFETY: there is an offset more than rows; both other buffers hold a word per row.
    unsafe { stream.launch(kernels::SET_ENCODE_SPANS, Shape::rows(rows), &args)? };
    let longest = key_column::longest_between(stream, &offsets, rows)?;
    Ok((starts, counts, longest as u32))
}

/// Uploads words.
fn send_words<T: ArrowNativeType>(stream: &Arc<Stream>, words: &[T]) -> Result<Memory> {
    stream.send(words.to_byte_slice(), "lists")
}
