//! Radix sort of row ids by group and key, and of key-value pairs (`kernels/keys/sort.cu`: one histogram for all
//! passes, then one pass for each digit).

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::keys::Keys;
use crate::device::data::ranges::OrderedRows;
use crate::error::{BowtieError, Result};

/// Bits of a digit.
pub(crate) const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Offsets within a pass are signed words of 32 bits, two bits of which hold the state of the look-back.
const MOST_SORTED: usize = (1 << 30) - 1;

/// An error where there are more pairs than one sort can have.
pub(crate) fn check_sortable(n: usize) -> Result<()> {
    match n > MOST_SORTED {
        true => Err(BowtieError::MustSplit {
            what: "sort",
            size: n as u64,
            most: MOST_SORTED as u64,
            unit: "rows",
        }),
        false => Ok(()),
    }
}

/// Keys and their number, passes, first bit and number of bits of each pass, first positions of digits, and the number of
/// finished blocks.
type Histogram = Kernel<(U64, U32, U32, U64, U64, U64, U64)>;
/// Keys, row ids (or 0, 1, … from the third argument on) and their number, sorted keys and row ids, first positions of
/// digits, 0, first bit and number of bits, look-back, and the number of the next tile.
type Onesweep = Kernel<(U64, U64, U32, U32, U64, U64, U64, U64, U32, U32, U64, U64)>;

/// Widths of the pairs of a sort, with the kernels for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyWidth {
    bytes: usize,
    /// Bytes of the value beside a key: mostly a row id; 0 for none.
    value_bytes: usize,
    histogram: Histogram,
    onesweep: Onesweep,
    /// Pairs per block of a pass.
    tile: usize,
}

/// Keys of 64 bits with row ids.
pub(crate) const WIDE: KeyWidth = KeyWidth {
    bytes: 8,
    value_bytes: 4,
    histogram: kernels::SORT_HISTOGRAM_U64,
    onesweep: kernels::SORT_ONESWEEP_U64,
    tile: 5760,
};
/// Keys of 32 bits with row ids.
pub(crate) const NARROW: KeyWidth = KeyWidth {
    bytes: 4,
    value_bytes: 4,
    histogram: kernels::SORT_HISTOGRAM_U32,
    onesweep: kernels::SORT_ONESWEEP_U32,
    tile: 8832,
};
/// Keys of 32 bits with values of 64.
pub(crate) const NARROW_WITH_WORDS: KeyWidth = KeyWidth {
    bytes: 4,
    value_bytes: 8,
    histogram: kernels::SORT_HISTOGRAM_U32,
    onesweep: kernels::SORT_ONESWEEP_U32_U64,
    tile: 5760,
};
/// Keys of 64 bits without values.
pub(crate) const WIDE_KEYS_ONLY: KeyWidth = KeyWidth {
    value_bytes: 0,
    onesweep: kernels::SORT_ONESWEEP_U64_KEYS_ONLY,
    ..WIDE
};
/// Keys of 32 bits without values.
pub(crate) const NARROW_KEYS_ONLY: KeyWidth = KeyWidth {
    value_bytes: 0,
    onesweep: kernels::SORT_ONESWEEP_U32_KEYS_ONLY,
    ..NARROW
};
const ONESWEEP_THREADS: u32 = 384;

/// A digit: its first bit, and its number of bits.
type Digit = (u32, u32);

/// Passes of a sort by keys that differ in `varying` bits.
pub(crate) fn passes(varying: u64) -> usize {
    digits(varying).len()
}

/// Digits that cover the bits in which keys differ, the lowest first.
fn digits(varying: u64) -> Vec<Digit> {
    let mut digits = vec![];
    let mut left = varying;
    while left != 0 {
        let first = left.trailing_zeros();
        let bits = DIGIT_BITS.min(u64::BITS - first);
        digits.push((first, bits));
        left = match first + bits {
            u64::BITS => 0,
            next => left >> next << next,
        };
    }
    digits
}

