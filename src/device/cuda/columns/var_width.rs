//! [`Text`]: text and binary columns with offsets on a GPU (`kernels/columns/text.cu`).
//!
//! ```text
//! gather: rows ─► begin and length of each value ─► scan ─► is the total below 2 GiB? ─► bytes
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::buffer::Buffer as Bytes;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use rayon::prelude::*;

use crate::device::cuda::columns::bytes;
use crate::device::cuda::columns::downloaded;
use crate::device::cuda::columns::layout::MOST_BYTES;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U64};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::event::Event;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::threads;
use crate::error::{BowtieError, Result};

/// A chunk of at most this number of rows is not halved any more.
const FEW_ROWS: usize = 64;

/// Values of variable width: of a type with offsets, or views that a store keeps.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) data_type: DataType,
    /// The offset in `bytes` at which each value begins, and at the end the offset at which the last value ends.
    pub(crate) offsets: Memory,
    /// The bytes of all values, consecutive.
    pub(crate) bytes: Memory,
    /// Bytes of all values together.
    pub(crate) length: usize,
    /// A bitmap of the rows that are not NULL; `None` when no row is NULL.
    pub(crate) valid: Option<Memory>,
    /// The host arrays that the column was uploaded from.
    pub(crate) original: Option<Vec<ArrayRef>>,
    /// Recorded when kernels had written the values. Without an event, wait for all work of the stream.
    pub(crate) made: Option<Event>,
}

impl Text {
    /// Bytes of device memory.
    pub(crate) fn bytes(&self) -> u64 {
        let valid = self.valid.as_ref().map_or(0, Memory::bytes);
        (self.offsets.bytes() + self.bytes.bytes() + valid) as u64
    }

    /// Makes kernels that are launched from now on wait for the upload.
    pub(crate) fn receive(&self) -> Result<()> {
        self.offsets.receive()?;
        self.bytes.receive()?;
        self.valid.as_ref().map_or(Ok(()), Memory::receive)
    }
}

/// Whether columns of a type have offsets and bytes.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Binary | LargeBinary)
}

/// Rows whose offsets one task writes.
pub(crate) const TASK_ROWS: usize = 1 << 16;

/// Some values: offsets into the bytes of an array.
struct Part<'a> {
    offsets: Offsets<'a>,
    bytes: &'a [u8],
}

/// The offset at which each value begins, and at the end the offset at which the last value ends.
#[derive(Clone, Copy)]
enum Offsets<'a> {
    Of32(&'a [i32]),
    Of64(&'a [i64]),
}

impl<'a> Part<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self> {
        let (offsets, bytes) = match array.data_type() {
            DataType::Utf8 => {
                let text = array.as_string::<i32>();
                (Offsets::Of32(text.offsets()), text.values())
            }
            DataType::LargeUtf8 => {
                let text = array.as_string::<i64>();
                (Offsets::Of64(text.offsets()), text.values())
            }
            DataType::Binary => {
                let binary = array.as_binary::<i32>();
                (Offsets::Of32(binary.offsets()), binary.values())
            }
            DataType::LargeBinary => {
                let binary = array.as_binary::<i64>();
                (Offsets::Of64(binary.offsets()), binary.values())
            }
            other => return Err(BowtieError::Internal(format!("{other} is no text"))),
        };
        let bytes = bytes.as_slice();
        Ok(Self { offsets, bytes })
    }

    fn rows(&self) -> usize {
        match self.offsets {
            Offsets::Of32(offsets) => offsets.len() - 1,
            Offsets::Of64(offsets) => offsets.len() - 1,
        }
    }

    /// The same values in parts of at most `TASK_ROWS` rows each.
    fn tasks(&self) -> impl Iterator<Item = Part<'a>> {
        let (offsets, bytes, rows) = (self.offsets, self.bytes, self.rows());
        (0..rows).step_by(TASK_ROWS).map(move |from| Part {
            offsets: offsets.of_rows(from, (from + TASK_ROWS).min(rows)),
            bytes,
        })
    }

    /// The bytes of its values only.
    fn used(&self) -> &'a [u8] {
        let (first, end) = match self.offsets {
            Offsets::Of32(offsets) => limits(offsets),
            Offsets::Of64(offsets) => limits(offsets),
        };
        &self.bytes[first..end]
    }

    /// Writes the ends of its values, where the first value begins at `base`.
    fn write_ends(&self, ends: &mut [u32], base: usize) {
        match self.offsets {
            Offsets::Of32(offsets) => write_ends(offsets, ends, base),
            Offsets::Of64(offsets) => write_ends(offsets, ends, base),
        }
    }
}

impl Offsets<'_> {
    fn of_rows(self, from: usize, end: usize) -> Self {
        match self {
            Self::Of32(offsets) => Self::Of32(&offsets[from..=end]),
            Self::Of64(offsets) => Self::Of64(&offsets[from..=end]),
        }
    }
}

