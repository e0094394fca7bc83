//! An inverted index on prefixes, with length and positional filters, then verification: PPJoin (\[B\] 4.1.2).
//!
//! Two sets that share enough elements share one among the first few of each, in an order common to all sets. The
//! rarest elements come first, so their postings are short. The ranks of a shared element in both sets bound the whole
//! overlap (the positional filter). The remaining candidates are verified. This suits high thresholds.

use crate::device::data::results::SetTally;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::block::{Block, SetSearch, Technique};
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::postings::Postings;
use crate::device::host::sets::techniques::verify::overlap_of_at_least;
use crate::error::Result;
use crate::ir::set_predicate::SetTest;

/// The index of technique `prefix`: the postings of prefixes.
#[derive(Debug)]
pub(crate) struct Prefix {
    postings: Postings,
    /// For each position, the rank of its size among the distinct sizes.
    classes: Vec<u32>,
    sizes: usize,
}

impl Prefix {
    pub(crate) fn new(
        sets: &Sets,
        universe: usize,
        test: SetTest,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let mut sizes = sets.sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let class = |size: &u32| sizes.partition_point(|known| known < size) as u32;
        let prefixes: Vec<usize> = sizes
            .iter()
            .map(|size| match size {
                0 => 0,
                size => test.indexed_prefix(u64::from(*size)) as usize,
            })
            .collect();
        let prefix = |elements: &[u32]| prefixes[class(&(elements.len() as u32)) as usize];
        Ok(Self {
            postings: Postings::new(sets, universe, prefix, true, check_cancelled)?,
            classes: sets.sizes.iter().map(class).collect(),
            sizes: sizes.len(),
        })
    }

    /// The most bytes of the index.
    pub(crate) fn bytes(sets: &Sets, universe: usize) -> u64 {
        (sets.elements.len() * 8 + universe * 4 + sets.len() * 4) as u64
    }
}

/// No overlap with sets of the class suffices; the least overlap is not computed yet.
const NEVER: u32 = u32::MAX;
const UNASKED: u32 = u32::MAX - 1;

/// A candidate that the positional filter rejected.
const REJECTED: u32 = u32::MAX;

/// The candidates of one probe set.
#[derive(Debug)]
pub(crate) struct Candidates {
    /// By position, the elements that the prefixes share so far.
    shared: Vec<u32>,
    positions: Vec<u32>,
    /// The least overlap with sets of each class, for probe sets of `size`.
    needed: Vec<u32>,
    size: u64,
}

impl Candidates {
    fn needed(&mut self, search: &SetSearch<'_>, class: u32, position: usize) -> u32 {
        let needed = &mut self.needed[class as usize];
        if *needed == UNASKED {
            let least = search
                .test
                .least_overlap(self.size, search.indexed.size(position));
            *needed = least.map_or(NEVER, |least| least as u32);
        }
        *needed
    }
}

impl Technique for Prefix {
    type Scratch = Candidates;

    fn scratch(&self, indexed: &Sets) -> Candidates {
        Candidates {
            shared: vec![0; indexed.len()],
            positions: vec![],
            needed: vec![UNASKED; self.sizes],
            size: 0,
        }
    }

    fn scratch_bytes(&self, indexed: &Sets) -> u64 {
        (indexed.len() * 8 + self.sizes * 4) as u64
    }

    fn block<S: Sink>(
        &self,
        search: &SetSearch<'_>,
        block: &Block,
        candidates: &mut Candidates,
        sink: &mut S,
    ) -> Result<SetTally> {
        let mut tally = SetTally::default();
        search.for_each_set(block, sink, |i, at, window, sink| {
            let size = search.probe.size(at);
            if candidates.size != size {
                candidates.size = size;
                candidates.needed.fill(UNASKED);
            }
            let elements = search.probe.get(at);
            // Elements that no indexed set has come first: they are the rarest.
            let unknown = search.probe.unknown(at);
            let prefix = search
                .test
                .probe_prefix(size, search.indexed.size(window.start));
            let front = (prefix as usize)
                .saturating_sub(unknown)
                .min(elements.len());
            for (place, element) in elements[..front].iter().enumerate() {
                let left = elements.len() - place - 1;
                for (position, other_place) in self.postings.placed(*element, window) {
                    let at = position as usize;
                    let shared = candidates.shared[at];
                    if shared == REJECTED {
                        continue;
                    }
                    if shared == 0 {
                        candidates.positions.push(position);
                    }
                    let other_left = search.indexed.sizes[at] - other_place - 1;
                    let most = shared + 1 + (left as u32).min(other_left);
                    let needed = candidates.needed(search, self.classes[at], at);
                    candidates.shared[at] = if most >= needed { shared + 1 } else { REJECTED };
                }
            }
            tally.candidates += candidates.positions.len() as u64;
            let mut positions = std::mem::take(&mut candidates.positions);
            for position in positions.drain(..) {
                let at = position as usize;
                if std::mem::take(&mut candidates.shared[at]) == REJECTED || sink.is_full(i) {
                    continue;
                }
                tally.verified += 1;
                let needed = candidates.needed(search, self.classes[at], at) as usize;
                if overlap_of_at_least(elements, search.indexed.get(at), needed).is_some() {
                    sink.found(i, at);
                }
            }
            candidates.positions = positions;
        })?;
        Ok(tally)
    }
}
