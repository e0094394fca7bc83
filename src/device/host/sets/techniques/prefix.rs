//! An inverted index on prefixes, with length and positional filters, then verification: PPJoin (\[B\] 4.1.2).
//!
//! Two sets that share enough elements share one among the first few of each, in an order common to all sets. The
//! rarest elements come first, so their postings are short. The ranks of a shared element in both sets bound the whole
//! overlap (the positional filter), by what a posting has itself: no set is looked at for it. The remaining candidates
//! are verified. This suits high thresholds.

use crate::device::data::results::SetTally;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::block::{Block, SetSearch, Technique};
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::postings::{Posting, Postings};
use crate::device::host::sets::techniques::verify::overlap_of_at_least;
use crate::error::Result;
use crate::ir::set_predicate::SetTest;

/// The index of technique `prefix`: the postings of prefixes.
#[derive(Debug)]
pub(crate) struct Prefix {
    postings: Postings<Ranked>,
    /// The number of distinct sizes.
    sizes: usize,
}

/// An element of the prefix of an indexed set, with all that the positional filter asks.
#[derive(Debug, Clone, Copy, Default)]
struct Ranked {
    position: u32,
    /// The rank of the set's size among the distinct sizes.
    class: u32,
    /// Elements of the set behind this one.
    behind: u32,
}

impl Posting for Ranked {
    fn position(&self) -> u32 {
        self.position
    }
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
        let classes: Vec<u32> = sets.sizes.iter().map(class).collect();
        let ranked = |position: usize, rank: usize| Ranked {
            position: position as u32,
            class: classes[position],
            behind: sets.sizes[position] - rank as u32 - 1,
        };
        Ok(Self {
            postings: Postings::of_postings(sets, universe, prefix, ranked, check_cancelled)?,
            sizes: sizes.len(),
        })
    }

    /// The most bytes of the index.
    pub(crate) fn bytes(sets: &Sets, universe: usize) -> u64 {
        (sets.elements.len() * 12 + universe * 8 + sets.len() * 8) as u64
    }
}

/// No overlap with sets of the class suffices; the least overlap is not computed yet.
const NEVER: u32 = u32::MAX;
const UNASKED: u32 = u32::MAX - 1;

/// A class that no size has.
const NO_CLASS: u32 = u32::MAX;

/// The candidates of one probe set.
#[derive(Debug)]
pub(crate) struct Candidates {
    /// By position, whether it is a candidate.
    is_met: Vec<bool>,
    /// Each candidate's position, and the least overlap with it.
    met: Vec<(u32, u32)>,
    /// The least overlap with sets of each class, for probe sets of `size`.
    needed: Vec<u32>,
    size: u64,
}

impl Candidates {
    /// The least overlap with sets of `class`, of which one is at `position`.
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

    /// Adds the sets of `postings` that may have enough elements in common, where `left` elements of the probe set are behind the shared one. A set
    /// whose first shared element leaves too few is rejected at the later ones, too, as these leave fewer.
    fn meet(&mut self, search: &SetSearch<'_>, postings: &[Ranked], left: u32) {
        let (mut class, mut needed) = (NO_CLASS, NEVER);
        for posting in postings {
            let at = posting.position as usize;
            if posting.class != class {
                class = posting.class;
                needed = self.needed(search, class, at);
            }
            if 1 + left.min(posting.behind) >= needed && !self.is_met[at] {
                self.is_met[at] = true;
                self.met.push((posting.position, needed));
            }
        }
    }
}

impl Technique for Prefix {
    type Scratch = Candidates;

    fn scratch(&self, indexed: &Sets) -> Candidates {
        Candidates {
            is_met: vec![false; indexed.len()],
            met: vec![],
            needed: vec![UNASKED; self.sizes],
            size: 0,
        }
    }

    fn scratch_bytes(&self, indexed: &Sets) -> u64 {
        (indexed.len() * 17 + self.sizes * 4) as u64
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
            for (rank, element) in elements[..front].iter().enumerate() {
                let left = (elements.len() - rank - 1) as u32;
                candidates.meet(search, self.postings.of(*element, window), left);
            }
            tally.candidates += candidates.met.len() as u64;
            for (position, needed) in candidates.met.drain(..) {
                let at = position as usize;
                candidates.is_met[at] = false;
                if sink.is_full(i) {
                    continue;
                }
                tally.verified += 1;
                let other = search.indexed.get(at);
                if overlap_of_at_least(elements, other, needed as usize).is_some() {
                    sink.found(i, at);
                }
            }
        })?;
        Ok(tally)
    }
}
