//! Words of two numbers, by which sets are sorted (`kernels/sets/set_words.cuh`): 32 bits if both numbers fit,
//! otherwise 64. Sorts of such words, the removal of duplicates, and the offsets of upper numbers.

use std::sync::Arc;

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::keys::sort::{
    self, KeyWidth, NARROW, NARROW_KEYS_ONLY, WIDE, WIDE_KEYS_ONLY,
};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::Structure;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::error::Result;

/// The layout of a word: the upper number above the bits of the lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packing {
    lower_bits: u32,
    upper_bits: u32,
}

/// The number of bits of numbers below `count`.
fn bits_of(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// A mask of the bits in which numbers below `count` may differ.
pub(crate) fn bits_below(count: usize) -> u64 {
    (1 << bits_of(count)) - 1
}

impl Packing {
    /// The layout for upper numbers below `uppers`, and lower ones below `lowers` or none.
    pub(crate) fn of(uppers: usize, lowers: usize) -> Self {
        let upper_bits = bits_of(uppers);
        Self {
            lower_bits: 0,
            upper_bits,
        }
        .with_lowers(lowers)
    }

    /// The same with lower numbers below another count, or none.
    pub(crate) fn with_lowers(self, lowers: usize) -> Self {
        Self {
            lower_bits: bits_of(lowers + 1),
            ..self
        }
    }

    /// Whether words have 64 bits.
    fn is_wide(self) -> bool {
        self.lower_bits + self.upper_bits > 32 || self.lower_bits == 32
    }

    /// Bytes of a word.
    pub(crate) fn bytes(self) -> usize {
        match self.is_wide() {
            true => 8,
            false => 4,
        }
    }

    /// The sort of words with row numbers beside them.
    fn with_row_ids(self) -> KeyWidth {
        match self.is_wide() {
            true => WIDE,
            false => NARROW,
        }
    }

    /// The sort of words alone.
    fn keys_only(self) -> KeyWidth {
        match self.is_wide() {
            true => WIDE_KEYS_ONLY,
            false => NARROW_KEYS_ONLY,
        }
    }

    /// A mask of the bits of upper numbers.
    pub(crate) fn upper(self) -> u64 {
        self.all() & !self.lower()
    }

    /// A mask of the bits of both numbers.
    pub(crate) fn all(self) -> u64 {
        let others = u64::BITS - self.lower_bits - self.upper_bits;
        u64::MAX.checked_shr(others).unwrap_or(0)
    }

    fn lower(self) -> u64 {
        (1 << self.lower_bits) - 1
    }
}

/// `n` words of one layout in device memory.
pub(crate) struct Words {
    pub(crate) memory: Memory,
    pub(crate) n: usize,
    pub(crate) packing: Packing,
}

impl Words {
    /// The `Words` of the kernels.
    pub(crate) fn structure(&self) -> Structure<2> {
        let Packing { lower_bits, .. } = self.packing;
        let wide = u32::from(self.packing.is_wide());
        Structure([(&self.memory).into(), (lower_bits, wide).into()])
    }
}

/// Allocates `n` words.
pub(crate) fn words(stream: &Arc<Stream>, packing: Packing, n: usize) -> Result<Words> {
    Ok(Words {
        memory: stream.alloc(n * packing.bytes(), "elements of sets")?,
        n,
        packing,
    })
}

/// Words sorted by the bits of mask `by`; a stable sort.
pub(crate) fn sorted_words(
    stream: &Arc<Stream>,
    words: Words,
    by: fn(Packing) -> u64,
) -> Result<Words> {
    let Words { memory, n, packing } = words;
    let sorted = match n {
        0 | 1 => None,
        _ => sort::sort_pairs(
            stream,
            packing.keys_only(),
            (&memory).into(),
            None,
            n,
            by(packing),
        )?,
    };
    let memory = sorted.map_or(memory, |(sorted, _)| sorted);
    Ok(Words { memory, n, packing })
}

/// The same with the former position of each word; `None` if the order did not change.
pub(crate) fn sorted_with_row_ids(
    stream: &Arc<Stream>,
    words: Words,
    by: fn(Packing) -> u64,
) -> Result<(Words, Option<Buffer<u32>>)> {
    let Words { memory, n, packing } = words;
    let width = packing.with_row_ids();
    let sorted = match n {
        0 | 1 => None,
        _ => sort::sort_pairs(stream, width, (&memory).into(), None, n, by(packing))?,
    };
    let (memory, rows) = match sorted {
        Some((sorted, rows)) => (sorted, Some(Buffer::cuda(rows, n))),
        None => (memory, None),
    };
    Ok((Words { memory, n, packing }, rows))
}

/// Sorted words without duplicates, and without words that have no lower number.
pub(crate) fn without_duplicates(stream: &Arc<Stream>, words: Words) -> Result<Words> {
    let n = words.n;
    if n == 0 {
        return Ok(words);
    }
    let heads = stream.alloc(bitmap_bytes(n), "elements of sets")?;
    let given = words.structure();
    let args = ((&given).into(), (n as u32).into(), (&heads).into());
    // SAFETY: `words` are n, `heads` holds n bits.
    unsafe { stream.launch(kernels::SET_ENCODE_HEADS, Shape::rows(n), &args)? };
    let (offsets, kept) = rows::select_offsets(stream, &heads, n)?;
    if kept == n {
        return Ok(words);
    }
    let rows = rows::select_at(stream, &heads, n, &offsets, kept, None)?;
    let bytes = words.packing.bytes();
    Ok(Words {
        memory: rows::gather_values(stream, &words.memory, memory(&rows)?, kept, bytes)?,
        n: kept,
        packing: words.packing,
    })
}

/// The first word of each upper number below `count`, and the end.
pub(crate) fn upper_offsets(stream: &Arc<Stream>, words: &Words, count: usize) -> Result<Memory> {
    let offsets = stream.alloc((count + 1) * 4, "elements of sets")?;
    let given = words.structure();
    let args = (
        (&given).into(),
        (words.n as u32).into(),
        (count as u32).into(),
        (&offsets).into(),
    );
    let shape = Shape::each(count + 1);
    // SAFETY: there are `words.n` words; `offsets` holds one word more than the count.
    unsafe { stream.launch(kernels::SET_ENCODE_OFFSETS, shape, &args)? };
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_bits_of_the_greatest() {
        let counts = [0, 1, 2, 3, 4, 5, 1 << 20, (1 << 20) + 1];
        let bits = counts.map(bits_below);
        assert_eq!(bits, [0, 0, 1, 3, 3, 7, (1 << 20) - 1, (1 << 21) - 1]);
    }

    #[test]
    fn words_are_as_narrow_as_both_numbers_allow() {
        // One more lower number represents none.
        assert_eq!(Packing::of(1 << 17, 1 << 14).all(), u64::from(u32::MAX));
        for (uppers, lowers, bytes) in [
            (0, 0, 4),
            (1, 1, 4),
            (1 << 16, (1 << 16) - 1, 4),
            (1 << 16, 1 << 16, 8),
            ((1 << 16) + 1, (1 << 16) - 1, 8),
            (1, (1 << 31) - 1, 4),
            (1, (1 << 32) - 1, 8),
            ((1 << 32) - 1, (1 << 32) - 1, 8),
        ] {
            let packing = Packing::of(uppers, lowers);
            assert_eq!(packing.bytes(), bytes, "{uppers} and {lowers}");
            let greatest = (uppers as u64).saturating_sub(1) << packing.lower_bits | lowers as u64;
            assert_eq!(greatest & !packing.all(), 0);
            assert_eq!(packing.upper() & lowers as u64, 0);
            assert_eq!(packing.upper() | packing.lower(), packing.all());
        }
    }
}
