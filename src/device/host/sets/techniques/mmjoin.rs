//! MMJoin (\[B\] 6.3.1): the overlaps in frequent (heavy) elements are counted on rows of bits, those in rare (light) ones by postings.
//!
//! Elements are numbered by ascending frequency, so the heavy ones come last. An element is heavy if reading its postings would take
//! longer than its bit of all pairs: the bound is the ratio of both costs.

use crate::device::data::results::SetTally;
use crate::device::host::pace::{CancelCheck, Pace};
use crate::device::host::sets::block::{Block, SetSearch, Technique};
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::binary_matrix::{BinaryMatrix, shared};
use crate::device::host::sets::techniques::postings::Postings;
use crate::error::Result;

/// A heavy element is in one in so many sets at least.
const HEAVY_SHARE: usize = 16;

/// The index of technique `mmjoin`.
#[derive(Debug)]
pub(crate) struct MmJoin {
    /// Bits of the heavy elements.
    matrix: BinaryMatrix,
    /// Of the light elements.
    postings: Postings,
    first_heavy: u32,
}

impl MmJoin {
    pub(crate) fn new(
        sets: &Sets,
        universe: usize,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let mut pace = Pace::new(check_cancelled);
        let mut frequencies = vec![0u32; universe];
        for position in 0..sets.len() {
            let elements = sets.get(position);
            elements.iter().for_each(|e| frequencies[*e as usize] += 1);
            pace.step(elements.len() + 1)?;
        }
        let is_light = |frequency: &u32| *frequency as usize * HEAVY_SHARE < sets.len();
        let first_heavy = frequencies.partition_point(is_light);
        let light = |elements: &[u32]| light_of(elements, first_heavy as u32);
        Ok(Self {
            matrix: BinaryMatrix::new(sets, first_heavy..universe, check_cancelled)?,
            postings: Postings::new(sets, universe, light, check_cancelled)?,
            first_heavy: first_heavy as u32,
        })
    }

    /// The most bytes: no element is in more than all sets, so a row has at most as many bits as sets have elements, `HEAVY_SHARE` times.
    pub(crate) fn bytes(sets: &Sets, universe: usize) -> u64 {
        let mean = sets.elements.len() / sets.len().max(1);
        let heavy = universe.min((mean + 1) * HEAVY_SHARE);
        BinaryMatrix::bytes(sets, heavy) + (sets.elements.len() + 2 * universe) as u64 * 4
    }
}

/// How many of a set's elements are light: they come first.
fn light_of(elements: &[u32], first_heavy: u32) -> usize {
    elements.partition_point(|element| *element < first_heavy)
}

/// The numbers of light common elements by indexed position, the positions with one at least, and the probe set's row.
#[derive(Debug)]
pub(crate) struct LightCounts {
    counts: Vec<u32>,
    positions: Vec<u32>,
    row: BinaryMatrix,
}

impl Technique for MmJoin {
    type Scratch = LightCounts;

    fn scratch(&self, indexed: &Sets) -> LightCounts {
        LightCounts {
            counts: vec![0; indexed.len()],
            positions: vec![],
            row: BinaryMatrix::empty(1, self.matrix.words, self.first_heavy),
        }
    }

    fn scratch_bytes(&self, indexed: &Sets) -> u64 {
        indexed.len() as u64 * 8 + self.matrix.words as u64 * 8
    }

    fn block<S: Sink>(
        &self,
        search: &SetSearch<'_>,
        block: &Block,
        met: &mut LightCounts,
        sink: &mut S,
    ) -> Result<SetTally> {
        let mut tally = SetTally::default();
        search.for_each_set(block, sink, |i, at, window, sink| {
            let elements = search.probe.get(at);
            let (light, heavy) = elements.split_at(light_of(elements, self.first_heavy));
            for element in light {
                for position in self.postings.of(*element, window) {
                    let count = &mut met.counts[*position as usize];
                    if *count == 0 {
                        met.positions.push(*position);
                    }
                    *count += 1;
                }
            }
            met.row.set_row(0, heavy);
            let (row, counts) = (met.row.row(0), &met.counts);
            tally.candidates += search.test_each(
                (i, at),
                window,
                sink,
                #[inline(always)]
                |position, least| {
                    let light = counts[position];
                    // Few light common elements leave too much to the heavy ones.
                    light + heavy.len() as u32 >= least
                        && light + shared(row, self.matrix.row(position)) >= least
                },
            );
            for position in met.positions.drain(..) {
                met.counts[position as usize] = 0;
            }
        })?;
        Ok(tally)
    }
}
