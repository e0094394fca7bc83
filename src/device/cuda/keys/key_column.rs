//! [`KeyColumn`]: a key column's values row by row in device memory, as kernels read them.
//!
//! | column | source of the keys |
//! |---|---|
//! | fixed width | its values |
//! | text and binary | its bytes, as words and a length (`kernels/columns/text_words.cuh`), where the base's values are short enough |
//! | views | their bytes: inline in the views; otherwise uploaded, of long values only the bytes that can matter |
//! | dictionaries | the values of the above types, gathered by the keys |
//! | nested, run-end encoded, long text | the host fallback |

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::gather;
use crate::device::cuda::columns::indirect::{self, INLINE, Indirect, IndirectData};
use crate::device::cuda::columns::layout::MOST_BYTES;
use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::transfer;
use crate::device::cuda::columns::var_width;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::tuples::{self, Tuples};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::{BowtieError, Result};

/// The most words of a base's text: a hash in hexadecimal digits fits nine.
const MOST_WORDS: usize = 9;

/// The most bytes of a base's longest value.
const MOST_KEY_BYTES: usize = MOST_WORDS * 8 - 1;

/// A longer probe value compares with the base's values as its first bytes do, of this number.
const ENOUGH_KEY_BYTES: usize = MOST_KEY_BYTES + 1;

/// A key column's values in device memory.
#[derive(Debug)]
pub(crate) enum KeyColumn<'a> {
    Resident(KeySource<'a>),
    /// Materialised for the keys: a dictionary's values row by row, or the bytes of views.
    Computed(Box<Storage>),
}

/// The input of kernels.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeySource<'a> {
    Values(&'a Values),
    Bytes(KeyBytes<'a>),
}

/// Values that compare byte by byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyBytes<'a> {
    spans: Spans<'a>,
    /// The bytes, or for views the views themselves.
    pub(crate) bytes: &'a Memory,
    /// The validity bitmap.
    pub(crate) valid: Option<&'a Memory>,
}

/// Where a value begins and ends.
#[derive(Debug, Clone, Copy)]
enum Spans<'a> {
    /// A begin for each row, and the end.
    Offsets(&'a Memory),
    /// Consecutive values of this width in bytes.
    Width(usize),
    /// In views.
    Views,
}

impl<'a> KeyBytes<'a> {
    /// The bytes of text. For views of long values only the lengths are known.
    pub(crate) fn of_text(stored: &'a Storage) -> Option<Self> {
        match stored {
            Storage::Text(text) => Some(Self {
                spans: Spans::Offsets(&text.offsets),
                bytes: &text.bytes,
                valid: text.valid.as_ref(),
            }),
            Storage::Indirect(Indirect {
                words,
                to: IndirectData::Buffers(_),
                ..
            }) => Some(Self {
                spans: Spans::Views,
                bytes: &words.values,
                valid: words.valid.as_ref(),
            }),
            _ => None,
        }
    }

    /// Whether the values are views.
    pub(crate) fn are_views(&self) -> bool {
        matches!(self.spans, Spans::Views)
    }

    /// The offsets, where the values have them.
    pub(crate) fn offsets(&self) -> Option<&'a Memory> {
        match self.spans {
            Spans::Offsets(offsets) => Some(offsets),
            Spans::Width(_) | Spans::Views => None,
        }
    }
}

impl<'a> KeySource<'a> {
    /// `None` for values that are not in device memory. Views must hold all values inline.
    fn of(stored: &'a Storage) -> Option<Self> {
        match stored {
            Storage::Fixed(values) => Some(Self::Values(values)),
            other => KeyBytes::of_text(other).map(Self::Bytes),
        }
    }

    /// The values' bytes, where the values compare byte by byte.
    pub(crate) fn bytes(self) -> Option<KeyBytes<'a>> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Values(values) => match values.data_type {
                DataType::FixedSizeBinary(_) => Some(KeyBytes {
                    spans: Spans::Width(width(&values.data_type)?),
                    bytes: &values.values,
                    valid: values.valid.as_ref(),
                }),
                _ => None,
            },
        }
    }
}

impl KeyColumn<'_> {
    /// The values to read. An error where the stored column cannot be a key.
    pub(crate) fn source(&self) -> Result<KeySource<'_>> {
        match self {
            Self::Resident(source) => Some(*source),
            Self::Computed(stored) => KeySource::of(stored),
        }
        .ok_or_else(|| BowtieError::Internal("a key column without values".into()))
    }
}

/// Words of values the longest of which has this number of bytes.
pub(crate) fn words_of(longest: usize) -> usize {
    longest / 8 + 1
}

/// The views of a view column; `None` for other columns.
fn views(column: &Column) -> Option<KeyBytes<'_>> {
    KeyBytes::of_text(column.stored()?).filter(KeyBytes::are_views)
}

