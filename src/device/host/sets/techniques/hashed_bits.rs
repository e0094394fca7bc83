//! Signatures: bits of hashed elements. They only reject pairs.

use crate::device::host::pace::{CancelCheck, Pace};
use crate::device::host::sets::encode::encoding::Sets;
use crate::error::Result;

/// The most words of a signature.
pub(crate) const MOST_WORDS: usize = 8;

/// A signature of `words` words for each set.
#[derive(Debug)]
pub(crate) struct Signatures {
    pub(crate) words: usize,
    bits: Vec<u64>,
}

impl Signatures {
    /// The number of words for sets of `mean` elements: about four bits for an element.
    pub(crate) fn words_for(mean: usize) -> usize {
        (mean * 4).div_ceil(64).next_power_of_two().min(MOST_WORDS)
    }

    pub(crate) fn bytes(sets: &Sets, words: usize) -> u64 {
        (sets.len() * words * 8) as u64
    }

    pub(crate) fn new(sets: &Sets, words: usize, check_cancelled: CancelCheck<'_>) -> Result<Self> {
        let mut pace = Pace::new(check_cancelled);
        let mut bits = vec![0; sets.len() * words];
        for (position, bits) in bits.chunks_exact_mut(words).enumerate() {
            sign(sets.get(position), bits);
            pace.step(sets.get(position).len() + 1)?;
        }
        Ok(Self { words, bits })
    }

    #[inline]
    pub(crate) fn get<const W: usize>(&self, position: usize) -> &[u64; W] {
        &self.bits.as_chunks::<W>().0[position]
    }

    pub(crate) fn of(&self, position: usize) -> &[u64] {
        &self.bits[position * self.words..(position + 1) * self.words]
    }
}

/// Writes the signature of a set to `bits`.
pub(crate) fn sign(elements: &[u32], bits: &mut [u64]) {
    let mask = bits.len() as u32 * 64 - 1;
    bits.fill(0);
    for element in elements {
        // Elements with neighbouring numbers are about equally frequent: the hash separates them.
        let hash = element.wrapping_mul(0x9E37_79B1).rotate_right(16) & mask;
        bits[hash as usize / 64] |= 1 << (hash % 64);
    }
}

/// Whether the first set may be contained in the second.
#[inline]
pub(crate) fn may_be_in(inner: &[u64], outer: &[u64]) -> bool {
    inner
        .iter()
        .zip(outer)
        .all(|(inner, outer)| inner & !outer == 0)
}
