//! One bit for each element of a small universe: the overlap of two sets is counted on their bits, pair by pair (BI,
//! naive: \[B\] 6.2.1).
//!
//! A pair ends early: containment at the first missing element, an overlap when the remaining bits cannot reach the
//! threshold.

use crate::device::data::results::SetTally;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::block::{Block, SetSearch, Technique};
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::binary_matrix::{BinaryMatrix, shared};
use crate::error::Result;

/// Words between two tests for an early end.
const STEP: usize = 16;

/// The index of technique `bitmap`: the binary matrix of the indexed sets.
#[derive(Debug)]
pub(crate) struct Bitmap {
    matrix: BinaryMatrix,
}

impl Bitmap {
    pub(crate) fn new(
        sets: &Sets,
        universe: usize,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        Ok(Self {
            matrix: BinaryMatrix::new(sets, 0..universe, check_cancelled)?,
        })
    }
}

/// Whether the rows share at least `least` bits. `left`: the number of bits of `a`.
#[inline(always)]
fn share(a: &[u64], b: &[u64], least: u32, mut left: u32) -> bool {
    let mut count = 0;
    for (a, b) in a.chunks(STEP).zip(b.chunks(STEP)) {
        count += shared(a, b);
        if count >= least {
            return true;
        }
        left -= a.iter().map(|word| word.count_ones()).sum::<u32>();
        if count + left < least {
            return false;
        }
    }
    count >= least
}

/// Whether `outer` has every bit of `inner`.
#[inline(always)]
fn is_in(inner: &[u64], outer: &[u64]) -> bool {
    let missing = |(inner, outer): (&[u64], &[u64])| {
        let words = inner.iter().zip(outer);
        words.fold(0, |missing, (inner, outer)| missing | inner & !outer) != 0
    };
    !inner.chunks(STEP).zip(outer.chunks(STEP)).any(missing)
}

impl Technique for Bitmap {
    /// The bits of the probe set.
    type Scratch = BinaryMatrix;

    fn scratch(&self, _: &Sets) -> BinaryMatrix {
        BinaryMatrix::empty(1, self.matrix.words, 0)
    }

    fn scratch_bytes(&self, _: &Sets) -> u64 {
        self.matrix.words as u64 * 8
    }

    fn block<S: Sink>(
        &self,
        search: &SetSearch<'_>,
        block: &Block,
        bits: &mut BinaryMatrix,
        sink: &mut S,
    ) -> Result<SetTally> {
        let mut tally = SetTally::default();
        search.for_each_set(block, sink, |i, at, window, sink| {
            let elements = search.probe.get(at);
            let known = elements.len() as u32;
            bits.set_row(0, elements);
            let row = bits.row(0);
            let indexed_contains = search.test.indexed_contains();
            tally.candidates += search.test_each(
                (i, at),
                window,
                sink,
                #[inline(always)]
                |position, least| {
                    let other = self.matrix.row(position);
                    match (search.test.is_containment(), indexed_contains) {
                        (true, true) => is_in(row, other),
                        (true, false) => is_in(other, row),
                        (false, _) => share(row, other, least, known),
                    }
                },
            );
        })?;
        tally.verified = tally.candidates;
        Ok(tally)
    }
}
