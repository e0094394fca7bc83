//! Transfers bytes and bitmaps: the values of columns, and which of their rows are not NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, Buffer as Bytes, MutableBuffer, NullBuffer};

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::runtime::event::Event;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// A bitmap of the rows that are not NULL; `None` when no row is NULL.
pub(crate) fn send_validity(
    stream: &Arc<Stream>,
    parts: &[ArrayRef],
    rows: usize,
) -> Result<Option<Memory>> {
    if parts.iter().all(|part| part.null_count() == 0) {
        return Ok(None);
    }
    let bits = parts.iter().map(|part| match part.nulls() {
        Some(nulls) => nulls.inner().clone(),
        None => BooleanBuffer::new_set(part.len()),
    });
    send_bits(stream, bits, rows, "validity").map(Some)
}

/// Uploads concatenated bitmaps of `len` bits together, in whole words. Bits past the end are 0.
pub(crate) fn send_bits(
    stream: &Arc<Stream>,
    parts: impl Iterator<Item = BooleanBuffer>,
    len: usize,
    what: &'static str,
) -> Result<Memory> {
    // The capacity is in whole words from the start; bits past the end stay 0.
    let mut bits = BooleanBufferBuilder::new(bitmap_bytes(len) * 8);
    for part in parts {
        bits.append_buffer(&part);
    }
    bits.append_n(bitmap_bytes(len) * 8 - len, false);
    stream.send_async(&[bits.as_slice()], what)
}

/// Uploads a bitmap in whole words. Bits past the end are 0.
pub(crate) fn upload_bits(
    stream: &Arc<Stream>,
    bits: &BooleanBuffer,
    what: &'static str,
) -> Result<Memory> {
    let memory = send_bits(stream, std::iter::once(bits.clone()), bits.len(), what)?;
    memory.receive()?;
    Ok(memory)
}

/// Downloads the first `bytes` of `memory`. `made`: recorded when the bytes were written.
pub(crate) fn download_bytes(memory: &Memory, bytes: usize, made: Option<&Event>) -> Result<Bytes> {
    // Not cleared first: one thread would do it.
    let mut buffer = MutableBuffer::with_capacity(bytes);
    // SAFETY: the buffer has capacity for `bytes`, which may be anything before they are written.
    let target = unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast(), bytes) };
    memory.stream.read(target, memory, made)?;
    // SAFETY: all of them were written.
    unsafe { buffer.set_len(bytes) };
    Ok(buffer.into())
}

/// Downloads a bitmap of `bits` bits.
pub(crate) fn download_bits(
    memory: &Memory,
    bits: usize,
    made: Option<&Event>,
) -> Result<BooleanBuffer> {
    let bytes = download_bytes(memory, bitmap_bytes(bits), made)?;
    Ok(BooleanBuffer::new(bytes, 0, bits))
}

/// Downloads a validity bitmap; `None` when no row is NULL.
pub(crate) fn download_nulls(
    valid: Option<&Memory>,
    rows: usize,
    made: Option<&Event>,
) -> Result<Option<NullBuffer>> {
    let Some(valid) = valid else {
        return Ok(None);
    };
    let nulls = NullBuffer::new(download_bits(valid, rows, made)?);
    Ok((nulls.null_count() > 0).then_some(nulls))
}
