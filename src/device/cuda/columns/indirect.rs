//! [`Indirect`]: columns whose rows are words of fixed width that refer to something else: dictionary keys to values,
//! views to the bytes of long values. The words are resident on the GPU, where they are gathered like other values. The
//! values and bytes stay on the host and are shared by all columns that refer to them.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, GenericByteViewArray, make_array};
use arrow::buffer::{Buffer as Bytes, NullBuffer, ScalarBuffer};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use parking_lot::Mutex;

use crate::device::cuda::columns::bytes;
use crate::device::cuda::columns::cast_on_upload;
use crate::device::cuda::columns::downloaded;
use crate::device::cuda::columns::fixed_width::{self, Values};
use crate::device::cuda::columns::layout::MOST_BYTES;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::var_width::{self, TASK_ROWS, Text, at_once, offsets_of};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::host::columns::values::concat_arrays;
use crate::error::{BowtieError, Result};

/// A dictionary or view column: words in device memory, values or bytes on the host.
#[derive(Debug)]
pub(crate) struct Indirect {
    data_type: DataType,
    /// Dictionary keys, or views of 16 bytes.
    pub(crate) words: Values,
    pub(crate) to: IndirectData,
    /// The renumbering of the views' buffers that is due after the upload.
    numbering: Mutex<Option<Numbering>>,
}

impl Indirect {
    /// Whether a word that is not NULL may stand for a NULL: for one among a dictionary's values.
    pub(crate) fn may_lead_to_null(&self) -> bool {
        match &self.to {
            IndirectData::Values(values) => values.is_nullable(),
            IndirectData::Buffers(_) => false,
        }
    }
}

/// The target of the words.
#[derive(Debug, Clone)]
pub(crate) enum IndirectData {
    /// A dictionary's values.
    Values(ArrayRef),
    /// The buffers of views.
    Buffers(Arc<[Bytes]>),
}

/// Renumbers the buffers in the views of several arrays: each view names a buffer of its own array, and must name one
/// of all arrays' buffers.
#[derive(Debug)]
struct Numbering {
    /// For each array its first row; then for each array the number of buffers of the arrays before.
    table: Memory,
    parts: usize,
    rows: usize,
}

impl Indirect {
    /// Makes kernels that are launched from now on wait for the upload, and renumbers the views' buffers.
    pub(crate) fn receive(&self) -> Result<()> {
        self.words.receive()?;
        let Some(Numbering { table, parts, rows }) = self.numbering.lock().take() else {
            return Ok(());
        };
        table.receive()?;
        let views = &self.words.values;
        let args = (
            views.into(),
            table.part(0)?.into(),
            table.part(parts * 4)?.into(),
            (parts as u32).into(),
            (rows as u32).into(),
        );
        // SAFETY: there are `rows` views, and two words in the table for each part, of which the first begins at row 0.
        unsafe {
            views
                .stream
                .launch(kernels::TEXT_NUMBER_BUFFERS, Shape::each(rows), &args)
        }
    }
}

impl Indirect {
    pub(crate) fn is_view(&self) -> bool {
        matches!(self.to, IndirectData::Buffers(_))
    }

    /// Words that refer to the same kind of target as those of `like`: the type is that of `like`.
    pub(crate) fn new(like: &Self, words: Values, to: IndirectData) -> Self {
        Self {
            data_type: like.data_type.clone(),
            words,
            to,
            numbering: Mutex::default(),
        }
    }

    /// The first of `parts` and its target, if all parts have the same target.
    pub(crate) fn same<'a>(parts: &[&'a Self]) -> Option<(&'a Self, IndirectData)> {
        let (first, others) = parts.split_first()?;
        let same = others.iter().all(|part| match (&first.to, &part.to) {
            (IndirectData::Values(a), IndirectData::Values(b)) => Arc::ptr_eq(a, b),
            (IndirectData::Buffers(a), IndirectData::Buffers(b)) => Arc::ptr_eq(a, b),
            _ => false,
        });
        same.then(|| (*first, first.to.clone()))
    }
}

/// Whether a column's rows are views.
pub(crate) fn is_view(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// Views are stored on the GPU as values of this type.
const VIEW: DataType = DataType::FixedSizeBinary(VIEW_BYTES as i32);
const VIEW_BYTES: usize = 16;

/// The views of an array, and the buffers that they refer to.
fn views(array: &ArrayRef) -> (&ScalarBuffer<u128>, &[Bytes]) {
    fn of<T: ByteViewType>(array: &GenericByteViewArray<T>) -> (&ScalarBuffer<u128>, &[Bytes]) {
        (array.views(), array.data_buffers())
    }
    match array.data_type() {
        DataType::Utf8View => of(array.as_string_view()),
        _ => of(array.as_binary_view()),
    }
}

/// Checks in debug builds that keys are those of values, and views those of bytes in their buffers: kernels take them for addresses.
fn debug_assert_valid(array: &ArrayRef) {
    if cfg!(debug_assertions)
        && let Err(error) = array.to_data().validate_values()
    {
        panic!(
            "an array of the type {} is not valid: {error}",
            array.data_type()
        );
    }
}

/// Bytes of a view's value.
fn length(view: u128) -> usize {
    view as u32 as usize
}

/// The first bytes of the values of views, at most `most` of each; NULLs are empty.
struct ValuePrefixes<'a> {
    views: &'a [u128],
    buffers: &'a [Bytes],
    nulls: Option<&'a NullBuffer>,
    most: usize,
    /// Bytes of all values together.
    bytes: usize,
}

