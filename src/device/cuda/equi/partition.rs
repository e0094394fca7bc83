//! Radix partition of one side of an equi-join: keys and carried columns enter, mixed keys and columns in the order of
//! their partitions leave (`kernels/equi/partition/equi_part.cuh`; \[W\] 4.1.4: the partitioned hash join that gathers
//! from transformed relations).
//!
//! ```text
//! keys ─► mixed keys by their highest bits, and columns likewise ─► start of each partition ─► pieces of partitions
//! ```

use std::sync::Arc;

use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::keys::sort::check_sortable;
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// Bits of a pass, at most, and the number of digits of that many bits.
const PASS_BITS: u32 = 8;
const DIGITS: usize = 1 << PASS_BITS;

/// Build rows per partition that the number of partitions aims at: a table in shared memory holds them.
const PARTITION_ROWS: usize = 2048;
/// Build rows of a table; a partition with more is joined in several steps.
pub(crate) const CAPACITY: usize = 2560;
/// Slots of a table in shared memory.
pub(crate) const SLOTS: usize = 8192;
/// Probe rows of a piece, at most, and threads of the block that joins it.
pub(crate) const PIECE_ROWS: usize = 4608;
pub(crate) const JOIN_THREADS: u32 = 512;

/// Bits of a partition number, at most.
pub(crate) const MOST_BITS: u32 = 16;

/// How many bits of the mixed keys rows are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// By this number of the highest bits, in no order inside of a partition.
    Bits(u32),
    /// By all bits: the side is sorted.
    Whole,
}

/// A column that moves with the keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PayloadColumn<'a> {
    /// `None`: row ids of 4 bytes.
    pub values: Option<Part<'a>>,
    /// Bytes of a value: 4, 8 or 16.
    pub bytes: usize,
}

impl PayloadColumn<'_> {
    /// Row ids.
    pub(crate) const ROWS: Self = Self {
        values: None,
        bytes: 4,
    };
}

/// One side in the order of its partitions.
#[derive(Debug)]
pub(crate) struct Partitioned {
    /// Mixed keys: a bijection of the keys, by whose highest bits rows are partitioned.
    pub keys: Memory,
    /// The carried columns, in the order of the keys.
    pub columns: Vec<Memory>,
    pub width: Width,
    pub rows: usize,
}

/// A column for kernels: address to read, address to write, bytes of a value.
pub(crate) type Descriptor = [u64; 3];

/// Bits of a partition number for this number of build rows.
pub(crate) fn partition_bits(rows: usize) -> u32 {
    let partitions = rows.div_ceil(PARTITION_ROWS).next_power_of_two();
    partitions.trailing_zeros().clamp(1, MOST_BITS)
}

/// First bit and number of bits of each pass over bits `first .. end`: as few passes as possible, as even as possible.
fn passes(first: u32, end: u32) -> Vec<(u32, u32)> {
    let count = (end - first).div_ceil(PASS_BITS);
    let edge = |pass| first + (end - first) * pass / count;
    (0..count)
        .map(|pass| (edge(pass), edge(pass + 1) - edge(pass)))
        .collect()
}

/// Keys, whether they are mixed, 0 and their number, keys to write, descriptors of columns and their number, first
/// positions of digits, 0, first bit and number of bits, look-back, and the number of the next tile.
#[rustfmt::skip]
type Sort = Kernel<(U64, U32, U32, U32, U64, U64, U32, U64, U64, U32, U32, U64, U64)>;
/// The same with the number of bits by which rows are in order, before the look-back.
#[rustfmt::skip]
type Spread = Kernel<(U64, U32, U32, U32, U64, U64, U32, U64, U64, U32, U32, U32, U64, U64)>;

/// The kernel of a pass: by all bits, or by the highest ones.
enum PassKernel {
    Sort(Sort),
    Spread(Spread),
}

/// The kernel of a pass, rows of a tile, and threads of a block.
struct Pass {
    kernel: PassKernel,
    tile: usize,
    threads: u32,
}