/// Row ids sorted by group (of `groups.1` groups), then by key, then by row id, without rows that can match
/// nothing.
pub(crate) fn sort(
    stream: &Arc<Stream>,
    rows: usize,
    key: Option<&Keys>,
    groups: Option<(&Buffer<u32>, u32)>,
    not_null: &[&Keys],
) -> Result<OrderedRows> {
    check_chunk_rows(rows)?;
    let mut kept: Option<Memory> = match groups {
        Some((ids, _)) => Some(rows::bits_of_groups(stream, memory(ids)?, rows)?),
        None => None,
    };
    for keys in key.into_iter().chain(not_null.iter().copied()) {
        if let Some(valid) = valid_memory(keys.valid.as_ref())? {
            kept = Some(match kept {
                Some(kept) => rows::bits_and(stream, &kept, valid, rows)?,
                None => rows::bits_and(stream, valid, valid, rows)?,
            });
        }
    }
    let mut ids = match kept {
        Some(kept) => Some(rows::select(stream, &kept, rows, None)?),
        None => None,
    };
    let n = ids.as_ref().map_or(rows, Buffer::len);
    check_sortable(n)?;
    let mut keys = None;
    if let Some(key) = key {
        let words = memory(&key.values)?;
        let gathered = match &ids {
            Some(ids) => Some(rows::gather_values(stream, words, memory(ids)?, n, 8)?),
            None => None,
        };
        let unsorted = gathered.as_ref().unwrap_or(words);
        let varying = match n > 1 {
            true => varying_bits(stream, unsorted, n)?,
            false => 0,
        };
        let start = ids.as_ref().map(memory).transpose()?;
        let sorted = sort_pairs(stream, WIDE, unsorted.into(), start, n, varying)?;
        if let Some((sorted, by_key)) = sorted {
            (keys, ids) = (Some(sorted), Some(Buffer::cuda(by_key, n)));
        } else {
            keys = match gathered {
                Some(gathered) => Some(gathered),
                // The keys are all equal, or there are none: they are sorted already, and the result needs a copy.
                None => {
                    let all = rows::sequence(stream, 0, n)?;
                    Some(rows::gather_values(stream, words, memory(&all)?, n, 8)?)
                }
            };
        }
    }
    let mut rows = match ids {
        Some(ids) => ids,
        None => rows::sequence(stream, 0, n)?,
    };
    let mut segments = None;
    if let Some((group_ids, groups)) = groups {
        let of_rows = rows::gather_values(stream, memory(group_ids)?, memory(&rows)?, n, 4)?;
        // Ids are dense, so they differ in their low bits only.
        let varying = match n > 1 {
            true => u64::from(groups).next_power_of_two() - 1,
            false => 0,
        };
        let unsorted = Part::from(&of_rows);
        let sorted = sort_pairs(stream, NARROW, unsorted, Some(memory(&rows)?), n, varying)?;
        let ids_in_order = match sorted {
            Some((in_order, by_group)) => {
                rows = Buffer::cuda(by_group, n);
                if let (Some(_), Some(key)) = (&keys, key) {
                    keys = Some(rows::gather_values(
                        stream,
                        memory(&key.values)?,
                        memory(&rows)?,
                        n,
                        8,
                    )?);
                }
                in_order
            }
            None => of_rows,
        };
        segments = Some(find_segments(stream, &ids_in_order, n, groups)?);
    }
    Ok(OrderedRows {
        rows,
        keys: keys.map(|keys| Buffer::cuda(keys, n)),
        segments,
    })
}

/// The first position of each group in ascending group ids, and the end.
fn find_segments(stream: &Arc<Stream>, ids: &Memory, n: usize, groups: u32) -> Result<Buffer<u32>> {
    let markers = groups as usize + 1;
    let out = stream.alloc(markers * 4, "segments")?;
    let args = (ids.into(), (n as u32).into(), groups.into(), (&out).into());
    // SAFETY: `ids` holds n ids below `groups`, `out` one word more than groups.
    unsafe {
        stream.launch(
            kernels::SORT_SEGMENTS,
            Shape::blocks_of(n + markers, 4096, 256),
            &args,
        )?
    };
    Ok(Buffer::cuda(out, markers))
}

