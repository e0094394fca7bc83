//! Concatenates columns of several chunks (`kernels/columns/rows_bits.cuh`, `kernels/columns/text.cu`). Values, views
//! and bytes are copied, bitmaps are shifted, and each part's offsets continue those of the part before. Bound: each
//! byte read and written once.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::indirect::{Indirect, IndirectData};
use crate::device::cuda::columns::layout::MOST_BYTES;
use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::columns::shingles::Shingles;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::transfer;
use crate::device::cuda::columns::var_width::Text;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::check_chunk_rows;
use crate::device::data::column::Column;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::{BowtieError, Result};

/// The rows of all `parts`. Columns on the host, and dictionaries with different values, are uploaded again.
pub(crate) fn concat_columns(device: &CudaDevice, parts: &[&Column]) -> Result<Column> {
    let rows: Vec<usize> = parts.iter().map(|part| part.rows()).collect();
    let all = rows.iter().sum();
    check_chunk_rows(all)?;
    let stored: Vec<&Storage> = parts.iter().filter_map(|part| part.stored()).collect();
    if stored.len() == parts.len()
        && let Some(together) = concat(&device.stream, &stored, &rows)?
    {
        return Ok(Column::cuda(together, all));
    }
    let arrays: Vec<ArrayRef> = parts
        .iter()
        .map(|part| device.download(part))
        .collect::<Result<_>>()?;
    let column = transfer::upload(&device.stream, &arrays, arrays[0].data_type())?;
    device.receive(&column)?;
    Ok(column)
}

