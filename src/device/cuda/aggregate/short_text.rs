//! Short text keys as integers that are equal where the text is, and in the same order
//! (`kernels/aggregate/group_text.cu`). Such keys take the paths of integers: direct address, or packing into one word
//! with other keys.
//!
//! ```text
//! offsets and bytes ──┬─► longest value ─► at most 7 bytes? ─► integers of 32 or 64 bits, NULL for NULL
//! views ──────────────┤
//! dictionary's values ┘                                        of a dictionary: gathered by its keys
//! ```
//!
//! These integers never leave their chunk: groups of several chunks are merged as text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::indirect::{Indirect, IndirectData};
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::transfer;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::key_column::{self, KeyBytes};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::{BowtieError, Result};

/// The most bytes of a value that an integer of 64 bits represents.
const MOST_BYTES: usize = 7;

/// The most bytes of a value that an integer of 32 bits represents.
const FEW_BYTES: usize = 3;

/// Whether all values of a dictionary are text of at most `MOST_BYTES` bytes, those of NULLs included.
fn has_digits(values: &ArrayRef) -> bool {
    let mut lengths: Box<dyn Iterator<Item = usize>> = match values.data_type() {
        DataType::Utf8 => Box::new(values.as_string::<i32>().offsets().lengths()),
        DataType::LargeUtf8 => Box::new(values.as_string::<i64>().offsets().lengths()),
        DataType::Binary => Box::new(values.as_binary::<i32>().offsets().lengths()),
        DataType::LargeBinary => Box::new(values.as_binary::<i64>().offsets().lengths()),
        // The lowest 32 bits of a view are its length.
        DataType::Utf8View => {
            let views = values.as_string_view().views().iter();
            Box::new(views.map(|view| *view as u32 as usize))
        }
        DataType::BinaryView => {
            let views = values.as_binary_view().views().iter();
            Box::new(views.map(|view| *view as u32 as usize))
        }
        _ => return false,
    };
    lengths.all(|length| length <= MOST_BYTES)
}

/// Key columns in the form in which aggregation groups by them.
#[derive(Debug)]
pub(crate) struct TextCodes<'a> {
    /// For each key the column itself, or its integers.
    pub(crate) columns: Vec<&'a Column>,
    /// Whether all columns are the keys themselves.
    pub(crate) are_keys: bool,
}

impl<'a> TextCodes<'a> {
    /// `made`: for each key its integers, if it has them.
    pub(crate) fn of(keys: &[&'a Column], made: &'a [Option<Column>]) -> Self {
        let columns = keys.iter().zip(made);
        Self {
            columns: columns
                .map(|(key, made)| made.as_ref().unwrap_or(key))
                .collect(),
            are_keys: made.iter().all(Option::is_none),
        }
    }
}

/// A text column that may be short.
struct Candidate<'a> {
    text: Text<'a>,
    /// The number of text values: that of the rows, or of a dictionary's values.
    rows: usize,
    /// For a dictionary: its keys.
    keys: Option<&'a Values>,
}

enum Text<'a> {
    /// The column's own text.
    Own(KeyBytes<'a>),
    /// A dictionary's values, uploaded.
    Sent(Column),
}

impl Candidate<'_> {
    fn bytes(&self) -> Result<KeyBytes<'_>> {
        match &self.text {
            Text::Own(bytes) => Some(*bytes),
            Text::Sent(column) => column.stored().and_then(KeyBytes::of_text),
        }
        .ok_or_else(|| BowtieError::Internal("text without bytes".into()))
    }
}

/// For each key column its integers, if it is short text.
pub(crate) fn text_as_integers(
    device: &CudaDevice,
    keys: &[&Column],
    rows: usize,
) -> Result<Vec<Option<Column>>> {
    let candidates = keys
        .iter()
        .map(|key| text_candidate(device, key, rows))
        .collect::<Result<Vec<_>>>()?;
    let texts = candidates.iter().flatten();
    let texts = texts.map(|text| Ok((text.bytes()?, text.rows)));
    let texts = texts.collect::<Result<Vec<_>>>()?;
    let mut longest = key_column::longest_of(&device.stream, texts.into_iter())?.into_iter();
    let numbers = candidates.iter().map(|candidate| {
        let Some(candidate) = candidate else {
            return Ok(None);
        };
        match longest.next() {
            Some(longest) if longest <= MOST_BYTES => {
                numbers_of_text(device, candidate, longest, rows).map(Some)
            }
            _ => Ok(None),
        }
    });
    numbers.collect()
}