/// Sorts pairs by their keys, which differ at most in `varying` bits; `None` when all keys are equal. `rows` are
/// row ids or other values of the width's bytes, 0, 1, … where not given. With a width without values they are
/// neither read nor written.
pub(crate) fn sort_pairs(
    stream: &Arc<Stream>,
    width: KeyWidth,
    keys: Part<'_>,
    rows: Option<&Memory>,
    n: usize,
    varying: u64,
) -> Result<Option<(Memory, Memory)>> {
    let digits = digits(varying);
    if digits.is_empty() {
        return Ok(None);
    }
    let starts = stream.zeroed((digits.len() * DIGITS + 1) * 4, "sort scratch")?;
    let byte_each = |of: fn(&Digit) -> u32| {
        digits
            .iter()
            .enumerate()
            .fold(0u64, |bytes, (pass, digit)| {
                bytes | u64::from(of(digit)) << (8 * pass)
            })
    };
    let args = (
        keys.into(),
        (n as u32).into(),
        (digits.len() as u32).into(),
        byte_each(|(first, _)| *first).into(),
        byte_each(|(_, bits)| *bits).into(),
        (&starts).into(),
        starts.word(digits.len() * DIGITS)?.into(),
    );
    // SAFETY: `keys` holds n keys of the kernel's width; `starts` 256 words for each pass and the count of blocks,
    // all zero.
    unsafe { stream.launch(width.histogram, stream.strips(n / 8 + 1), &args)? };

    let tiles = n.div_ceil(width.tile);
    let lookback_words = tiles * DIGITS + 1;
    let mut from: Option<(Memory, Memory)> = None;
    let mut spare: Option<(Memory, Memory)> = None;
    for (pass, (first_bit, bits)) in digits.iter().enumerate() {
        let lookback = stream.zeroed(lookback_words * 4, "sort scratch")?;
        let to = match spare.take() {
            Some(spare) => spare,
            None => (
                stream.alloc(n * width.bytes, "sorted keys")?,
                stream.alloc(n * width.value_bytes, "sorted rows")?,
            ),
        };
        let (keys_in, rows_in) = match &from {
            Some((keys, rows)) => (keys.into(), Some(rows)),
            None => (keys, rows),
        };
        let args = (
            keys_in.into(),
            rows_in.into(),
            0u32.into(),
            (n as u32).into(),
            (&to.0).into(),
            (&to.1).into(),
            starts.word(pass * DIGITS)?.into(),
            0u64.into(),
            (*first_bit).into(),
            (*bits).into(),
            (&lookback).into(),
            lookback.word(tiles * DIGITS)?.into(),
        );
        let shape = Shape::blocks_of(n, width.tile, ONESWEEP_THREADS);
        // SAFETY: inputs and outputs hold n pairs and do not overlap; the look-back holds 256 words for each tile
        // and the number of the next tile, all zero; `starts` are those of this pass.
        unsafe { stream.launch(width.onesweep, shape, &args)? };
        spare = from.replace(to);
    }
    Ok(from)
}

/// The bits in which not all of `n` keys agree.
pub(crate) fn varying_bits(stream: &Arc<Stream>, keys: &Memory, n: usize) -> Result<u64> {
    let varying = stream.zeroed(8, "sort scratch")?;
    add_varying_bits(stream, keys.into(), n, varying.part(0)?)?;
    stream.read_word(&varying, 0)
}

/// The same, added to a word in device memory.
pub(crate) fn add_varying_bits(
    stream: &Stream,
    keys: Part<'_>,
    n: usize,
    varying: Part<'_>,
) -> Result<()> {
    let args = (keys.into(), (n as u32).into(), varying.into());
    // SAFETY: `keys` holds n words, and `varying` is one word.
    unsafe { stream.launch(kernels::SORT_VARYING_BITS, stream.strips(n / 4 + 1), &args) }
}

#[cfg(test)]
mod tests {
    use super::digits;

    #[test]
    fn digits_cover_the_varying_bits_and_no_more_than_needed() {
        assert_eq!(digits(0), []);
        assert_eq!(digits(0b1000), [(3, 8)]);
        assert_eq!(digits(u64::MAX).len(), 8);
        assert_eq!(digits(1 << 63), [(63, 1)]);
        assert_eq!(digits(1 | 1 << 40), [(0, 8), (40, 8)]);
        for varying in [
            0xFFFF_0000_0000_FFFF,
            0x0FF0_0001_8000_0001,
            0x8000_0000_0000_0001,
        ] {
            let covered = digits(varying).iter().fold(0u64, |bits, (first, len)| {
                bits | ((1u64 << len) - 1) << first
            });
            assert_eq!(varying & !covered, 0, "{varying:x}");
        }
    }
}
