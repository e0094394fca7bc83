//! Binary matrices: a row of bits for each set, one bit for each element of the universe.

use crate::device::host::pace::{CancelCheck, Pace};
use crate::device::host::sets::encode::encoding::Sets;
use crate::error::Result;

/// The sets of one side as rows of bits.
#[derive(Debug)]
pub(crate) struct BinaryMatrix {
    /// Words in a row.
    pub(crate) words: usize,
    bits: Vec<u64>,
}

impl BinaryMatrix {
    /// Words of a row for a universe of `universe` elements.
    pub(crate) fn words_for(universe: usize) -> usize {
        universe.div_ceil(64).max(1)
    }

    /// The bytes of the matrix.
    pub(crate) fn bytes(sets: &Sets, universe: usize) -> u64 {
        (sets.len() * Self::words_for(universe)) as u64 * 8
    }

    pub(crate) fn new(
        sets: &Sets,
        universe: usize,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let mut pace = Pace::new(check_cancelled);
        let words = Self::words_for(universe);
        let mut matrix = Self {
            words,
            bits: vec![0; sets.len() * words],
        };
        for position in 0..sets.len() {
            set_bits(
                sets.get(position),
                &mut matrix.bits[position * words..][..words],
            );
            pace.step(sets.get(position).len() + 1)?;
        }
        Ok(matrix)
    }

    /// A matrix of `rows` empty sets.
    pub(crate) fn empty(rows: usize, words: usize) -> Self {
        Self {
            words,
            bits: vec![0; rows * words],
        }
    }

    pub(crate) fn row(&self, position: usize) -> &[u64] {
        &self.bits[position * self.words..(position + 1) * self.words]
    }

    /// Sets the bits of row `row` to those of a set.
    pub(crate) fn set_row(&mut self, row: usize, elements: &[u32]) {
        let bits = &mut self.bits[row * self.words..(row + 1) * self.words];
        bits.fill(0);
        set_bits(elements, bits);
    }
}

fn set_bits(elements: &[u32], bits: &mut [u64]) {
    for element in elements {
        bits[*element as usize / 64] |= 1 << (element % 64);
    }
}

/// The number of bits that are set in both rows.
#[inline(always)]
pub(crate) fn shared(a: &[u64], b: &[u64]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum()
}