impl Pass {
    fn of(depth: Depth, width: Width) -> Self {
        let (kernel, tile, threads) = match (depth, width) {
            (Depth::Bits(_), Width::Four) => {
                (PassKernel::Spread(kernels::EQUI_PART_SPREAD_U32), 5632, 512)
            }
            (Depth::Bits(_), Width::Eight) => {
                (PassKernel::Spread(kernels::EQUI_PART_SPREAD_U64), 5632, 512)
            }
            (Depth::Whole, Width::Four) => {
                (PassKernel::Sort(kernels::EQUI_PART_PASS_U32), 5632, 512)
            }
            (Depth::Whole, Width::Eight) => {
                (PassKernel::Sort(kernels::EQUI_PART_PASS_U64), 5632, 512)
            }
        };
        Self {
            kernel,
            tile,
            threads,
        }
    }
}

/// Uploads descriptors of columns; without columns there is an address all the same.
pub(crate) fn upload_descriptors(stream: &Arc<Stream>, of: &[Descriptor]) -> Result<Memory> {
    let words: Vec<u64> = of.iter().flatten().copied().collect();
    stream.upload_words(&words, "column descriptors")
}

/// Partitions `n` > 0 keys, and `columns` with them. An error if there are too many rows to sort.
pub(crate) fn partition(
    stream: &Arc<Stream>,
    keys: Part<'_>,
    width: Width,
    n: usize,
    columns: &[PayloadColumn<'_>],
    depth: Depth,
) -> Result<Partitioned> {
    check_sortable(n)?;
    let bits = match depth {
        Depth::Bits(bits) => bits,
        Depth::Whole => width.bits(),
    };
    let passes = passes(width.bits() - bits, width.bits());
    let pass = Pass::of(depth, width);
    let tiles = n.div_ceil(pass.tile);

    // The scratch has the digit starts of all passes, the count of blocks, the number of the next tile of each
    // pass, and the look-back of each pass.
    let counters = passes.len() * DIGITS;
    let lookback = counters + (1 + passes.len()).next_multiple_of(64);
    let words = lookback + passes.len() * tiles * DIGITS;
    let scratch = stream.zeroed(words * 4, "partition scratch")?;
    let byte_each = |of: fn(&(u32, u32)) -> u32| {
        passes.iter().enumerate().fold(0u64, |bytes, (at, pass)| {
            bytes | u64::from(of(pass)) << (8 * at)
        })
    };
    let histogram = match width {
        Width::Four => kernels::EQUI_PART_HISTOGRAM_U32,
        Width::Eight => kernels::EQUI_PART_HISTOGRAM_U64,
    };
    let args = (
        keys.into(),
        (n as u32).into(),
        (passes.len() as u32).into(),
        byte_each(|(first, _)| *first).into(),
        byte_each(|(_, bits)| *bits).into(),
        (&scratch).into(),
        scratch.word(counters)?.into(),
    );
    // SAFETY: `keys` holds n keys of the kernel's width; the scratch has 256 words per pass and the count of
    // blocks, all zero.
    unsafe { stream.launch(histogram, stream.strips(n / 8 + 1), &args)? };

    let buffers = || -> Result<(Memory, Vec<Memory>)> {
        let keys = stream.alloc(n * width.bytes(), "partitioned keys")?;
        let columns = columns
            .iter()
            .map(|column| stream.alloc(n * column.bytes, "partitioned columns"))
            .collect::<Result<_>>()?;
        Ok((keys, columns))
    };
    let mut from: Option<(Memory, Vec<Memory>)> = None;
    let mut spare = None;
    for (at, (first_bit, bits)) in passes.iter().enumerate() {
        let to = match spare.take() {
            Some(spare) => spare,
            None => buffers()?,
        };
        let descriptors: Vec<Descriptor> = columns
            .iter()
            .enumerate()
            .map(|(c, column)| {
                let values = match &from {
                    Some((_, columns)) => columns[c].pointer(),
                    None => column.values.map_or(0, Part::pointer),
                };
                [values, to.1[c].pointer(), column.bytes as u64]
            })
            .collect();
        let descriptors = upload_descriptors(stream, &descriptors)?;
        let keys_in = from.as_ref().map_or(keys, |(keys, _)| keys.into());
        let (keys_in, mixed) = (keys_in.into(), u32::from(at > 0).into());
        let (zero, n_of) = (0u32.into(), (n as u32).into());
        let (keys_out, described) = ((&to.0).into(), (&descriptors).into());
        let count = (columns.len() as u32).into();
        let starts = scratch.word(at * DIGITS)?.into();
        let (first_bit, bits) = ((*first_bit).into(), (*bits).into());
        let look_back = scratch.word(lookback + at * tiles * DIGITS)?.into();
        let next = scratch.word(counters + 1 + at)?.into();
        let shape = Shape::blocks_of(n, pass.tile, pass.threads);
        // The arguments of both kernels, and those behind them.
        macro_rules! with_shared {
            ($($own:expr),+) => {
                (
                    keys_in, mixed, zero, n_of, keys_out, described, count, starts, U64::ZERO,
                    first_bit, bits, $($own),+
                )
            };
        }
        match pass.kernel {
            PassKernel::Spread(kernel) => {
                // The first pass keeps no order; the second one keeps the order by the bits just below its own.
                let (ordered, look_back) = match at {
                    0 => (0, U64::ZERO),
                    _ => (passes[at - 1].1, look_back),
                };
                let args = with_shared!(ordered.into(), look_back, next);
                // SAFETY: keys and columns, as described, hold n values in and have room for n out, and do not
                // overlap; starts, the look-back of 256 words per tile and the next tile's number belong to this
                // pass, the latter two zero.
                unsafe { stream.launch(kernel, shape, &args)? };
            }
            PassKernel::Sort(kernel) => {
                let args = with_shared!(look_back, next);
                // SAFETY: the same.
                unsafe { stream.launch(kernel, shape, &args)? };
            }
        }
        spare = from.replace(to);
    }
    drop(spare);
    let (keys, columns) = match from {
        Some(made) => made,
        None => buffers()?,
    };
    Ok(Partitioned {
        keys,
        columns,
        width,
        rows: n,
    })
}

/// The first row of each partition of mixed keys in order, by their highest `bits`, and the end.
pub(crate) fn partition_starts(
    stream: &Arc<Stream>,
    keys: &Memory,
    width: Width,
    n: usize,
    bits: u32,
) -> Result<Memory> {
    let count = (1usize << bits) + 1;
    let starts = stream.alloc(count * 4, "partitions")?;
    let kernel = match width {
        Width::Four => kernels::EQUI_PART_STARTS_U32,
        Width::Eight => kernels::EQUI_PART_STARTS_U64,
    };
    let args = (
        keys.into(),
        (n as u32).into(),
        bits.into(),
        (&starts).into(),
    );
    // SAFETY: `keys` holds n keys, `starts` a word for each partition and one more.
    unsafe { stream.launch(kernel, Shape::each(count), &args)? };
    Ok(starts)
}

/// Cuts the probe side's partitions into pieces, each joined by one block: the pieces, their number (in device
/// memory) and the launch shape. Without `all`, partitions without build rows have no piece.
pub(crate) fn pieces(
    stream: &Arc<Stream>,
    probe: &Partitioned,
    build_starts: &Memory,
    bits: u32,
    all: bool,
) -> Result<(Memory, Memory, Shape)> {
    let probe_starts = partition_starts(stream, &probe.keys, probe.width, probe.rows, bits)?;
    let partitions = 1usize << bits;
    let most_pieces = partitions + probe.rows / PIECE_ROWS;
    let pieces = stream.alloc(most_pieces * 16, "chunks of partitions")?;
    let count = stream.zeroed(4, "chunks of partitions")?;
    let args = (
        (&probe_starts).into(),
        build_starts.into(),
        u32::from(all).into(),
        (partitions as u32).into(),
        (PIECE_ROWS as u32).into(),
        (&pieces).into(),
        (&count).into(),
    );
    // SAFETY: both starts hold a word for each partition and one more; `pieces` has room for the most pieces that
    // there can be.
    unsafe { stream.launch(kernels::EQUI_PART_PIECES, Shape::each(partitions), &args)? };
    let shape = Shape {
        blocks: (2 * stream.gpu.multiprocessors).min(most_pieces as u32),
        slices: 1,
        threads: JOIN_THREADS,
        shared: 0,
    };
    Ok((pieces, count, shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_cover_the_bits_evenly() {
        assert_eq!(passes(16, 32), [(16, 8), (24, 8)]);
        assert_eq!(passes(21, 32), [(21, 5), (26, 6)]);
        assert_eq!(passes(31, 32), [(31, 1)]);
        assert_eq!(passes(0, 64).len(), 8);
    }

    #[test]
    fn partitions_have_about_as_many_rows_as_a_table() {
        assert_eq!(partition_bits(0), 1);
        assert_eq!(partition_bits(1), 1);
        assert_eq!(partition_bits(1 << 20), 9);
        assert_eq!(partition_bits(1 << 30), 16);
    }
}
