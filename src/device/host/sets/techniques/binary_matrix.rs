//! Binary matrices: a row of bits for each set, one bit for each element of the universe.

use std::ops::Range;

use crate::device::host::pace::{CancelCheck, Pace};
use crate::device::host::sets::encode::encoding::Sets;
use crate::error::Result;

/// The sets of one side as rows of bits.
#[derive(Debug)]
pub(crate) struct BinaryMatrix {
    /// Words in a row.
    pub(crate) words: usize,
    /// The element of the first bit.
    first: u32,
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

    /// Of the elements in `universe`, which has the last ones.
    pub(crate) fn new(
        sets: &Sets,
        universe: Range<usize>,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let mut pace = Pace::new(check_cancelled);
        let words = Self::words_for(universe.len());
        let mut matrix = Self {
            words,
            first: universe.start as u32,
            bits: vec![0; sets.len() * words],
        };
        for position in 0..sets.len() {
            matrix.set_row(position, sets.get(position));
            pace.step(sets.get(position).len() + 1)?;
        }
        Ok(matrix)
    }

    /// A matrix of `rows` empty sets.
    pub(crate) fn empty(rows: usize, words: usize, first: u32) -> Self {
        Self {
            words,
            first,
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
        for element in elements.iter().filter_map(|e| e.checked_sub(self.first)) {
            bits[element as usize / 64] |= 1 << (element % 64);
        }
    }
}

/// The number of bits that are set in both rows.
#[inline(always)]
pub(crate) fn shared(a: &[u64], b: &[u64]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum()
}
