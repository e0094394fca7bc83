//! [`Shingles`]: a column of lists of the windows of texts, of which the GPU holds the texts alone (`kernels/expr/text_shingles.cu`).
//!
//! ```text
//! text ─► windows of each value ─► begins and lengths of all windows ─► values, with the span of each row's list
//! ```
//!
//! The windows of `n` characters have `n` times the bytes of their texts, and an offset each. A set join makes them where it encodes
//! them; whoever else reads the lists gets them from the host.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::device::cuda::columns::indirect::IndirectData;
use crate::device::cuda::columns::scan::EXCLUSIVE_U64;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::var_width::{MOST_BYTES, Text};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::sort::check_sortable;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::host::expr::shingles::lists_of;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::threads;
use crate::error::{BowtieError, Result};

/// Lists of the windows of `length` characters of each text.
#[derive(Debug)]
pub(crate) struct Shingles {
    pub(crate) text: Text,
    pub(crate) length: u32,
}

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

impl CudaDevice {
    /// A list of the windows of `length` characters of each value.
    pub(crate) fn shingled(&self, column: &Column, length: u32) -> Result<Column> {
        let rows = column.rows();
        let stream = &self.stream;
        let text = match column.stored() {
            _ if rows == 0 => None,
            Some(Storage::Text(text)) => Some(stream.copied_text(text, rows)?),
            // Views do not hold their bytes on the GPU.
            Some(Storage::Indirect(views)) if matches!(views.to, IndirectData::Buffers(_)) => {
                let views = stream.download(column)?;
                match is_countable(&views)? {
                    true => {
                        let texts = threads::in_pool(|| cast(&views, &DataType::Utf8))??;
                        let text = stream.upload_text(&[texts], rows)?;
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
        self.column_from_host(
            &self
                .fallback
                .shingle_text(&self.column_to_host(column)?, length)?,
        )
    }
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

impl Shingles {
    /// The bytes of the texts, and about those of their windows with an offset each, which whoever reads the column makes.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = (self.text.offsets.bytes() / 4).max(1) as u64;
        let length = self.text.length as u64;
        let mean = length.div_ceil(rows);
        self.text.bytes() + length * (u64::from(self.length).min(mean) + 4)
    }

    /// The texts of `rows` rows on the host.
    pub(crate) fn texts(&self, stream: &Stream, rows: usize) -> Result<ArrayRef> {
        match self.text.original.as_deref() {
            Some([original]) => Ok(Arc::clone(original)),
            _ => stream.download_text(&self.text, rows),
        }
    }

    /// About the mean number of windows of `rows` rows: that of their bytes.
    pub(crate) fn mean_length(&self, rows: usize) -> u64 {
        self.text.length as u64 / rows.max(1) as u64
    }

    /// The lists of `rows` rows on the host.
    pub(crate) fn download(&self, stream: &Stream, rows: usize) -> Result<ArrayRef> {
        let texts = self.texts(stream, rows)?;
        threads::in_pool(|| lists_of(&texts, self.length))?
    }
}

impl Stream {
    fn copied_text(self: &Arc<Self>, text: &Text, rows: usize) -> Result<Text> {
        Ok(Text {
            data_type: text.data_type.clone(),
            offsets: self.copy_of((&text.offsets).into(), (rows + 1) * 4, "columns")?,
            bytes: self.copy_of((&text.bytes).into(), text.length, "columns")?,
            length: text.length,
            valid: self.copied(text.valid.as_ref(), rows)?,
            original: text.original.clone(),
            made: Some(self.mark()?),
        })
    }

    /// Gathers rows.
    pub(crate) fn gather_shingles(
        self: &Arc<Self>,
        shingles: &Shingles,
        rows: &Buffer<u32>,
    ) -> Result<Shingles> {
        Ok(Shingles {
            text: self.gather_text(&shingles.text, rows)?,
            length: shingles.length,
        })
    }

    /// All windows of `rows` rows; there is at least one row. An error if there are too many to sort.
    pub(crate) fn windows(self: &Arc<Self>, of: &Shingles, rows: usize) -> Result<Located> {
        let text = &of.text;
        let counts = self.alloc(rows * 4, "lists")?;
        let args = (
            (&text.offsets).into(),
            (&text.bytes).into(),
            text.valid.as_ref().into(),
            of.length.into(),
            (&counts).into(),
            (rows as u32).into(),
        );
        // SAFETY: there are `rows` values at their offsets, and as many validity bits; `counts` holds a word for each row.
        unsafe { self.launch(kernels::TEXT_SHINGLES_COUNTS, Shape::rows(rows), &args)? };
        let wide = self.scan(EXCLUSIVE_U64, &counts, rows, "lists")?;
        let total = self.read_word(&wide, rows)? as usize;
        check_sortable(total)?;
        let begins = self.alloc((rows + 1) * 4, "lists")?;
        let args = ((&wide).into(), (&begins).into(), (rows as u32 + 1).into());
        // SAFETY: both hold a word more than rows; the last one, the greatest, has 32 bits.
        unsafe { self.launch(kernels::TEXT_OFFSETS, Shape::rows(rows + 1), &args)? };
        drop(wide);
        let longest = self.longest_between(&begins, rows)? as u32;
        let starts = self.alloc(total * 4, "lists")?;
        let lengths = self.alloc(total * 4, "lists")?;
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
        unsafe { self.launch(kernels::TEXT_SHINGLES_SPANS, warps, &args)? };
        let (offsets, bytes, length) = self.text_at(text, &starts, lengths, total)?;
        let values = Text {
            data_type: DataType::Utf8,
            offsets,
            bytes,
            length,
            valid: None,
            original: None,
            made: Some(self.mark()?),
        };
        Ok(Located {
            values: Column::cuda(values, total),
            valid: self.copied(text.valid.as_ref(), rows)?,
            starts: begins,
            counts,
            longest,
        })
    }
}
