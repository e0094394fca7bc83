//! Blocks of probe sets, each with the window of indexed positions that the length filter leaves. In: the encoded sets
//! of both sides. Out: blocks for a technique; matches of empty sets go to the sink directly.

use std::ops::Range;

use pulp::Arch;

use crate::device::data::results::SetTally;
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::self_join::SelfJoinHalf;
use crate::error::Result;
use crate::ir::set_predicate::SetTest;

/// Probe sets in a block.
pub(crate) const BLOCK: usize = 64;

/// Both sides of a search.
pub(crate) struct SetSearch<'a> {
    pub(crate) indexed: &'a Sets,
    pub(crate) probe: &'a Sets,
    /// Group `g` has the indexed positions `segments[g] .. segments[g + 1]`.
    pub(crate) segments: &'a [u32],
    pub(crate) test: SetTest,
    /// In a self join, the half of the pairs that is tested.
    pub(crate) half: Option<SelfJoinHalf>,
    pub(crate) check_cancelled: &'a (dyn Fn() -> Result<()> + Sync),
}

/// A block of neighbouring probe sets.
pub(crate) struct Block {
    pub(crate) first: usize,
    /// For each probe set, the indexed positions whose sizes may match (\[B\]'s length filter). Windows have no empty
    /// indexed sets, and the window of an empty probe set is empty.
    pub(crate) windows: Vec<Range<usize>>,
}

/// An algorithm that finds the matches of non-empty sets.
pub(crate) trait Technique: Sync {
    /// The working memory of a thread, reused from block to block.
    type Scratch: Send;

    fn scratch(&self, indexed: &Sets) -> Self::Scratch;

    /// The bytes of a scratch.
    fn scratch_bytes(&self, indexed: &Sets) -> u64;

    fn block<S: Sink>(
        &self,
        search: &SetSearch<'_>,
        block: &Block,
        scratch: &mut Self::Scratch,
        sink: &mut S,
    ) -> Result<SetTally>;
}

impl SetSearch<'_> {
    /// After each probe set: checks for cancellation, and reserves memory for the matches in the sink.
    pub(crate) fn step(&self, sink: &mut impl Sink) -> Result<()> {
        (self.check_cancelled)()?;
        sink.settle()
    }

    /// Calls `each` with each probe set of `block` that may have further matches: its number in the block, its position,
    /// and its window. Does a [`step`](Self::step) after each of them.
    pub(crate) fn for_each_set<S: Sink>(
        &self,
        block: &Block,
        sink: &mut S,
        mut each: impl FnMut(usize, usize, &Range<usize>, &mut S),
    ) -> Result<()> {
        for (i, window) in block.windows.iter().enumerate() {
            if window.is_empty() || sink.is_full(i) {
                continue;
            }
            each(i, block.first + i, window, sink);
            self.step(sink)?;
        }
        Ok(())
    }

    /// The probe sets at `positions` as a block. Matches of empty sets are passed to the sink here.
    pub(crate) fn block(&self, positions: Range<usize>, sink: &mut impl Sink) -> Result<Block> {
        let first = positions.start;
        let mut windows: Vec<Range<usize>> = Vec::with_capacity(positions.len());
        let mut window = 0..0;
        for at in positions {
            let like_last = at > first
                && self.probe.sizes[at] == self.probe.sizes[at - 1]
                && self.probe.groups[at] == self.probe.groups[at - 1];
            let size = self.probe.size(at);
            let (segment, filled) = self.segment(at);
            for (empty, positions) in [(true, segment.start..filled), (false, filled..segment.end)]
            {
                if (empty || size == 0) && !positions.is_empty() {
                    // The actual size of a non-empty set does not matter here.
                    let holds = self.test.holds(0, size, u64::from(!empty));
                    let all = if holds { positions } else { 0..0 };
                    all.for_each(|position| sink.found(at - first, position));
                }
            }
            self.step(sink)?;
            if !like_last {
                window = match size {
                    0 => 0..0,
                    _ => self.window(size, filled..segment.end),
                };
            }
            windows.push(match self.half {
                Some(half) => half.of_window(at, &window),
                None => window.clone(),
            });
        }
        Ok(Block { first, windows })
    }

    /// The indexed positions of probe position `at`'s group, and the first of them with a non-empty set.
    fn segment(&self, at: usize) -> (Range<usize>, usize) {
        let group = self.probe.groups[at] as usize;
        let segment = self.segments[group] as usize..self.segments[group + 1] as usize;
        let empty = self.indexed.sizes[segment.clone()].partition_point(|size| *size == 0);
        let filled = segment.start + empty;
        (segment, filled)
    }

    /// The part of `positions`, which are ordered by size, that may match a set of `size`.
    fn window(&self, size: u64, positions: Range<usize>) -> Range<usize> {
        let sizes = &self.indexed.sizes[positions.clone()];
        let too_small =
            |other: &u32| u64::from(*other) < size && !self.test.may_hold(size, u64::from(*other));
        let not_too_large =
            |other: &u32| u64::from(*other) < size || self.test.may_hold(size, u64::from(*other));
        let low = sizes.partition_point(too_small);
        let high = sizes.partition_point(not_too_large).max(low);
        positions.start + low..positions.start + high
    }

    /// Calls `each` with each run of equal-sized sets in `window`, and the least overlap for that size.
    pub(crate) fn for_each_size(
        &self,
        size: u64,
        window: Range<usize>,
        mut each: impl FnMut(Range<usize>, u64),
    ) {
        let mut from = window.start;
        while from < window.end {
            let other = self.indexed.sizes[from];
            let rest = &self.indexed.sizes[from..window.end];
            let end = from + rest.partition_point(|size| *size == other);
            if let Some(least) = self.test.least_overlap(size, u64::from(other)) {
                each(from..end, least);
            }
            from = end;
        }
    }

    /// Passes to the sink each position of `window` that `matches` the probe set at `at`, the `i`th one of its block, and returns how many were tested.
    /// `matches` gets a position and the least overlap of its pair; it is compiled for the processor at hand.
    #[inline(always)]
    pub(crate) fn test_each<S: Sink>(
        &self,
        (i, at): (usize, usize),
        window: &Range<usize>,
        sink: &mut S,
        matches: impl Fn(usize, u32) -> bool,
    ) -> u64 {
        let known = self.probe.get(at).len() as u64;
        let mut tested = 0;
        let arch = Arch::new();
        self.for_each_size(self.probe.size(at), window.clone(), |run, least| {
            // Elements that no indexed set has are not shared.
            if least > known {
                return;
            }
            let least = least as u32;
            tested += run.len() as u64;
            arch.dispatch(
                #[inline(always)]
                || {
                    for position in run {
                        if matches(position, least) && !sink.is_full(i) {
                            sink.found(i, position);
                        }
                    }
                },
            );
        });
        tested
    }
}