fn text_candidate<'a>(
    device: &CudaDevice,
    key: &'a Column,
    rows: usize,
) -> Result<Option<Candidate<'a>>> {
    let Some(stored) = key.stored() else {
        return Ok(None);
    };
    if let Storage::Indirect(Indirect {
        words,
        to: IndirectData::Values(values),
        ..
    }) = stored
    {
        // Longer values are not uploaded: other paths may need none of them.
        if !has_digits(values) {
            return Ok(None);
        }
        let values = transfer::upload(
            &device.stream,
            std::slice::from_ref(values),
            values.data_type(),
        )?;
        device.receive(&values)?;
        let is_here = values.stored().and_then(KeyBytes::of_text).is_some();
        return Ok(is_here.then(|| Candidate {
            rows: values.rows(),
            text: Text::Sent(values),
            keys: Some(words),
        }));
    }
    Ok(KeyBytes::of_text(stored).map(|bytes| Candidate {
        text: Text::Own(bytes),
        rows,
        keys: None,
    }))
}

fn numbers_of_text(
    device: &CudaDevice,
    candidate: &Candidate<'_>,
    longest: usize,
    rows: usize,
) -> Result<Column> {
    let stream = &device.stream;
    let numbers = text_numbers(stream, candidate.bytes()?, longest.max(1), candidate.rows)?;
    let Some(keys) = candidate.keys else {
        return Ok(Column::cuda(numbers, rows));
    };
    let named = key_column::dictionary_rows(stream, keys, rows)?;
    let mut numbers = rows::gather(stream, &numbers, &named)?
        .into_cuda()
        .ok_or_else(|| BowtieError::Internal("gathered numbers on the host".into()))?;
    // Nullable values gave gathered bits, which are not set for NULL keys.
    if numbers.valid.is_none() {
        numbers.valid = own_bits(stream, keys.valid.as_ref(), rows)?;
    }
    Ok(Column::cuda(numbers, rows))
}

/// Text values of at most `digits` bytes as integers.
fn text_numbers(
    stream: &Arc<Stream>,
    values: KeyBytes<'_>,
    digits: usize,
    rows: usize,
) -> Result<Values> {
    let (data_type, bytes) = match digits {
        ..=FEW_BYTES => (DataType::UInt32, 4),
        _ => (DataType::UInt64, 8),
    };
    let numbers = stream.alloc(rows * bytes, "key words")?;
    if values.are_views() {
        let kernel = match bytes {
            4 => kernels::GROUP_TEXT_VIEWS32,
            _ => kernels::GROUP_TEXT_VIEWS64,
        };
        let args = (
            values.bytes.into(),
            values.valid.into(),
            (digits as u32).into(),
            (&numbers).into(),
            (rows as u32).into(),
        );
        // SAFETY: there are `rows` values as views, and a validity bit for each; `numbers` holds an integer of the
        // kernel's width for each.
        unsafe { stream.launch(kernel, Shape::rows(rows), &args)? };
    } else {
        let kernel = match bytes {
            4 => kernels::GROUP_TEXT_NUMBERS32,
            _ => kernels::GROUP_TEXT_NUMBERS64,
        };
        let args = (
            values.offsets().into(),
            values.bytes.into(),
            values.valid.into(),
            (digits as u32).into(),
            (&numbers).into(),
            (rows as u32).into(),
        );
        // SAFETY: as above, with values given by the offsets.
        unsafe { stream.launch(kernel, Shape::rows(rows), &args)? };
    }
    Ok(Values {
        data_type,
        values: numbers,
        valid: own_bits(stream, values.valid, rows)?,
        original: None,
        made: None,
    })
}

/// A copy of a bitmap.
fn own_bits(stream: &Arc<Stream>, bits: Option<&Memory>, rows: usize) -> Result<Option<Memory>> {
    bits.map(|bits| rows::bits_and(stream, bits, bits, rows))
        .transpose()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringArray};
    use arrow::compute::cast;

    use super::*;

    #[test]
    fn dictionaries_of_short_text_have_digits() {
        use DataType::*;
        let array = |longest: &str| -> ArrayRef {
            Arc::new(StringArray::from(vec![Some(""), None, Some(longest)]))
        };
        let (short, long) = (array("1234567"), array("12345678"));
        for data_type in [Utf8, LargeUtf8, Utf8View, Binary, LargeBinary, BinaryView] {
            let [short, long] = [&short, &long].map(|values| cast(values, &data_type).unwrap());
            assert!(has_digits(&short) && !has_digits(&long), "{data_type}");
            // Only the values of the slice count.
            assert!(has_digits(&long.slice(0, 2)), "{data_type}");
            assert!(has_digits(&long.slice(0, 0)), "{data_type}");
        }
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        assert!(!has_digits(&numbers));
    }
}
