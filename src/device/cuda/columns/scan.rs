//! Prefix sums in one pass (`kernels/columns/scan.cu`).

use std::sync::Arc;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::error::Result;

/// The kernel and the types of a scan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan {
    kernel: Kernel<(U64, U32, U64, U64)>,
    /// Bytes of a sum.
    bytes: usize,
    /// Results per block.
    tile: usize,
    /// Whether the total follows the last sum.
    total: bool,
}

/// u32 into u64, exclusive, with the total.
pub(crate) const EXCLUSIVE_U64: Scan = Scan {
    kernel: kernels::SCAN_U32_U64,
    bytes: 8,
    tile: 4096,
    total: true,
};
/// u32, exclusive, with the total.
pub(crate) const EXCLUSIVE_U32: Scan = Scan {
    kernel: kernels::SCAN_U32_U32_EXCLUSIVE,
    bytes: 4,
    tile: 4096,
    total: true,
};
/// u32, inclusive.
pub(crate) const INCLUSIVE_U32: Scan = Scan {
    kernel: kernels::SCAN_U32_U32_INCLUSIVE,
    bytes: 4,
    tile: 4096,
    total: false,
};
/// i64, exclusive, with the total.
pub(crate) const EXCLUSIVE_I64: Scan = Scan {
    kernel: kernels::SCAN_I64,
    bytes: 8,
    tile: 3072,
    total: true,
};
/// i128, exclusive, with the total.
pub(crate) const EXCLUSIVE_I128: Scan = Scan {
    kernel: kernels::SCAN_I128,
    bytes: 16,
    tile: 2048,
    total: true,
};

/// Words of 64 bits before the tiles' words.
const STATE_HEADER: usize = 16;

/// Prefix sums of `n` items, with wrapping addition. `what` names the allocation.
pub(crate) fn scan(
    stream: &Arc<Stream>,
    scan: Scan,
    items: &Memory,
    n: usize,
    what: &'static str,
) -> Result<Memory> {
    let results = n + usize::from(scan.total);
    let out = stream.alloc(results * scan.bytes, what)?;
    let tiles = results.div_ceil(scan.tile);
    let state = stream.zeroed((STATE_HEADER + scan.bytes / 4 * tiles) * 8, "scan scratch")?;
    let args = (
        items.into(),
        (n as u32).into(),
        (&out).into(),
        (&state).into(),
    );
    // SAFETY: `items` holds n items, `out` all results, `state` a header and a word for each 32 bits of a tile's
    // sum.
    unsafe {
        stream.launch(
            scan.kernel,
            Shape::blocks_of(results, scan.tile, 256),
            &args,
        )?
    };
    Ok(out)
}

/// Exclusive prefix sums of `counts`, and the total at the end.
pub(crate) fn scan_offsets(stream: &Arc<Stream>, counts: &Buffer<u32>) -> Result<Buffer<u64>> {
    let n = counts.len();
    let offsets = match n {
        0 => stream.zeroed(8, "match offsets")?,
        n => scan(stream, EXCLUSIVE_U64, memory(counts)?, n, "match offsets")?,
    };
    Ok(Buffer::cuda(offsets, n + 1))
}
