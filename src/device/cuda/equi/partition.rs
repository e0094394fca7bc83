//! Radix partition of one side of an equi-join, with the columns that go with the keys (`kernels/equi/partition/equi_part.cuh`; \[W\] section
//! 3.1.2 and, for the columns, 3.3: gather from transformed relations).
//!
//! ```text
//! keys ─► mixed keys by their highest bits, and columns likewise ─► where each partition begins ─► pieces that blocks take
//! ```

use std::sync::Arc;

use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::keys::sort::check_sortable;
use crate::device::cuda::runtime::launch::{Arg, Shape};
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// Bits of a pass at most, and what a digit of so many can be.
const PASS_BITS: u32 = 8;
const DIGITS: usize = 1 << PASS_BITS;

/// Rows of a partition that a table in shared memory is made for.
const PARTITION_ROWS: usize = 2048;
/// Build rows that are in a table at a time; more take further steps.
pub(crate) const CAPACITY: usize = 2560;
/// Slots of a table.
pub(crate) const SLOTS: usize = 8192;
/// Rows of a piece, and threads of the blocks that take them.
pub(crate) const PIECE_ROWS: usize = 4608;
pub(crate) const JOIN_THREADS: u32 = 512;

/// Partitions that a side is cut into at most, as bits of their numbers.
pub(crate) const MOST_BITS: u32 = 16;

/// How far rows are brought into order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// By so many of the highest bits, in no order inside of a partition.
    Bits(u32),
    /// By all of them.
    Whole,
}

/// A column that goes with the keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried<'a> {
    /// `None`: the rows' numbers, of 4 bytes.
    pub values: Option<Part<'a>>,
    /// Of a value: 4, 8 or 16.
    pub bytes: usize,
}

impl Carried<'_> {
    pub(crate) const ROWS: Self = Self {
        values: None,
        bytes: 4,
    };
}

/// Keys, mixed and in the order of their partitions, and columns with them.
#[derive(Debug)]
pub(crate) struct Partitioned {
    pub keys: Memory,
    pub columns: Vec<Memory>,
    pub width: Width,
    pub rows: usize,
}

/// A descriptor of a column for kernels: where it is read, where it is written, bytes of a value.
pub(crate) type Descriptor = [u64; 3];

/// Bits of the partitions for a table of so many build rows.
pub(crate) fn partition_bits(rows: usize) -> u32 {
    let partitions = rows.div_ceil(PARTITION_ROWS).next_power_of_two();
    partitions.trailing_zeros().clamp(1, MOST_BITS)
}

/// First bit and bits of each pass over `first .. end`: as few as there can be, as even as can be.
fn passes(first: u32, end: u32) -> Vec<(u32, u32)> {
    let count = (end - first).div_ceil(PASS_BITS);
    let edge = |pass| first + (end - first) * pass / count;
    (0..count)
        .map(|pass| (edge(pass), edge(pass + 1) - edge(pass)))
        .collect()
}

/// What differs between the ways of a pass.
struct Pass {
    kernel: &'static str,
    tile: usize,
    threads: u32,
}

impl Pass {
    fn of(depth: Depth, width: Width) -> Self {
        let (kernel, tile, threads) = match (depth, width) {
            (Depth::Bits(_), Width::Four) => ("equi_part_spread_u32", 5632, 512),
            (Depth::Bits(_), Width::Eight) => ("equi_part_spread_u64", 5632, 512),
            (Depth::Whole, Width::Four) => ("equi_part_pass_u32", 8832, 384),
            (Depth::Whole, Width::Eight) => ("equi_part_pass_u64", 5760, 384),
        };
        Self {
            kernel,
            tile,
            threads,
        }
    }
}

impl Stream {
    /// Descriptors of columns where kernels read them; of none a place all the same.
    pub(crate) fn descriptors(self: &Arc<Self>, of: &[Descriptor]) -> Result<Memory> {
        let words: Vec<u64> = of.iter().flatten().copied().collect();
        self.give(&words, "column descriptors")
    }

