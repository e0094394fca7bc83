//! Validity as values that a join can carry: a word a row, with a bit for each of at most 32 columns.

use std::sync::Arc;

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::runtime::arguments::{Structure, U64};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// The columns that share a word.
pub(crate) const COLUMNS_A_WORD: usize = 32;

/// The words of `rows` rows: bit `c` of each is that row's bit of `bitmaps[c]`, of at most [`COLUMNS_A_WORD`].
pub(crate) fn pack(stream: &Arc<Stream>, bitmaps: &[&Memory], rows: usize) -> Result<Memory> {
    let words = stream.alloc(rows * 4, "validity")?;
    let bits = addresses(bitmaps.iter().copied());
    let args = (
        (&bits).into(),
        (bitmaps.len() as u32).into(),
        (&words).into(),
        (rows as u32).into(),
    );
    // SAFETY: each bitmap has a bit for each row, and `words` a word.
    unsafe { stream.launch(kernels::ROWS_BITS_PACK, Shape::rows(rows), &args)? };
    Ok(words)
}

/// The first `columns` bitmaps of `rows` words, of at most [`COLUMNS_A_WORD`].
pub(crate) fn unpack(
    stream: &Arc<Stream>,
    words: &Memory,
    columns: usize,
    rows: usize,
) -> Result<Vec<Memory>> {
    let bitmaps = (0..columns).map(|_| stream.alloc(bitmap_bytes(rows), "validity"));
    let bitmaps = bitmaps.collect::<Result<Vec<_>>>()?;
    let bits = addresses(bitmaps.iter());
    let args = (
        words.into(),
        (&bits).into(),
        (columns as u32).into(),
        (rows as u32).into(),
    );
    // SAFETY: `words` has a word for each row, and each bitmap a bit.
    unsafe { stream.launch(kernels::ROWS_BITS_UNPACK, Shape::rows(rows), &args)? };
    Ok(bitmaps)
}

/// The kernels' structure of bitmaps.
fn addresses<'a>(bitmaps: impl Iterator<Item = &'a Memory>) -> Structure<COLUMNS_A_WORD> {
    let mut addresses = [U64::ZERO; COLUMNS_A_WORD];
    for (address, bitmap) in addresses.iter_mut().zip(bitmaps) {
        *address = bitmap.into();
    }
    Structure(addresses)
}
