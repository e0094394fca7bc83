//! Sorts rows by columns, as ORDER BY does (`kernels/keys/keys.cu`, `kernels/keys/sort.cu`): stable sorts by one word after the other,
//! the least significant first.
//!
//! ```text
//! last key: last word, …, first word, NULL or not ─► … ─► first key: last word, …, first word, NULL or not ─► rows in order
//! ```

use std::sync::Arc;

use arrow::compute::SortOptions;

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::key_column::{self, KeyColumn, KeySource, words_of};
use crate::device::cuda::keys::order_keys;
use crate::device::cuda::keys::ranks;
use crate::device::cuda::keys::sort::{self, WIDE, check_sortable};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::error::Result;

/// The most words of the text that rows are sorted by: the last one holds the length in a byte.
const MOST_SORTED_WORDS: usize = 31;

/// A sort that has begun.
struct Sorting<'a> {
    stream: &'a Arc<Stream>,
    rows: usize,
    /// Row ids in the order of the keys so far; `None`: 0, 1, ….
    order: Option<Memory>,
}

/// The values of a column that rows are sorted by, and the words of its bytes, as [`key_column::base_key`]; text with offsets may be longer.
/// `None` where only the host fallback can read it.
pub(crate) fn sort_key<'a>(
    device: &CudaDevice,
    column: &'a Column,
) -> Result<Option<(KeyColumn<'a>, usize)>> {
    let Some(Storage::Text(_)) = column.stored() else {
        return key_column::base_key(device, column);
    };
    let Some(key) = key_column::key_column(device, column)? else {
        return Ok(None);
    };
    let words = match key.source()?.bytes() {
        Some(bytes) => words_of(key_column::longest(&device.stream, bytes, column.rows())?),
        None => 0,
    };
    Ok((words <= MOST_SORTED_WORDS).then_some((key, words)))
}

/// Row ids in the order of the keys, each with the words of values that compare byte by byte; the first `limit` of them.
pub(crate) fn sort_rows(
    stream: &Arc<Stream>,
    rows: usize,
    keys: &[(KeyColumn<'_>, usize, SortOptions)],
    limit: Option<usize>,
) -> Result<Buffer<u32>> {
    check_chunk_rows(rows)?;
    check_sortable(rows)?;
    let first = limit.map_or(rows, |limit| limit.min(rows));
    let mut sorting = Sorting {
        stream,
        rows,
        order: None,
    };
    if rows > 1 && first > 0 {
        for (column, words, options) in keys.iter().rev() {
            sorting.by_key(column.source()?, *words, *options)?;
        }
    }
    match sorting.order {
        None => rows::sequence(stream, 0, first),
        Some(order) if first == rows => Ok(Buffer::cuda(order, rows)),
        Some(order) => {
            let first_rows = rows::sequence(stream, 0, first)?;
            let found = rows::gather_values(stream, &order, memory(&first_rows)?, first, 4)?;
            Ok(Buffer::cuda(found, first))
        }
    }
}

impl Sorting<'_> {
    /// Sorts by another key, which counts more than those before.
    fn by_key(&mut self, source: KeySource<'_>, words: usize, options: SortOptions) -> Result<()> {
        let (stream, rows) = (self.stream, self.rows);
        let valid = match (source, source.bytes()) {
            (_, Some(bytes)) => {
                for j in (0..words).rev() {
                    let word = stream.alloc(rows * 8, "key words")?;
                    key_column::text_word(stream, bytes, None, (j, words), (&word).into(), rows)?;
                    self.by_words((&word).into(), bytes.valid, options.descending)?;
                }
                bytes.valid
            }
            (KeySource::Values(values), None) => {
                let valid = values.valid.as_ref();
                match order_keys::sort_words(stream, values, rows)? {
                    Some(keys) => {
                        self.by_words(memory(&keys)?.into(), valid, options.descending)?
                    }
                    None => {
                        let tuples = ranks::wide_tuples(stream, values, rows)?;
                        for j in (0..tuples.width()).rev() {
                            self.by_words(tuples.word(j)?, valid, options.descending)?;
                        }
                    }
                }
                valid
            }
            (KeySource::Bytes(bytes), None) => bytes.valid,
        };
        match valid {
            Some(valid) => self.by_validity(valid, options.nulls_first),
            None => Ok(()),
        }
    }

    /// Sorts by a word of each row. NULLs stay in their order.
    fn by_words(
        &mut self,
        words: Part<'_>,
        valid: Option<&Memory>,
        descending: bool,
    ) -> Result<()> {
        self.pass(words, valid, if descending { u64::MAX } else { 0 })
    }

    /// Sorts by whether a value is NULL.
    fn by_validity(&mut self, valid: &Memory, nulls_first: bool) -> Result<()> {
        let words = self.stream.alloc(self.rows * 8, "key words")?;
        let args = (valid.into(), (&words).into(), (self.rows as u32).into());
        // SAFETY: `valid` holds a bit for each row, and `words` a word.
        unsafe {
            let shape = Shape::rows(self.rows);
            self.stream.launch(kernels::KEYS_BOOL, shape, &args)?
        };
        self.pass((&words).into(), None, u64::from(!nulls_first))
    }

    /// A stable sort of the rows by `words`, XORed with `flip`.
    fn pass(&mut self, words: Part<'_>, valid: Option<&Memory>, flip: u64) -> Result<()> {
        let (stream, rows) = (self.stream, self.rows);
        let made = match (&self.order, valid, flip) {
            (None, None, 0) => None,
            (order, ..) => {
                let made = stream.alloc(rows * 8, "key words")?;
                let args = (
                    words.into(),
                    valid.into(),
                    order.as_ref().into(),
                    flip.into(),
                    (&made).into(),
                    (rows as u32).into(),
                );
                // SAFETY: there are `rows` words, as many bits in `valid`, and in `order` as many row ids below `rows`;
                // `made` holds a word for each.
                unsafe { stream.launch(kernels::KEYS_ORDERED, Shape::rows(rows), &args)? };
                Some(made)
            }
        };
        let unsorted = made.as_ref().map_or(words, Part::from);
        let varying = stream.zeroed(8, "sort scratch")?;
        sort::add_varying_bits(stream, unsorted, rows, varying.part(0)?)?;
        let varying = stream.read_word(&varying, 0)?;
        let sorted = sort::sort_pairs(stream, WIDE, unsorted, self.order.as_ref(), rows, varying)?;
        if let Some((_, order)) = sorted {
            self.order = Some(order);
        }
        Ok(())
    }
}
