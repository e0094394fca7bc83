//! The windows of texts, for a column of [`Shingles`] (`kernels/expr/text_shingles.cu`).
//!
//! ```text
//! text ─► windows of each value ─► begins and lengths of all windows ─► values, with the span of each row's list
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::device::cuda::columns::indirect::IndirectData;
use crate::device::cuda::columns::layout::MOST_BYTES;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U64};
use crate::device::cuda::columns::shingles::Shingles;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::to_host;
use crate::device::cuda::columns::transfer;
use crate::device::cuda::columns::var_width::{self, Text};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::expr::string_predicate;
use crate::device::cuda::keys::key_column;
use crate::device::cuda::keys::sort::check_sortable;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::threads;
use crate::error::{BowtieError, Result};

/// The elements of a column's lists, and where those of each row are.
pub(crate) struct Located {
    pub(crate) values: Column,
    /// The rows with a list; `None` if all have one.
    pub(crate) valid: Option<Memory>,
    /// The first element of each row, and their number.
    pub(crate) starts: Memory,
    pub(crate) counts: Memory,
    /// Elements of the longest list.
    pub(crate) longest: u32,
}

/// A list of the windows of `length` characters of each value.
pub(crate) fn shingled(device: &CudaDevice, column: &Column, length: u32) -> Result<Column> {
    let rows = column.rows();
    let stream = &device.stream;
    let text = match column.stored() {
        _ if rows == 0 => None,
        Some(Storage::Text(text)) => Some(copied_text(stream, text, rows)?),
        // Views do not hold their bytes on the GPU.
        Some(Storage::Indirect(views)) if matches!(views.to, IndirectData::Buffers(_)) => {
            let views = transfer::download(column)?;
            match is_countable(&views)? {
                true => {
                    let texts = threads::in_pool(|| cast(&views, &DataType::Utf8))??;
                    let text = var_width::upload_text(stream, &[texts], rows)?;
                    // The views have the bytes already.
                    text.map(|text| Text {
                        original: None,
                        ..text
                    })
                }
                false => None,
            }
        }
        _ => None,
    };
    if let Some(text) = text {
        text.receive()?;
        return Ok(Column::cuda(Shingles { text, length }, rows));
    }
    to_host::column_from_host(
        device,
        &device
            .fallback
            .shingle_text(&to_host::column_to_host(device, column)?, length)?,
    )
}

/// Whether offsets can count the bytes of all values.
///
/// # Errors
/// [`BowtieError::MustSplit`] if those of fewer rows could be counted.
fn is_countable(views: &ArrayRef) -> Result<bool> {
    let lengths = views.as_string_view_opt();
    let bytes: u64 = lengths.map_or(0, |views| views.lengths().map(u64::from).sum());
    match bytes <= MOST_BYTES as u64 {
        true => Ok(true),
        false if views.len() > 1 => Err(BowtieError::MustSplit {
            what: "column of text on a GPU",
            size: bytes,
            most: MOST_BYTES as u64,
            unit: "bytes",
        }),
        false => Ok(false),
    }
}

fn copied_text(stream: &Arc<Stream>, text: &Text, rows: usize) -> Result<Text> {
    Ok(Text {
        data_type: text.data_type.clone(),
        offsets: stream.copy_of((&text.offsets).into(), (rows + 1) * 4, "columns")?,
        bytes: stream.copy_of((&text.bytes).into(), text.length, "columns")?,
        length: text.length,
        valid: string_predicate::copied(stream, text.valid.as_ref(), rows)?,
        original: text.original.clone(),
        made: Some(stream.mark()?),
    })
}

/// All windows of `rows` rows; there is at least one row. An error if there are too many to sort.
pub(crate) fn windows(stream: &Arc<Stream>, of: &Shingles, rows: usize) -> Result<Located> {
    let text = &of.text;
    let counts = stream.alloc(rows * 4, "lists")?;
    let args = (
        (&text.offsets).into(),
        (&text.bytes).into(),
        text.valid.as_ref().into(),
        of.length.into(),
        (&counts).into(),
        (rows as u32).into(),
    );
    // SAFETY: there are `rows` values at their offsets, and as many validity bits; `counts` holds a word for each row.
    unsafe { stream.launch(kernels::TEXT_SHINGLES_COUNTS, Shape::rows(rows), &args)? };
    let wide = scan::scan(stream, EXCLUSIVE_U64, &counts, rows, "lists")?;
    let total = stream.read_word(&wide, rows)? as usize;
    check_sortable(total)?;
    let begins = stream.alloc((rows + 1) * 4, "lists")?;
    let args = ((&wide).into(), (&begins).into(), (rows as u32 + 1).into());
    // SAFETY: both hold a word more than rows; the last one, the greatest, has 32 bits.
    unsafe { stream.launch(kernels::TEXT_OFFSETS, Shape::rows(rows + 1), &args)? };
    drop(wide);
    let longest = key_column::longest_between(stream, &begins, rows)? as u32;
    let starts = stream.alloc(total * 4, "lists")?;
    let lengths = stream.alloc(total * 4, "lists")?;
    let args = (
        (&text.offsets).into(),
        (&text.bytes).into(),
        (&begins).into(),
        of.length.into(),
        (&starts).into(),
        (&lengths).into(),
        (rows as u32).into(),
    );
    let warps = Shape::blocks_of(rows, 8, 256);
    // SAFETY: `begins` has where the windows of each of `rows` values begin, as counted above, and the end, `total`; both outputs hold
    // as many words.
    unsafe { stream.launch(kernels::TEXT_SHINGLES_SPANS, warps, &args)? };
    let (offsets, bytes, length) = var_width::text_at(stream, text, &starts, lengths, total)?;
    let values = Text {
        data_type: DataType::Utf8,
        offsets,
        bytes,
        length,
        valid: None,
        original: None,
        made: Some(stream.mark()?),
    };
    Ok(Located {
        values: Column::cuda(values, total),
        valid: string_predicate::copied(stream, text.valid.as_ref(), rows)?,
        starts: begins,
        counts,
        longest,
    })
}