    /// Partitions `n` > 0 keys, and columns with them.
    pub(crate) fn partition(
        self: &Arc<Self>,
        keys: Part<'_>,
        width: Width,
        n: usize,
        columns: &[Carried<'_>],
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

        // Starts of all passes, the count of blocks, the next tile of each pass, and the look-back of each.
        let counters = passes.len() * DIGITS;
        let lookback = counters + (1 + passes.len()).next_multiple_of(64);
        let words = lookback + passes.len() * tiles * DIGITS;
        let scratch = self.zeroed(words * 4, "partition scratch")?;
        let byte_each = |of: fn(&(u32, u32)) -> u32| {
            passes.iter().enumerate().fold(0u64, |bytes, (at, pass)| {
                bytes | u64::from(of(pass)) << (8 * at)
            })
        };
        let histogram = match width {
            Width::Four => "equi_part_histogram_u32",
            Width::Eight => "equi_part_histogram_u64",
        };
        let args = [
            keys.into(),
            (n as u32).into(),
            (passes.len() as u32).into(),
            byte_each(|(first, _)| *first).into(),
            byte_each(|(_, bits)| *bits).into(),
            (&scratch).into(),
            scratch.word(counters),
        ];
        // SAFETY: `keys` holds n keys of the kernel's width; the scratch has 256 words a pass and the count of blocks, all zero.
        unsafe { self.launch(histogram, self.strips(n / 8 + 1), &args)? };

        let buffers = || -> Result<(Memory, Vec<Memory>)> {
            let keys = self.alloc(n * width.bytes(), "partitioned keys")?;
            let columns = columns
                .iter()
                .map(|column| self.alloc(n * column.bytes, "partitioned columns"))
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
                        Some((_, columns)) => Arg::from(&columns[c]).word(),
                        None => column.values.map_or(0, |values| Arg::from(values).word()),
                    };
                    [values, to.1[c].pointer(), column.bytes as u64]
                })
                .collect();
            let descriptors = self.descriptors(&descriptors)?;
            let keys_in = from.as_ref().map_or(keys, |(keys, _)| keys.into());
            let mut args: Vec<Arg> = vec![
                keys_in.into(),
                u32::from(at > 0).into(),
                0u32.into(),
                (n as u32).into(),
                (&to.0).into(),
                (&descriptors).into(),
                (columns.len() as u32).into(),
                scratch.word(at * DIGITS),
                0u64.into(),
                (*first_bit).into(),
                (*bits).into(),
            ];
            if let Depth::Bits(_) = depth {
                // The first pass keeps no order; the next one that of the bits just below its own.
                let ordered = if at > 0 { passes[at - 1].1 } else { 0 };
                args.push(ordered.into());
            }
            args.push(match (depth, at) {
                (Depth::Bits(_), 0) => 0u64.into(),
                _ => scratch.word(lookback + at * tiles * DIGITS),
            });
            args.push(scratch.word(counters + 1 + at));
            let shape = Shape::blocks_of(n, pass.tile, pass.threads);
            // SAFETY: keys and columns, as described, hold n values in and have room for n out, and do not overlap; starts, the
            // look-back of 256 words a tile and the next tile's number are this pass's, the latter two zero.
            unsafe { self.launch(pass.kernel, shape, &args)? };
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

    /// Where each partition of mixed keys in order begins, by their highest `bits`, and the end.
    pub(crate) fn partition_starts(
        self: &Arc<Self>,
        keys: &Memory,
        width: Width,
        n: usize,
        bits: u32,
    ) -> Result<Memory> {
        let count = (1usize << bits) + 1;
        let starts = self.alloc(count * 4, "partitions")?;
        let kernel = match width {
            Width::Four => "equi_part_starts_u32",
            Width::Eight => "equi_part_starts_u64",
        };
        let args = [
            keys.into(),
            (n as u32).into(),
            bits.into(),
            (&starts).into(),
        ];
        // SAFETY: `keys` holds n keys, `starts` a word for each partition and one more.
        unsafe { self.launch(kernel, Shape::each(count), &args)? };
        Ok(starts)
    }

    /// The pieces in which blocks take the probe side's partitions, how many there are, and how they are spread over the card.
    /// Without `all` partitions without build rows are left out.
    pub(crate) fn pieces(
        self: &Arc<Self>,
        probe: &Partitioned,
        build_starts: &Memory,
        bits: u32,
        all: bool,
    ) -> Result<(Memory, Memory, Shape)> {
        let probe_starts = self.partition_starts(&probe.keys, probe.width, probe.rows, bits)?;
        let partitions = 1usize << bits;
        let room = partitions + probe.rows / PIECE_ROWS;
        let pieces = self.alloc(room * 16, "pieces of partitions")?;
        let count = self.zeroed(4, "pieces of partitions")?;
        let args = [
            (&probe_starts).into(),
            build_starts.into(),
            u32::from(all).into(),
            (partitions as u32).into(),
            (PIECE_ROWS as u32).into(),
            (&pieces).into(),
            (&count).into(),
        ];
        // SAFETY: both hold a word for each partition and one more; there is room for as many pieces as there can be.
        unsafe { self.launch("equi_part_pieces", Shape::each(partitions), &args)? };
        let shape = Shape {
            blocks: (2 * self.gpu.multiprocessors).min(room as u32),
            slices: 1,
            threads: JOIN_THREADS,
            shared: 0,
        };
        Ok((pieces, count, shape))
    }
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
