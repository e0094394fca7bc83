//! Words and columns for the host fallback: arguments are downloaded, results uploaded.

use arrow::buffer::ScalarBuffer;
use arrow::datatypes::ArrowNativeType;

use crate::device::cuda::columns::bytes;
use crate::device::cuda::columns::transfer;
use crate::device::cuda::device::CudaDevice;
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::Result;

/// Downloads words; words in host memory are shared.
pub(crate) fn words_to_host<T: ArrowNativeType>(words: &Buffer<T>) -> Result<ScalarBuffer<T>> {
    match words.on_cuda() {
        None => Ok(words.on_host()?.clone()),
        Some(memory) => {
            let bytes = bytes::download_bytes(memory, words.len() * size_of::<T>(), None)?;
            Ok(ScalarBuffer::new(bytes, 0, words.len()))
        }
    }
}

/// Uploads words that the fallback computed.
pub(crate) fn words_from_host<T: ArrowNativeType>(
    device: &CudaDevice,
    words: &Buffer<T>,
    what: &'static str,
) -> Result<Buffer<T>> {
    let words = words.on_host()?;
    let bytes = words.inner().as_slice();
    let memory = device.stream.send(bytes, what)?;
    Ok(Buffer::cuda(memory, words.len()))
}

/// Downloads a column; a column in host memory is shared.
pub(crate) fn column_to_host(device: &CudaDevice, column: &Column) -> Result<Column> {
    let array = transfer::download(column)?;
    Ok(Column::host(
        array,
        device.fallback.budget().lease(0, "host fallback")?,
    ))
}

/// Uploads a column that the fallback computed.
pub(crate) fn column_from_host(device: &CudaDevice, column: &Column) -> Result<Column> {
    let array = column.on_host()?;
    let column = transfer::upload(
        &device.stream,
        std::slice::from_ref(array),
        array.data_type(),
    )?;
    device.receive(&column)?;
    Ok(column)
}

/// Downloads the first `len` bits.
pub(crate) fn bits_to_host(bits: &Bits, len: usize) -> Result<Bits> {
    Ok(Bits::Host(match bits {
        Bits::Host(bits) => bits.clone(),
        Bits::Device(memory) => bytes::download_bits(memory.get()?, len, None)?,
    }))
}

/// Downloads words into a buffer.
pub(crate) fn host_words<T: ArrowNativeType>(
    device: &CudaDevice,
    words: &Buffer<T>,
) -> Result<Buffer<T>> {
    let words = words_to_host(words)?;
    Ok(Buffer::host_shared(
        words,
        device.fallback.budget().lease(0, "host fallback")?,
    ))
}
