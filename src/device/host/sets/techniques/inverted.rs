//! A static inverted index with overlap counts: sf-gSSJoin (\[B\] 5.1.1 and 6.2.1).
//!
//! The index has all elements of all indexed sets. A probe set scans the postings of its elements and counts the
//! occurrences of each indexed set. The count is the exact overlap, so nothing is verified. Only the length filter
//! limits the postings. The cost does not depend on the threshold, so this technique suits low ones.

use crate::device::data::results::SetTally;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::block::{Block, SetSearch, Technique};
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::postings::Postings;
use crate::error::Result;

/// The index of technique `inverted_index`: the postings of all elements.
#[derive(Debug)]
pub(crate) struct InvertedIndex {
    postings: Postings,
}

impl InvertedIndex {
    pub(crate) fn new(
        sets: &Sets,
        universe: usize,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        Ok(Self {
            postings: Postings::new(sets, universe, <[u32]>::len, check_cancelled)?,
        })
    }

    pub(crate) fn bytes(sets: &Sets, universe: usize) -> u64 {
        (sets.elements.len() + universe) as u64 * 4
    }
}

/// The overlap with each indexed position, and the positions with at least one shared element.
#[derive(Debug)]
pub(crate) struct OverlapCounts {
    counts: Vec<u32>,
    positions: Vec<u32>,
}

impl Technique for InvertedIndex {
    type Scratch = OverlapCounts;

    fn scratch(&self, indexed: &Sets) -> OverlapCounts {
        OverlapCounts {
            counts: vec![0; indexed.len()],
            positions: vec![],
        }
    }

    fn scratch_bytes(&self, indexed: &Sets) -> u64 {
        indexed.len() as u64 * 8
    }

    fn block<S: Sink>(
        &self,
        search: &SetSearch<'_>,
        block: &Block,
        met: &mut OverlapCounts,
        sink: &mut S,
    ) -> Result<SetTally> {
        let mut tally = SetTally::default();
        search.for_each_set(block, sink, |i, at, window, sink| {
            let size = search.probe.size(at);
            let holds = |overlap: u32, position: usize| {
                let other = search.indexed.size(position);
                search.test.holds(u64::from(overlap), size, other)
            };
            'elements: for element in search.probe.get(at) {
                for position in self.postings.of(*element, window) {
                    let count = &mut met.counts[*position as usize];
                    if *count == 0 {
                        met.positions.push(*position);
                    }
                    *count += 1;
                    // For existence the threshold suffices: a greater overlap holds, too.
                    if S::FIRST_ONLY && holds(*count, *position as usize) {
                        break 'elements;
                    }
                }
            }
            tally.candidates += met.positions.len() as u64;
            for position in met.positions.drain(..) {
                let position = position as usize;
                let overlap = std::mem::take(&mut met.counts[position]);
                if holds(overlap, position) {
                    sink.found(i, position);
                }
            }
        })?;
        Ok(tally)
    }
}
