//! [`Shingles`]: a column of lists of the windows of texts, of which the GPU holds the texts alone.
//!
//! The windows of `n` characters have `n` times the bytes of their texts, and an offset each. A set join makes them where it encodes
//! them (`expr/shingles.rs`); whoever else reads the lists gets them from the host.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::device::cuda::columns::var_width::{self, Text};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::host::expr::shingles::lists_of;
use crate::device::threads;
use crate::error::Result;

/// Lists of the windows of `length` characters of each text.
#[derive(Debug)]
pub(crate) struct Shingles {
    pub(crate) text: Text,
    pub(crate) length: u32,
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
    pub(crate) fn texts(&self, rows: usize) -> Result<ArrayRef> {
        match self.text.original.as_deref() {
            Some([original]) => Ok(Arc::clone(original)),
            _ => var_width::download_text(&self.text, rows),
        }
    }

    /// About the mean number of windows of `rows` rows: that of their bytes.
    pub(crate) fn mean_length(&self, rows: usize) -> u64 {
        self.text.length as u64 / rows.max(1) as u64
    }

    /// The lists of `rows` rows on the host.
    pub(crate) fn download(&self, rows: usize) -> Result<ArrayRef> {
        let texts = self.texts(rows)?;
        threads::in_pool(|| lists_of(&texts, self.length))?
    }
}

/// Gathers rows.
pub(crate) fn gather_shingles(
    stream: &Arc<Stream>,
    shingles: &Shingles,
    rows: &Buffer<u32>,
) -> Result<Shingles> {
    Ok(Shingles {
        text: var_width::gather_text(stream, &shingles.text, rows)?,
        length: shingles.length,
    })
}