impl<'a> ValuePrefixes<'a> {
    fn of(array: &'a ArrayRef, most: usize) -> Self {
        let (views, buffers) = views(array);
        let mut values = Self {
            views,
            buffers,
            nulls: array.nulls(),
            most,
            bytes: 0,
        };
        values.bytes = values.lengths().sum();
        values
    }

    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.views.iter().enumerate().map(|(i, view)| {
            match self.nulls.is_none_or(|nulls| nulls.is_valid(i)) {
                true => length(*view).min(self.most),
                false => 0,
            }
        })
    }

    fn write_ends(&self, ends: &mut [u32], base: usize) {
        let mut at = base;
        for (end, length) in ends.iter_mut().zip(self.lengths()) {
            at += length;
            *end = at as u32;
        }
    }

    fn write(&self, mut to: &mut [u8]) {
        for (view, wanted) in self.views.iter().zip(self.lengths()) {
            let (value, rest) = to.split_at_mut(wanted);
            match length(*view) {
                _ if wanted == 0 => {}
                ..=INLINE => value.copy_from_slice(&view.to_le_bytes()[4..4 + wanted]),
                _ => {
                    let buffer = &self.buffers[(view >> 64) as u32 as usize];
                    let from = (view >> 96) as usize;
                    value.copy_from_slice(&buffer[from..from + wanted]);
                }
            }
            to = rest;
        }
    }
}

/// The most bytes of a value that a view holds inline.
pub(crate) const INLINE: usize = 12;

/// Uploads the values of views asynchronously, at most `most` bytes of each.
pub(crate) fn send_views(stream: &Arc<Stream>, parts: &[ArrayRef], most: usize) -> Result<Text> {
    let cut = parts.iter().flat_map(|part| {
        let rows = part.len();
        (0..rows)
            .step_by(TASK_ROWS)
            .map(move |from| part.slice(from, TASK_ROWS.min(rows - from)))
    });
    let cut: Vec<ArrayRef> = cut.collect();
    let values: Vec<ValuePrefixes<'_>> = cut
        .iter()
        .map(|part| ValuePrefixes::of(part, most))
        .collect();
    let length: usize = values.iter().map(|part| part.bytes).sum();
    if length > MOST_BYTES {
        return Err(BowtieError::MustSplit {
            what: "column of text on a GPU",
            size: length as u64,
            most: MOST_BYTES as u64,
            unit: "bytes",
        });
    }
    let offsets = offsets_of(
        &values,
        |part| (part.views.len(), part.bytes),
        |part, ends, base| part.write_ends(ends, base),
    );
    let mut bytes = vec![0; length];
    let mut tasks = Vec::with_capacity(values.len());
    let mut rest = bytes.as_mut_slice();
    for part in &values {
        let (of_part, behind) = rest.split_at_mut(part.bytes);
        tasks.push((part, of_part));
        rest = behind;
    }
    at_once(tasks, |(part, to)| part.write(to));
    let rows = offsets.len() - 1;
    var_width::send_text(
        stream,
        parts[0].data_type(),
        offsets,
        &[&bytes],
        parts,
        rows,
    )
}

/// Uploads `parts` asynchronously as one column; `None` for a type that is neither a dictionary nor a view.
pub(crate) fn upload_indirect(
    stream: &Arc<Stream>,
    parts: &[ArrayRef],
    rows: usize,
) -> Result<Option<Indirect>> {
    match parts[0].data_type() {
        DataType::Dictionary(..) => upload_dictionary(stream, parts, rows).map(Some),
        other if is_view(other) => upload_views(stream, parts, rows).map(Some),
        _ => Ok(None),
    }
}

fn upload_dictionary(stream: &Arc<Stream>, parts: &[ArrayRef], rows: usize) -> Result<Indirect> {
    // One dictionary for all parts.
    let array = concat_arrays(parts)?;
    debug_assert_valid(&array);
    let dictionary = array.as_any_dictionary();
    let keys = make_array(dictionary.keys().to_data());
    let key_type = keys.data_type().clone();
    let mut words = fixed_width::upload_values(stream, &[keys], rows, &key_type)?;
    let to = IndirectData::Values(Arc::clone(dictionary.values()));
    words.original = Some(vec![Arc::clone(&array)]);
    Ok(Indirect {
        data_type: array.data_type().clone(),
        words,
        to,
        numbering: Mutex::default(),
    })
}