fn limits<O: OffsetSizeTrait>(offsets: &[O]) -> (usize, usize) {
    let at = |offset: Option<&O>| offset.map_or(0, |offset| offset.as_usize());
    (at(offsets.first()), at(offsets.last()))
}

fn write_ends<O: OffsetSizeTrait>(offsets: &[O], ends: &mut [u32], base: usize) {
    // A kernel would take others for addresses.
    debug_assert!(offsets.is_sorted(), "offsets of an array decrease");
    let (first, _) = limits(offsets);
    for (end, offset) in ends.iter_mut().zip(&offsets[1..]) {
        *end = (base + offset.as_usize() - first) as u32;
    }
}

/// Calls `each` for all tasks, in parallel unless this thread is a rayon worker: a waiting worker might steal other
/// work.
pub(crate) fn at_once<T: Send>(tasks: Vec<T>, each: impl Fn(T) + Sync + Send) {
    let is_worker = rayon::current_thread_index().is_some();
    match threads::pool() {
        Ok(pool) if tasks.len() > 1 && !is_worker => {
            pool.install(|| tasks.into_par_iter().for_each(each));
        }
        _ => tasks.into_iter().for_each(each),
    }
}

/// Offsets of the values of all parts. `size` returns the rows and bytes of a part, and `write` writes the ends of its
/// values.
pub(crate) fn offsets_of<P: Sync>(
    parts: &[P],
    size: impl Fn(&P) -> (usize, usize),
    write: impl Fn(&P, &mut [u32], usize) + Sync + Send,
) -> Vec<u32> {
    let rows: usize = parts.iter().map(|part| size(part).0).sum();
    let mut offsets = vec![0; rows + 1];
    let mut tasks = Vec::with_capacity(parts.len());
    let (mut rest, mut base) = (&mut offsets[1..], 0);
    for part in parts {
        let (rows, bytes) = size(part);
        let (ends, behind) = rest.split_at_mut(rows);
        tasks.push((part, ends, base));
        rest = behind;
        base += bytes;
    }
    at_once(tasks, |(part, ends, base)| write(part, ends, base));
    offsets
}

/// Uploads `parts` asynchronously as one column; `None` where the column must stay on the host: it has too many
/// bytes, and too few rows for the chunk to be halved.
pub(crate) fn upload_text(
    stream: &Arc<Stream>,
    parts: &[ArrayRef],
    rows: usize,
) -> Result<Option<Text>> {
    let sources: Vec<Part<'_>> = parts.iter().map(Part::of).collect::<Result<_>>()?;
    let bytes: Vec<&[u8]> = sources.iter().map(Part::used).collect();
    let length: usize = bytes.iter().map(|bytes| bytes.len()).sum();
    if length > MOST_BYTES {
        return match rows > FEW_ROWS {
            true => Err(BowtieError::MustSplit {
                what: "column of text on a GPU",
                size: length as u64,
                most: MOST_BYTES as u64,
                unit: "bytes",
            }),
            false => Ok(None),
        };
    }
    let tasks: Vec<Part<'_>> = sources.iter().flat_map(Part::tasks).collect();
    let offsets = offsets_of(
        &tasks,
        |part| (part.rows(), part.used().len()),
        Part::write_ends,
    );
    send_text(stream, parts[0].data_type(), offsets, &bytes, parts, rows).map(Some)
}

/// Uploads the values in `bytes`, one after the other, asynchronously. Rows are NULL where those of `parts` are.
pub(crate) fn send_text(
    stream: &Arc<Stream>,
    data_type: &DataType,
    offsets: Vec<u32>,
    bytes: &[&[u8]],
    parts: &[ArrayRef],
    rows: usize,
) -> Result<Text> {
    let offsets = Bytes::from_vec(offsets);
    Ok(Text {
        data_type: data_type.clone(),
        offsets: stream.send_async(&[offsets.as_slice()], "columns")?,
        bytes: stream.send_async(bytes, "columns")?,
        length: bytes.iter().map(|bytes| bytes.len()).sum(),
        valid: bytes::send_validity(stream, parts, rows)?,
        original: Some(parts.to_vec()),
        made: None,
    })
}

/// `text[rows[i]]`; empty for no row.
pub(crate) fn gather_text(stream: &Arc<Stream>, text: &Text, rows: &Buffer<u32>) -> Result<Text> {
    let ids = memory(rows)?;
    let n = rows.len();
    let starts = stream.alloc(n * 4, "output columns")?;
    let lengths = stream.alloc(n * 4, "output columns")?;
    let args = (
        (&text.offsets).into(),
        text.valid.as_ref().into(),
        ids.into(),
        (&starts).into(),
        (&lengths).into(),
        (n as u32).into(),
    );
    // SAFETY: row ids are below the rows of `offsets` and `valid`, or no row; both outputs hold n words. For a
    // column without rows two offsets are read, for which every allocation has memory.
    unsafe { stream.launch(kernels::TEXT_SPANS, Shape::rows(n), &args)? };
    let (offsets, bytes, length) = text_at(stream, text, &starts, lengths, n)?;
    Ok(Text {
        data_type: text.data_type.clone(),
        offsets,
        bytes,
        length,
        valid: match &text.valid {
            Some(valid) => Some(rows::gather_bits(stream, valid, ids, n)?),
            None => None,
        },
        original: None,
        made: Some(stream.mark()?),
    })
}

