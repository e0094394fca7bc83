//! Columns that are transferred narrower than they are stored (`kernels/columns/widen.cu`): narrow columns that are
//! cast, and wide columns of small values. Kernels widen them after the upload, as device memory is faster than the
//! host's by two orders of magnitude.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::runtime::kernels::{self, Widening};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::staging::narrow::Narrowing;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::{BowtieError, Result};

/// The kernel that casts a type to a wider one. `None` where a value might fail or become NULL, or nothing is gained.
pub(crate) fn kernel(from: &DataType, to: &DataType) -> Option<Widening> {
    use DataType::*;
    Some(match (from, to) {
        (Int8, Int64) => kernels::WIDEN_I8_I64,
        (Int16, Int64) => kernels::WIDEN_I16_I64,
        (Int32, Int64) => kernels::WIDEN_I32_I64,
        (UInt8, Int64 | UInt64) => kernels::WIDEN_U8_I64,
        (UInt16, Int64 | UInt64) => kernels::WIDEN_U16_I64,
        (UInt32, Int64 | UInt64) => kernels::WIDEN_U32_I64,
        (Int8, Float64) => kernels::WIDEN_I8_F64,
        (Int16, Float64) => kernels::WIDEN_I16_F64,
        (Int32, Float64) => kernels::WIDEN_I32_F64,
        (Int64, Float64) => kernels::WIDEN_I64_F64,
        (UInt8, Float64) => kernels::WIDEN_U8_F64,
        (UInt16, Float64) => kernels::WIDEN_U16_F64,
        (UInt32, Float64) => kernels::WIDEN_U32_F64,
        (UInt64, Float64) => kernels::WIDEN_U64_F64,
        (Float32, Float64) => kernels::WIDEN_F32_F64,
        _ => return None,
    })
}

/// Narrow values, which exist beside the wide ones, take at most one in this number of the budget's free bytes.
const MEMORY_SHARE: u64 = 16;

/// Uploads `rows` consecutive values of type `from`, given in `parts`, asynchronously as values of type `to`.
pub(crate) fn send_widened(
    stream: &Arc<Stream>,
    parts: &[&[u8]],
    rows: usize,
    from: &DataType,
    to: &DataType,
) -> Result<Memory> {
    let kernel = kernel(from, to)
        .ok_or_else(|| BowtieError::Internal(format!("{from} does not widen to {to}")))?;
    let narrow = stream.send_async(parts, "columns")?;
    let wide = stream.alloc(rows * 8, "columns")?;
    // SAFETY: the kernel is that of the two types, of which the second has 8 bytes; `parts` hold `rows` values of
    // the first.
    unsafe { wide.sent_as(narrow, kernel, rows) };
    Ok(wide)
}

/// Uploads `rows` consecutive values of `width` bytes, given in `parts`, asynchronously. Only their lowest bytes
/// are transferred where these determine the values.
pub(crate) fn send_values(
    stream: &Arc<Stream>,
    parts: &[&[u8]],
    rows: usize,
    width: usize,
) -> Result<Memory> {
    let narrowing = Narrowing::of(parts, width);
    if let Some(kernel) = narrowing.widens()
        && (rows * width / narrowing.times()) as u64 <= stream.budget.available() / MEMORY_SHARE
        && let Some(narrow) = stream.send_narrowed(parts, narrowing, "columns")?
    {
        let wide = stream.alloc(rows * width, "columns")?;
        // SAFETY: the kernel reads `rows` values as `narrowing` has made them, and writes them with their original
        // width.
        unsafe { wide.sent_as(narrow, kernel, rows) };
        return Ok(wide);
    }
    stream.send_async(parts, "columns")
}