/// The values of a base's key column, and the words of its bytes (0 where values do not compare byte by byte).
/// `None` where the host fallback makes the keys.
pub(crate) fn base_key<'a>(
    device: &CudaDevice,
    column: &'a Column,
) -> Result<Option<(KeyColumn<'a>, usize)>> {
    let rows = column.rows();
    if let Some(views) = views(column) {
        let longest = longest(&device.stream, views, rows)?;
        return Ok(match longest <= MOST_KEY_BYTES {
            true => Some((
                key_of_views(device, column, views, longest)?,
                words_of(longest),
            )),
            false => None,
        });
    }
    let Some(key) = key_column(device, column)? else {
        return Ok(None);
    };
    let words = match key.source()?.bytes() {
        Some(bytes) => words_of(longest(&device.stream, bytes, rows)?),
        None => 0,
    };
    Ok((words <= MOST_WORDS).then_some((key, words)))
}

/// The values of a key column; `None` where only the host fallback can read it.
pub(crate) fn key_column<'a>(
    device: &CudaDevice,
    column: &'a Column,
) -> Result<Option<KeyColumn<'a>>> {
    let rows = column.rows();
    if let Some(views) = views(column) {
        let longest = longest(&device.stream, views, rows)?;
        return key_of_views(device, column, views, longest).map(Some);
    }
    let stored = match column.stored() {
        Some(stored) => stored,
        // Text that exceeds the GPU's limit: only the beginnings of values are uploaded.
        None if var_width::is_text(column.on_host()?.data_type()) => {
            return beginnings(device, column.on_host()?).map(Some);
        }
        None => return Ok(None),
    };
    Ok(match stored {
        Storage::Indirect(Indirect {
            words,
            to: IndirectData::Values(values),
            ..
        }) => of_dictionary(device, words, values, rows)?,
        stored => KeySource::of(stored).map(KeyColumn::Resident),
    })
}

fn beginnings(device: &CudaDevice, array: &ArrayRef) -> Result<KeyColumn<'static>> {
    let views = match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        _ => DataType::BinaryView,
    };
    of_views(device, &[cast(array, &views)?])
}

/// Views with a longest value of `longest` bytes. They are read in place if they hold all values inline.
fn key_of_views<'a>(
    device: &CudaDevice,
    column: &'a Column,
    views: KeyBytes<'a>,
    longest: usize,
) -> Result<KeyColumn<'a>> {
    if longest <= INLINE {
        return Ok(KeyColumn::Resident(KeySource::Bytes(views)));
    }
    match column.stored().and_then(Storage::original) {
        Some(parts) => of_views(device, parts),
        None => of_views(device, &[transfer::download(column)?]),
    }
}

/// Uploads the bytes of views.
fn of_views(device: &CudaDevice, parts: &[ArrayRef]) -> Result<KeyColumn<'static>> {
    let text = indirect::send_views(&device.stream, parts, ENOUGH_KEY_BYTES)?;
    text.receive()?;
    Ok(KeyColumn::Computed(Box::new(text.into())))
}

/// A dictionary's values row by row.
fn of_dictionary(
    device: &CudaDevice,
    keys: &Values,
    values: &ArrayRef,
    rows: usize,
) -> Result<Option<KeyColumn<'static>>> {
    let values = transfer::upload(
        &device.stream,
        std::slice::from_ref(values),
        values.data_type(),
    )?;
    device.receive(&values)?;
    let made;
    let values = match key_column(device, &values)? {
        Some(KeyColumn::Computed(bytes)) => {
            made = bytes;
            &made
        }
        Some(KeyColumn::Resident(_)) => match values.stored() {
            Some(stored) => stored,
            None => return Ok(None),
        },
        None => return Ok(None),
    };
    let named = dictionary_rows(&device.stream, keys, rows)?;
    let mut plain = gather::gather_stored(device, values, &named)?
        .into_stored()
        .ok_or_else(|| BowtieError::Internal("gathered values on the host".into()))?;
    let valid = match &mut plain {
        Storage::Fixed(plain) => &mut plain.valid,
        Storage::Text(plain) => &mut plain.valid,
        Storage::Indirect(plain) => &mut plain.words.valid,
        Storage::Shingles(_) | Storage::LazyColumn(_) => return Ok(None),
    };
    // Nullable values gave gathered bits, which are not set for NULL keys.
    if let (None, Some(of_keys)) = (&valid, &keys.valid) {
        *valid = Some(rows::bits_and(&device.stream, of_keys, of_keys, rows)?);
    }
    Ok(Some(KeyColumn::Computed(Box::new(plain))))
}