/// `None` where the parts differ in their storage on the GPU.
fn concat(stream: &Arc<Stream>, parts: &[&Storage], rows: &[usize]) -> Result<Option<Storage>> {
    macro_rules! all {
        ($variant:path) => {
            parts
                .iter()
                .map(|part| match part {
                    $variant(part) => Some(part),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()
        };
    }
    if let Some(values) = all!(Storage::Fixed) {
        return Ok(Some(concat_values(stream, &values, rows)?.into()));
    }
    if let Some(texts) = all!(Storage::Text) {
        return Ok(Some(concat_text(stream, &texts, rows)?.into()));
    }
    if let Some(indirect) = all!(Storage::Indirect) {
        return concat_indirect(stream, &indirect, rows);
    }
    if let Some(shingles) = all!(Storage::Shingles) {
        let length = shingles[0].length;
        if shingles.iter().all(|of| of.length == length) {
            let texts: Vec<&Text> = shingles.iter().map(|of| &of.text).collect();
            let text = concat_text(stream, &texts, rows)?;
            return Ok(Some(Shingles { text, length }.into()));
        }
    }
    Ok(None)
}

/// `None` for keys of several dictionaries.
fn concat_indirect(
    stream: &Arc<Stream>,
    parts: &[&Indirect],
    rows: &[usize],
) -> Result<Option<Storage>> {
    let words = || {
        let words: Vec<&Values> = parts.iter().map(|part| &part.words).collect();
        concat_values(stream, &words, rows)
    };
    if let Some((first, to)) = Indirect::same(parts) {
        return Ok(Some(Indirect::new(first, words()?, to).into()));
    }
    // Views must name the buffers of all parts. The table holds the first row of each part, and the number of
    // buffers of the parts before.
    let (mut firsts, mut before, mut buffers) = (vec![], vec![], vec![]);
    let mut first = 0u32;
    for (part, rows) in parts.iter().zip(rows) {
        let IndirectData::Buffers(of_part) = &part.to else {
            return Ok(None);
        };
        firsts.push(first);
        before.push(buffers.len() as u32);
        first += *rows as u32;
        buffers.extend(of_part.iter().cloned());
    }
    let views = words()?;
    let numbers = firsts.iter().chain(&before);
    let table: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
    let table = stream.send(&table, "columns")?;
    let args = (
        (&views.values).into(),
        table.part(0)?.into(),
        table.part(parts.len() * 4)?.into(),
        (parts.len() as u32).into(),
        first.into(),
    );
    // SAFETY: there are `first` views, and two words in the table for each part, of which the first begins at row
    // 0.
    unsafe {
        stream.launch(
            kernels::TEXT_NUMBER_BUFFERS,
            Shape::each(first as usize),
            &args,
        )?
    };
    let views = Values {
        made: Some(stream.mark()?),
        ..views
    };
    let to = IndirectData::Buffers(buffers.into());
    Ok(Some(Indirect::new(parts[0], views, to).into()))
}

fn concat_values(stream: &Arc<Stream>, parts: &[&Values], rows: &[usize]) -> Result<Values> {
    let all: usize = rows.iter().sum();
    let data_type = parts[0].data_type.clone();
    let values = match width(&data_type) {
        Some(0) => concat_bits(stream, parts.iter().map(|part| Some(&part.values)), rows)?,
        Some(width) => {
            let out = stream.alloc(all * width, "columns")?;
            let mut at = 0;
            for (part, rows) in parts.iter().zip(rows) {
                part.values.copy_to(rows * width, &out, at)?;
                at += rows * width;
            }
            out
        }
        None => return Err(BowtieError::Internal("a column without a width".into())),
    };
    Ok(Values {
        data_type,
        values,
        valid: concat_validity(stream, parts.iter().map(|part| part.valid.as_ref()), rows)?,
        original: None,
        made: Some(stream.mark()?),
    })
}

fn concat_text(stream: &Arc<Stream>, parts: &[&Text], rows: &[usize]) -> Result<Text> {
    let length: usize = parts.iter().map(|part| part.length).sum();
    if length > MOST_BYTES {
        return Err(BowtieError::MustSplit {
            what: "column of text on a GPU",
            size: length as u64,
            most: MOST_BYTES as u64,
            unit: "bytes",
        });
    }
    let all: usize = rows.iter().sum();
    let offsets = stream.alloc((all + 1) * 4, "columns")?;
    let bytes = stream.alloc(length, "columns")?;
    let (mut row, mut at) = (0, 0);
    for (part, rows) in parts.iter().zip(rows) {
        // The last offset of a part is written too: the next part writes the same value there.
        let args = (
            (&part.offsets).into(),
            (*rows as u32 + 1).into(),
            (at as u32).into(),
            offsets.part(row * 4)?.into(),
        );
        // SAFETY: the part has one more offset than rows, and `offsets` has memory for them from the part's first
        // row on.
        unsafe { stream.launch(kernels::TEXT_PLACE_OFFSETS, Shape::rows(rows + 1), &args)? };
        part.bytes.copy_to(part.length, &bytes, at)?;
        row += rows;
        at += part.length;
    }
    Ok(Text {
        data_type: parts[0].data_type.clone(),
        offsets,
        bytes,
        length,
        valid: concat_validity(stream, parts.iter().map(|part| part.valid.as_ref()), rows)?,
        original: None,
        made: Some(stream.mark()?),
    })
}

/// `None` when no row is NULL.
fn concat_validity<'a>(
    stream: &Arc<Stream>,
    parts: impl Iterator<Item = Option<&'a Memory>> + Clone,
    rows: &[usize],
) -> Result<Option<Memory>> {
    match parts.clone().any(|part| part.is_some()) {
        true => concat_bits(stream, parts, rows).map(Some),
        false => Ok(None),
    }
}

/// Concatenates bitmaps of `rows` bits each. A bitmap that is `None` has all bits set.
fn concat_bits<'a>(
    stream: &Arc<Stream>,
    parts: impl Iterator<Item = Option<&'a Memory>>,
    rows: &[usize],
) -> Result<Memory> {
    let all: usize = rows.iter().sum();
    let out = stream.zeroed(bitmap_bytes(all), "validity")?;
    let mut at = 0;
    for (part, rows) in parts.zip(rows) {
        let args = (
            part.into(),
            (*rows as u32).into(),
            (at as u32).into(),
            (&out).into(),
        );
        let words = rows.div_ceil(32);
        // SAFETY: the part, if there is one, holds `rows` bits in whole words, and `out` as many from bit `at` on.
        unsafe { stream.launch(kernels::ROWS_BITS_PLACE, Shape::rows(words), &args)? };
        at += rows;
    }
    Ok(out)
}