/// Concatenates `n` values of `text`, given by their starts and lengths. Returns the offsets, the bytes, and the
/// number of bytes.
pub(crate) fn text_at(
    stream: &Arc<Stream>,
    text: &Text,
    starts: &Memory,
    lengths: Memory,
    n: usize,
) -> Result<(Memory, Memory, usize)> {
    let wide = match n {
        0 => stream.zeroed(8, "output columns")?,
        n => scan::scan(stream, EXCLUSIVE_U64, &lengths, n, "output columns")?,
    };
    drop(lengths);
    let length = stream.read_word(&wide, n)?;
    if length > MOST_BYTES as u64 {
        return Err(BowtieError::MustSplit {
            what: "column of an output batch",
            size: length,
            most: MOST_BYTES as u64,
            unit: "bytes",
        });
    }
    let length = length as usize;
    let offsets = stream.alloc((n + 1) * 4, "output columns")?;
    let args = ((&wide).into(), (&offsets).into(), (n as u32 + 1).into());
    // SAFETY: both hold n + 1 offsets.
    unsafe { stream.launch(kernels::TEXT_OFFSETS, Shape::rows(n + 1), &args)? };
    drop(wide);
    let bytes = stream.alloc(length, "output columns")?;
    let args = (
        (&text.bytes).into(),
        starts.into(),
        (&offsets).into(),
        (n as u32).into(),
        (&bytes).into(),
    );
    let shape = Shape::blocks_of(n + length.div_ceil(16), 2048, 256);
    // SAFETY: each value is in `text.bytes` from its start on, with the length given by the offsets; `bytes` has
    // memory for all of them in words of 16 bytes, as allocations have whole ones.
    unsafe { stream.launch(kernels::TEXT_GATHER, shape, &args)? };
    Ok((offsets, bytes, length))
}

/// Downloads the column. Offsets become 64 bits wide where the type has such.
pub(crate) fn download_text(text: &Text, rows: usize) -> Result<ArrayRef> {
    let made = text.made.as_ref();
    let offsets = bytes::download_bytes(&text.offsets, (rows + 1) * 4, made)?;
    let offsets = match text.data_type {
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let offsets: &[u32] = offsets.typed_data();
            Bytes::from_vec(offsets.iter().map(|offset| i64::from(*offset)).collect())
        }
        _ => offsets,
    };
    let stored_type = match &text.data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    };
    let data = ArrayData::builder(stored_type)
        .len(rows)
        .add_buffer(offsets)
        .add_buffer(bytes::download_bytes(&text.bytes, text.length, made)?)
        .nulls(bytes::download_nulls(text.valid.as_ref(), rows, made)?);
    // SAFETY: offsets ascend from 0 to `length`, and each value is one of an array of this type, or empty.
    let array = unsafe { downloaded::array(data) }?;
    match array.data_type() == &text.data_type {
        true => Ok(array),
        // Views of the same bytes.
        false => Ok(cast(&array, &text.data_type)?),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{LargeBinaryArray, StringArray};

    use super::*;

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "offsets of an array decrease")]
    fn offsets_that_decrease_are_found() {
        write_ends(&[0_i32, 7, 3, 9], &mut [0; 3], 0);
    }

    #[test]
    fn parts_lie_one_after_the_other() {
        let rows = 2 * TASK_ROWS + 9;
        let value = |i: usize| "é\0".repeat(i % 7);
        let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(value)));
        let binary: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values((0..rows).map(value)));
        for array in [text, binary] {
            let cuts = [5, 5, 6, TASK_ROWS + 40, rows - 3];
            let parts: Vec<ArrayRef> = cuts
                .windows(2)
                .map(|cut| array.slice(cut[0], cut[1] - cut[0]))
                .collect();
            let sources: Vec<Part<'_>> = parts.iter().map(|part| Part::of(part).unwrap()).collect();
            let bytes: Vec<u8> = sources
                .iter()
                .flat_map(|part| part.used())
                .copied()
                .collect();
            let tasks: Vec<Part<'_>> = sources.iter().flat_map(Part::tasks).collect();
            let size = |part: &Part<'_>| (part.rows(), part.used().len());
            let offsets = offsets_of(&tasks, size, Part::write_ends);
            assert_eq!(offsets.len(), rows - 7);
            for (i, ends) in offsets.windows(2).enumerate() {
                let found = &bytes[ends[0] as usize..ends[1] as usize];
                assert_eq!(found, value(i + 5).as_bytes(), "row {i}");
            }
            assert_eq!(offsets.last(), Some(&(bytes.len() as u32)));
        }
    }
}