fn upload_views(stream: &Arc<Stream>, parts: &[ArrayRef], rows: usize) -> Result<Indirect> {
    parts.iter().for_each(debug_assert_valid);
    let all: Vec<_> = parts.iter().map(views).collect();
    let bytes: Vec<&[u8]> = all
        .iter()
        // A buffer may be longer than its views.
        .map(|(views, _)| &views.inner().as_slice()[..views.len() * VIEW_BYTES])
        .collect();
    let mut buffers: Vec<Bytes> = vec![];
    let (mut firsts, mut before) = (vec![], vec![]);
    let mut first = 0;
    for (views, of_part) in &all {
        firsts.push(first);
        before.push(buffers.len() as u32);
        first += views.len() as u32;
        buffers.extend(of_part.iter().cloned());
    }
    let moved = all
        .iter()
        .zip(&before)
        .any(|((_, of_part), before)| *before > 0 && !of_part.is_empty());
    let numbering = match moved {
        true => {
            firsts.extend(before);
            let table = Bytes::from_vec(firsts);
            Some(Numbering {
                table: stream.send_async(&[table.as_slice()], "columns")?,
                parts: parts.len(),
                rows,
            })
        }
        false => None,
    };
    let words = Values {
        data_type: VIEW,
        // For text of up to four bytes only the first eight bytes are transferred: the length and the text.
        values: cast_on_upload::send_values(stream, &bytes, rows, VIEW_BYTES)?,
        valid: bytes::send_validity(stream, parts, rows)?,
        original: Some(parts.to_vec()),
        made: None,
    };
    Ok(Indirect {
        data_type: parts[0].data_type().clone(),
        words,
        to: IndirectData::Buffers(buffers.into()),
        numbering: Mutex::new(numbering),
    })
}

/// Gathers the words; the target is shared.
pub(crate) fn gather_indirect(
    stream: &Arc<Stream>,
    column: &Indirect,
    rows: &Buffer<u32>,
) -> Result<Indirect> {
    let words = rows::gather(stream, &column.words, rows)
        .map(Column::into_cuda)?
        .ok_or_else(|| BowtieError::Internal("gathered words on the host".into()))?;
    Ok(Indirect {
        data_type: column.data_type.clone(),
        words,
        to: column.to.clone(),
        numbering: Mutex::default(),
    })
}

/// Downloads the words, and makes an array with the target. It shares the dictionary or the buffers.
pub(crate) fn download_indirect(column: &Indirect, rows: usize) -> Result<ArrayRef> {
    let Values { valid, made, .. } = &column.words;
    let words = fixed_width::download_words(&column.words, rows)?;
    let nulls = bytes::download_nulls(valid.as_ref(), rows, made.as_ref())?;
    Ok(match &column.to {
        IndirectData::Values(values) => {
            let data = ArrayData::builder(column.data_type.clone())
                .len(rows)
                .add_buffer(words)
                .nulls(nulls)
                .add_child_data(values.to_data());
            // SAFETY: each key is one of an array with the same values.
            unsafe { downloaded::array(data) }?
        }
        IndirectData::Buffers(buffers) => {
            let views = ScalarBuffer::new(words, 0, rows);
            let buffers = Arc::clone(buffers);
            // SAFETY: each view is one of an array of this type, whose buffers have the numbers that the view
            // names.
            unsafe {
                match column.data_type {
                    DataType::Utf8View => {
                        downloaded::view_array::<StringViewType>(views, buffers, nulls)?
                    }
                    _ => downloaded::view_array::<BinaryViewType>(views, buffers, nulls)?,
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewBuilder;

    use super::*;

    #[test]
    fn beginnings_of_views() {
        let mut builder = StringViewBuilder::new().with_fixed_block_size(64);
        let values: Vec<Option<String>> = (0..200)
            .map(|i| (i % 6 != 0).then(|| format!("{i}").repeat(i % 13)))
            .collect();
        for value in &values {
            builder.append_option(value.as_ref());
        }
        let array: ArrayRef = Arc::new(builder.finish());
        assert!(views(&array).1.len() > 2);
        for most in [0, 1, 12, 13, 100] {
            let array = array.slice(3, 190);
            let part = ValuePrefixes::of(&array, most);
            let size = |part: &ValuePrefixes<'_>| (part.views.len(), part.bytes);
            let parts = [part];
            let ends = offsets_of(&parts, size, |part, ends, base| part.write_ends(ends, base));
            let mut bytes = vec![0; parts[0].bytes];
            parts[0].write(&mut bytes);
            for (value, ends) in values[3..193].iter().zip(ends.windows(2)) {
                let value = value.as_deref().unwrap_or_default().as_bytes();
                let found = &bytes[ends[0] as usize..ends[1] as usize];
                assert_eq!(found, &value[..value.len().min(most)]);
            }
        }
    }
}
