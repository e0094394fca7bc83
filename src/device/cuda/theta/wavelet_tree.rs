//! Counts the matches of two inequalities by a wavelet tree (`kernels/theta/wavelet.cu`): a range of build positions
//! and one test enter, the count of each probe position leaves. The host fallback, `device/host/theta/wavelet_tree.rs`,
//! defines the tree.

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U32};
use crate::device::cuda::keys::sort::{self, DIGIT_BITS, NARROW, WIDE};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::range::op_code;
use crate::device::cuda::theta::wavelet_index::Wavelet;
use crate::device::cuda::theta::zone_map::on_gpu;
use crate::device::data::buffer::Buffer;
use crate::device::data::matches::{Matches, Test};
use crate::device::wavelet::Layout;
use crate::error::Result;
use crate::ir::comparison::Comparison;

/// Ranks that a block orders.
const TILE: usize = 4096;
/// Bytes of a block of the tree.
const BLOCK_BYTES: usize = 32;

/// Builds the tree over `n` > 0 keys by position.
fn wavelet(stream: &Arc<Stream>, keys: &Memory, n: usize) -> Result<Wavelet> {
    let what = "counts of two inequalities";
    let layout = Layout::of(n);
    let varying = sort::varying_bits(stream, keys, n)?;
    let (keys, mut ranks) = match sort::sort_pairs(stream, WIDE, keys.into(), None, n, varying)? {
        Some((sorted, positions)) => (Some(sorted), placed(stream, positions, None, n)?),
        None => (None, rows::sequence(stream, 0, n)?),
    };
    let level_bytes = layout.blocks() * BLOCK_BYTES;
    let levels = stream.alloc(layout.levels() as usize * level_bytes, what)?;
    let low = stream.alloc(n, what)?;
    // Nodes of this number of bits are finished in shared memory.
    let node_bits = match layout.low_bits {
        8 => 12,
        _ => 13,
    };
    let tiles = n.div_ceil(TILE);
    let mut level = 0;
    while layout.shift(level) >= node_bits {
        let shift = layout.shift(level);
        let counts = stream.alloc(4 * tiles * 4, what)?;
        let args = (
            memory(&ranks)?.into(),
            (n as u32).into(),
            shift.into(),
            (&counts).into(),
        );
        // SAFETY: `ranks` holds n words, `counts` four for each tile.
        unsafe {
            stream.launch(
                kernels::WAVELET_DIGITS,
                Shape::blocks_of(n, TILE, 256),
                &args,
            )?
        };
        let sums = scan::scan(stream, EXCLUSIVE_U32, &counts, 4 * tiles, what)?;
        let ordered = stream.alloc(n * 4, what)?;
        let args = (
            memory(&ranks)?.into(),
            (n as u32).into(),
            shift.into(),
            (&sums).into(),
            (&ordered).into(),
            levels.word(level as usize * level_bytes / 4)?.into(),
        );
        // SAFETY: the ranks are 0 .. n in an order in which each node holds its own, so that each has its place in
        // `ordered`; the level's blocks begin at its bytes in `levels`.
        unsafe {
            stream.launch(
                kernels::WAVELET_PARTITION,
                Shape::blocks_of(n, TILE, 256),
                &args,
            )?
        };
        ranks = Buffer::cuda(ordered, n);
        level += 1;
    }
    let args = (
        memory(&ranks)?.into(),
        (n as u32).into(),
        node_bits.into(),
        layout.low_bits.into(),
        levels.word(level as usize * level_bytes / 4)?.into(),
        (&low).into(),
    );
    let node = 1 << node_bits;
    // SAFETY: as above; `low` holds n bytes and the padding to whole vectors.
    unsafe {
        stream.launch(
            kernels::WAVELET_FINISH,
            Shape::blocks_of(n, node, node as u32 / 16),
            &args,
        )?
    };
    Ok(Wavelet {
        layout,
        keys,
        levels,
        low,
    })
}

