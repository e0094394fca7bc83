//! Where the elements of lists are. A column of lists, or of texts whose windows are the elements, enters; resident values, and the start
//! and length of each row's list among them, leave.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_array};
use arrow::datatypes::{ArrowNativeType, DataType, ToByteSlice};

use crate::device::cuda::columns::shingles::Shingles;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::expr::shingles::Located;
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

impl CudaDevice {
    /// The values of a column's lists on the GPU, with the rows that have a list, are in a group and are not NULL in any
    /// of `not_null`. An error if there are too many values to sort.
    pub(crate) fn list_spans(
        &self,
        lists: &ListColumn<'_>,
        groups: Option<GroupIds<'_>>,
        not_null: &[&Keys],
    ) -> Result<(Column, ListSpans)> {
        let stream = &self.stream;
        let rows = lists.rows();
        check_chunk_rows(rows)?;
        let Located {
            values,
            valid: mut kept,
            starts,
            counts,
            longest,
        } = match lists {
            ListColumn::OnHost(lists) => self.sent_lists(lists)?,
            ListColumn::Shingles(shingles, rows) => stream.windows(shingles, *rows)?,
        };
        for keys in not_null {
            if let Some(valid) = valid_memory(keys.valid.as_ref())? {
                kept = Some(stream.bits_and(kept.as_ref().unwrap_or(valid), valid, rows)?);
            }
        }
        if let Some((groups, _)) = groups {
            let grouped = stream.bits_of_groups(memory(groups)?, rows)?;
            kept = Some(stream.bits_and(kept.as_ref().unwrap_or(&grouped), &grouped, rows)?);
        }
        let Some(kept) = kept else {
            let spans = ListSpans {
                rows: stream.sequence(0, rows)?,
                groups: None,
                starts,
                counts,
                longest,
            };
            return Ok((values, spans));
        };
        let rows = stream.select(&kept, rows, None)?;
        let of_rows = |words: &Memory| stream.gather_values(words, memory(&rows)?, rows.len(), 4);
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
    pub(crate) fn list_column<'a>(&self, column: &'a Column) -> Result<ListColumn<'a>> {
        match column.stored() {
            Some(Storage::Shingles(shingles)) if column.rows() > 0 => {
                Ok(ListColumn::Shingles(shingles, column.rows()))
            }
            _ => self.stream.download(column).map(ListColumn::OnHost),
        }
    }

    /// Uploads lists.
    fn sent_lists(&self, lists: &ArrayRef) -> Result<Located> {
        let (stream, rows) = (&self.stream, lists.len());
        let lists = Lists::of(lists)?;
        check_sortable(lists.values.len())?;
        let values = by_bits(&lists.values)?;
        let values = stream.upload(std::slice::from_ref(&values), values.data_type())?;
        self.receive(&values)?;
        let valid = match lists.nulls() {
            Some(nulls) => Some(stream.upload_bits(nulls.inner(), "validity")?),
            None => None,
        };
        let (starts, counts, longest) = stream.send_spans(&lists, rows)?;
        Ok(Located {
            values,
            valid,
            starts,
            counts,
            longest,
        })
    }
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

impl Stream {
    /// First value and number of values of each row's list, and the greatest number.
    fn send_spans(self: &Arc<Self>, lists: &Lists, rows: usize) -> Result<(Memory, Memory, u32)> {
        let Some(offsets) = lists.offsets() else {
            let (starts, counts) = threads::in_pool(|| lists.spans(rows))?;
            let longest = counts.iter().copied().max().unwrap_or(0);
            return Ok((
                self.send_words(&starts)?,
                self.send_words(&counts)?,
                longest,
            ));
        };
        // A kernel would take others for addresses.
        debug_assert!(offsets.is_sorted(), "offsets of lists decrease");
        let first = offsets[0] as u32;
        let offsets = self.send_words(&offsets[..])?;
        let starts = self.alloc(rows * 4, "lists")?;
        let counts = self.alloc(rows * 4, "lists")?;
        let args = (
            (&offsets).into(),
            first.into(),
            (rows as u32).into(),
            (&starts).into(),
            (&counts).into(),
        );
        // SAFETY: there is an offset more than rows; both other buffers hold a word per row.
        unsafe { self.launch(kernels::SET_ENCODE_SPANS, Shape::rows(rows), &args)? };
        let longest = self.longest_between(&offsets, rows)?;
        Ok((starts, counts, longest as u32))
    }

    /// Uploads words.
    fn send_words<T: ArrowNativeType>(self: &Arc<Self>, words: &[T]) -> Result<Memory> {
        self.send(words.to_byte_slice(), "lists")
    }
}
