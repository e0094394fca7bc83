//! Stable partitioning of keys, and of a column with them, into 256 partitions (`kernels/aggregate/group_part.cu`). Keys and a column in the order of
//! rows enter; both in partition order, or the first position of each partition, leave.

use std::sync::Arc;

use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::arguments::U32;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// Hash or id partitioning of keys into 256 partitions.
#[derive(Debug)]
pub(crate) struct Partitioner<'a> {
    pub(crate) keys: Part<'a>,
    pub(crate) bits: Width,
    /// Kernel arguments: 1 and the seed where the keys' hash is partitioned, 0 and the first key for the key itself; and
    /// the first bit of the partition number.
    pub(crate) digits: [U32; 3],
    /// The first position of each partition.
    pub(crate) starts: Memory,
}

/// Partitions of `group_part`.
const PARTITIONS: usize = 256;
pub(crate) const PARTITION_BITS: u32 = PARTITIONS.ilog2();
/// The highest bits of a hash: keys that agree in them are neighbours in a directory.
pub(crate) const FIRST_HASH_BIT: u32 = u32::BITS - PARTITION_BITS;

/// The first position of each partition of n keys.
pub(crate) fn group_partition_starts(
    stream: &Arc<Stream>,
    (keys, bits): (Part<'_>, Width),
    &[hashed, seed_or_first, first_bit]: &[U32; 3],
    n: usize,
) -> Result<Memory> {
    // One more word counts the finished blocks.
    let starts = stream.zeroed((PARTITIONS + 1) * 4, "partitions")?;
    let kernel = match bits {
        Width::Four => kernels::GROUP_PART_STARTS_U32,
        Width::Eight => kernels::GROUP_PART_STARTS_U64,
    };
    let args = (
        keys.into(),
        (n as u32).into(),
        hashed,
        seed_or_first,
        first_bit,
        (&starts).into(),
        starts.word(PARTITIONS)?.into(),
    );
    // SAFETY: there are n keys of the kernel's width; `starts` holds a word for each partition and the count of
    // blocks, all zero.
    unsafe { stream.launch(kernel, stream.strips(n.div_ceil(4)), &args)? };
    Ok(starts)
}

/// Moves n keys and a column of 4 or 8 bytes into partition order. Returns both.
pub(crate) fn to_partitions(
    stream: &Arc<Stream>,
    partitioner: &Partitioner<'_>,
    column: &Memory,
    width: usize,
    n: usize,
) -> Result<(Memory, Memory)> {
    const THREADS: u32 = 384;
    let (kernel, tile) = match (partitioner.bits, width) {
        (Width::Four, 4) => (kernels::GROUP_PART_U32_U32, 8832),
        (Width::Four, _) => (kernels::GROUP_PART_U32_U64, 5760),
        (Width::Eight, 4) => (kernels::GROUP_PART_U64_U32, 5760),
        (Width::Eight, _) => (kernels::GROUP_PART_U64_U64, 5760),
    };
    let tiles = n.div_ceil(tile);
    let keys = stream.alloc(n * partitioner.bits.bytes(), "partitions")?;
    let values = stream.alloc(n * width, "partitions")?;
    let lookback = stream.zeroed((tiles * PARTITIONS + 1) * 4, "partitions")?;
    let [hashed, seed_or_first, first_bit] = partitioner.digits;
    let args = (
        partitioner.keys.into(),
        column.into(),
        (n as u32).into(),
        hashed,
        seed_or_first,
        first_bit,
        (&keys).into(),
        (&values).into(),
        (&partitioner.starts).into(),
        (&lookback).into(),
        lookback.word(tiles * PARTITIONS)?.into(),
    );
    let shape = Shape::blocks_of(n, tile, THREADS);
    // SAFETY: inputs and outputs hold n keys and values of the kernel's widths and do not overlap; `starts` holds
    // the first position of each partition of these keys; the look-back holds 256 words for each tile and the
    // number of the next tile, all zero.
    unsafe { stream.launch(kernel, shape, &args)? };
    Ok((keys, values))
}