/// `out[places[i]] = values[i]`, or `i` without `values`; the places are a permutation of 0 .. n, n at least 2.
fn placed(
    stream: &Arc<Stream>,
    places: Memory,
    values: Option<&Memory>,
    n: usize,
) -> Result<Buffer<u32>> {
    // Sorted by their leading bits first, consecutive writes stay within a stretch that fits the cache.
    let bits = usize::BITS - (n - 1).leading_zeros();
    let leading = (1u64 << bits) - (1 << bits.saturating_sub(DIGIT_BITS));
    let (places, values) =
        match sort::sort_pairs(stream, NARROW, (&places).into(), values, n, leading)? {
            Some((places, values)) => (places, Buffer::cuda(values, n)),
            None => (places, rows::sequence(stream, 0, n)?),
        };
    rows::scatter(stream, &Buffer::cuda(places, n), &values, n)
}

/// For each of `m` > 0 words, the number of the `n` sorted keys that are less; with `through`, less or equal.
pub(crate) fn bounds(
    stream: &Arc<Stream>,
    keys: &Memory,
    n: usize,
    words: &Memory,
    m: usize,
    through: bool,
) -> Result<Buffer<u32>> {
    let what = "counts of two inequalities";
    let varying = sort::varying_bits(stream, words, m)?;
    let sorted = sort::sort_pairs(stream, WIDE, words.into(), None, m, varying)?;
    let in_order = sorted.as_ref().map_or(words, |(words, _)| words);
    let lo = stream.alloc(m * 4, what)?;
    let hi = stream.alloc(m * 4, what)?;
    let none = None::<&Memory>;
    let args = (
        none.into(),
        none.into(),
        none.into(),
        (n as u32).into(),
        (&lo).into(),
        (&hi).into(),
        (m as u32).into(),
    );
    // SAFETY: without groups no row is read; `lo` and `hi` hold m words.
    unsafe { stream.launch(kernels::RANGE_BEGIN, Shape::rows(m), &args)? };
    let op = match through {
        true => Comparison::LtEq,
        false => Comparison::Lt,
    };
    let args = (
        keys.into(),
        none.into(),
        in_order.into(),
        none.into(),
        op_code(op).into(),
        1u32.into(),
        (&lo).into(),
        (&hi).into(),
        (m as u32).into(),
    );
    // SAFETY: words are by position, all valid; ranges are inside of the n keys.
    unsafe { stream.launch(kernels::RANGE_NARROW, Shape::rows(m), &args)? };
    match sorted {
        Some((_, positions)) => placed(stream, positions, Some(&hi), m),
        None => Ok(Buffer::cuda(hi, m)),
    }
}

/// The match count of each probe position under one test, an inequality. Neither side is empty.
pub(crate) fn wavelet_count(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    test: &Test<'_>,
) -> Result<Buffer<u32>> {
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    let (build, probe) = (on_gpu(test.build)?, on_gpu(test.probe)?);
    // Threads that build it at the same time build equal trees.
    let wavelet = match build.wavelet.get() {
        Some(wavelet) => wavelet,
        None => {
            let built = wavelet(stream, memory(&build.keys)?, n)?;
            build.wavelet.get_or_init(|| built)
        }
    };
    let keys = match &wavelet.keys {
        Some(keys) => keys,
        None => memory(&build.keys)?,
    };
    let through = matches!(test.op, Comparison::LtEq | Comparison::Gt);
    let others = matches!(test.op, Comparison::Gt | Comparison::GtEq);
    let bounds = bounds(stream, keys, n, memory(&probe.keys)?, m, through)?;
    let counts = stream.alloc(m * 4, "match counts")?;
    let args = (
        (&wavelet.levels).into(),
        (&wavelet.low).into(),
        (n as u32).into(),
        wavelet.layout.bits.into(),
        wavelet.layout.low_bits.into(),
        memory(&matches.ranges.lo)?.into(),
        memory(&matches.ranges.hi)?.into(),
        memory(&bounds)?.into(),
        u32::from(others).into(),
        (m as u32).into(),
        (&counts).into(),
    );
    // SAFETY: the tree is that of the n build positions, inside of which the ranges are; the other buffers hold m
    // words.
    unsafe { stream.launch(kernels::WAVELET_COUNT, Shape::each(m), &args)? };
    Ok(Buffer::cuda(counts, m))
}