/// The index of each row's value in the dictionary; no row for a NULL.
pub(crate) fn dictionary_rows(
    stream: &Arc<Stream>,
    keys: &Values,
    rows: usize,
) -> Result<Buffer<u32>> {
    let kernel = match width(&keys.data_type) {
        Some(1) => kernels::TEXT_DICTIONARY_ROWS8,
        Some(2) => kernels::TEXT_DICTIONARY_ROWS16,
        Some(4) => kernels::TEXT_DICTIONARY_ROWS32,
        Some(8) => kernels::TEXT_DICTIONARY_ROWS64,
        _ => return Err(BowtieError::Internal(format!("keys of {}", keys.data_type))),
    };
    let out = stream.alloc(rows * 4, "key words")?;
    let args = (
        (&keys.values).into(),
        keys.valid.as_ref().into(),
        (&out).into(),
        (rows as u32).into(),
    );
    // SAFETY: there is a key of the kernel's width, and a bit, for each row; `out` holds a word for each.
    unsafe { stream.launch(kernel, Shape::rows(rows), &args)? };
    Ok(Buffer::cuda(out, rows))
}

/// Bytes of the longest value that is not NULL.
pub(crate) fn longest(stream: &Arc<Stream>, values: KeyBytes<'_>, rows: usize) -> Result<usize> {
    match values.spans {
        Spans::Width(width) => Ok(width),
        _ => Ok(longest_of(stream, [(values, rows)].into_iter())?[0]),
    }
}

/// The largest difference between the offsets of consecutive rows.
pub(crate) fn longest_between(
    stream: &Arc<Stream>,
    offsets: &Memory,
    rows: usize,
) -> Result<usize> {
    let values = KeyBytes {
        spans: Spans::Offsets(offsets),
        bytes: offsets,
        valid: None,
    };
    longest(stream, values, rows)
}

/// The longest values of several columns of text, each with its number of rows.
pub(crate) fn longest_of<'a>(
    stream: &Arc<Stream>,
    texts: impl ExactSizeIterator<Item = (KeyBytes<'a>, usize)>,
) -> Result<Vec<usize>> {
    const BYTES: usize = 4;
    let mut bytes = vec![0; texts.len() * BYTES];
    if bytes.is_empty() {
        return Ok(vec![]);
    }
    let longest = stream.zeroed(bytes.len(), "key words")?;
    for (i, (values, rows)) in texts.enumerate() {
        let (kernel, spans) = match values.spans {
            Spans::Offsets(offsets) => (kernels::TEXT_LONGEST, offsets),
            Spans::Views => (kernels::TEXT_LONGEST_VIEWS, values.bytes),
            Spans::Width(_) => {
                return Err(BowtieError::Internal(
                    "a length of fixed-width values".into(),
                ));
            }
        };
        let args = (
            spans.into(),
            values.valid.into(),
            longest.part(i * BYTES)?.into(),
            (rows as u32).into(),
        );
        // SAFETY: there are `rows` views, or one more offset, and as many bits; `longest` holds a word for each
        // column.
        unsafe { stream.launch(kernel, stream.strips(rows.div_ceil(4)), &args)? };
    }
    stream.read_few(&mut bytes, &longest, 0)?;
    let words = bytes.chunks_exact(BYTES);
    Ok(words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()) as usize)
        .collect())
}

/// Writes word `j` of `words` of each value to `out`.
pub(crate) fn text_word(
    stream: &Stream,
    values: KeyBytes<'_>,
    valid: Option<&Memory>,
    (j, words): (usize, usize),
    out: Part<'_>,
    rows: usize,
) -> Result<()> {
    let width = match values.spans {
        Spans::Width(width) => width,
        Spans::Offsets(_) | Spans::Views => 0,
    };
    if width * rows > MOST_BYTES {
        return Err(BowtieError::MustSplit {
            what: "key column on a GPU",
            size: (width * rows) as u64,
            most: MOST_BYTES as u64,
            unit: "bytes",
        });
    }
    if values.are_views() {
        let args = (
            values.bytes.into(),
            valid.into(),
            (j as u32).into(),
            (words as u32).into(),
            out.into(),
            (rows as u32).into(),
        );
        // SAFETY: there are `rows` views, and a bit for each; `out` holds a word for each.
        return unsafe { stream.launch(kernels::TEXT_WORDS_VIEWS, Shape::rows(rows), &args) };
    }
    let args = (
        values.offsets().into(),
        (width as u32).into(),
        values.bytes.into(),
        valid.into(),
        (j as u32).into(),
        (words as u32).into(),
        out.into(),
        (rows as u32).into(),
    );
    // SAFETY: there are `rows` values, given by the offsets or the width, in fewer than 2^31 bytes, and a bit for
    // each; `out` holds a word for each.
    unsafe { stream.launch(kernels::TEXT_WORDS, Shape::rows(rows), &args) }
}

/// Values as tuples of `words` words that compare in the values' order.
pub(crate) fn text_tuples(
    stream: &Arc<Stream>,
    values: KeyBytes<'_>,
    words: usize,
    rows: usize,
) -> Result<Tuples> {
    let tuples = tuples::allocate_tuples(stream, rows, words)?;
    for j in 0..words {
        text_word(
            stream,
            values,
            values.valid,
            (j, words),
            tuples.word(j)?,
            rows,
        )?;
    }
    Ok(tuples)
}
