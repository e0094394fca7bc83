//! [`Search`]: sets of both sides that are compared, and the launches that do it, in pieces between which a query may end.

use std::sync::Arc;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::launch::{Arg, Given, Shape, Structure};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::predicate::{Half, Measure, Target, join};
use crate::device::data::buffer::Buffer;
use crate::device::data::ranges::Ranges;
use crate::error::Result;

/// Both sides of a search.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) queue: &'a Arc<Stream>,
    pub(crate) go_on: &'a dyn Fn() -> Result<()>,
    pub(crate) measure: &'a Measure,
    pub(crate) probe: &'a Sets,
    pub(crate) indexed: &'a Sets,
    /// Where both sides are the same sets.
    pub(crate) half: Option<Half>,
}

/// Hands out the matches.
type Run<'a> = Box<dyn Fn(&Target<'_>) -> Result<()> + 'a>;

/// A search that can be run, once for each place where its matches might have room.
pub(crate) struct Prepared<'a> {
    /// Pairs that are proposed.
    pub(crate) candidates: u64,
    pub(crate) run: Run<'a>,
}

/// Candidates from lists, numbered: those of each probe begin at a place in the lists.
pub(crate) struct Probes {
    starts: Memory,
    offsets: Buffer<u64>,
    count: usize,
    pub(crate) total: u64,
}

/// Candidates of the first launch, and those of any.
const FIRST_CANDIDATES: usize = 1 << 26;
/// Tests of a few words in the first launch of a kernel that tests pairs.
const FIRST_TESTS: u64 = 1 << 34;
const MOST_CANDIDATES: usize = 1 << 30;

impl<'a> Search<'a> {
    pub(crate) fn join(&self, first: usize, to: &Target<'_>) -> Structure<17> {
        let by = (self.measure, self.half);
        join(by, self.probe, first, self.indexed, to)
    }

    /// The indexed sets that each searching set may match by group and size.
    pub(crate) fn windows(&self) -> Result<Ranges> {
        let n = self.probe.len;
        let lo = self.queue.alloc(n * 4, "range bounds")?;
        let hi = self.queue.alloc(n * 4, "range bounds")?;
        let (probe, measure) = (self.probe.structure(), self.measure.structure());
        let [groups, segments] = self.probe.groups_in(self.indexed);
        let args = [
            Given::Four(&probe),
            groups.into(),
            segments.into(),
            (&self.indexed.sizes).into(),
            (self.indexed.len as u32).into(),
            Given::Three(&measure),
            Half::of_windows(self.half).into(),
            (&lo).into(),
            (&hi).into(),
        ];
        let kernel = "set_matches_windows";
        // SAFETY: the structures are of sets and a measure; groups are those of the index, each of which has a segment; sizes are
        // those of the indexed sets; `lo` and `hi` hold n words.
        unsafe { self.queue.launch_given(kernel, Shape::each(n), &args)? };
        Ok(Ranges {
            lo: Buffer::cuda(lo, n),
            hi: Buffer::cuda(hi, n),
        })
    }

    /// Pairs in windows.
    pub(crate) fn pairs_in(&self, windows: &Ranges) -> Result<(Buffer<u64>, u64)> {
        let counts = self.queue.range_counts(windows, false)?;
        let offsets = self.queue.scan_offsets(&counts)?;
        let total = self.total(&offsets)?;
        Ok((offsets, total))
    }

    fn total(&self, offsets: &Buffer<u64>) -> Result<u64> {
        let words = memory(offsets)?;
        self.queue.read_word(words, offsets.len() - 1)
    }

    /// Probes that begin at `starts` and have `counts` candidates each.
    pub(crate) fn probes(&self, starts: Memory, counts: Memory, count: usize) -> Result<Probes> {
        let offsets = self.queue.scan_offsets(&Buffer::cuda(counts, count))?;
        Ok(Probes {
            starts,
            total: self.total(&offsets)?,
            offsets,
            count,
        })
    }

    /// Launches a kernel that tests candidates, piece by piece; `rest` are its arguments after probes and join.
    ///
    /// # Safety
    /// The kernel takes probes, a join and `rest`, of which addresses hold what it reads for these probes and sets.
    pub(crate) unsafe fn test_candidates(
        &self,
        kernel: &'static str,
        probes: &Probes,
        to: &Target<'_>,
        rest: &[Given<'_>],
    ) -> Result<()> {
        let join = self.join(0, to);
        let offsets = memory(&probes.offsets)?;
        let total = probes.total as usize;
        let most = 4 * self.queue.gpu.multiprocessors;
        let test = |from: usize, len: usize| {
            let of = Structure([
                (&probes.starts).into(),
                offsets.into(),
                (from as u64).into(),
                Arg::from((len as u32, probes.count as u32)),
            ]);
            let mut args = vec![Given::Four(&of), Given::Join(&join)];
            args.extend_from_slice(rest);
            let mut shape = Shape::blocks_of(len + probes.count, 4092, 256);
            shape.blocks = shape.blocks.min(most);
            // SAFETY: the caller's promise; probes have so many candidates, of which these are some.
            unsafe { self.queue.launch_given(kernel, shape, &args) }
        };
        self.queue
            .in_launches(total, 1, FIRST_CANDIDATES, self.go_on, |from, len| {
                let pieces = (from..from + len).step_by(MOST_CANDIDATES);
                for piece in pieces {
                    test(piece, MOST_CANDIDATES.min(from + len - piece))?;
                }
                Ok(())
            })
    }

    /// Launches a kernel whose blocks take `together` searching sets each, some sets at a time, in slices; `rest` are its
    /// arguments after the join. A pair of sets takes as long as `cost` tests of a few words.
    ///
    /// # Safety
    /// The kernel takes a join and `rest`, of which addresses hold what it reads for these sets.
    pub(crate) unsafe fn test_windows(
        &self,
        kernel: &'static str,
        together: usize,
        cost: f64,
        slices: &dyn Fn(usize) -> usize,
        to: &Target<'_>,
        rest: &[Given<'_>],
    ) -> Result<()> {
        let sets = self.probe.len;
        // About as many pairs as a launch should test, for the first one.
        let tested = (FIRST_TESTS as f64 / cost.max(1.0)) as usize;
        let first = (tested / self.indexed.len.max(1)).clamp(together, 1 << 24);
        self.queue
            .in_launches(sets, together, first, self.go_on, |from, count| {
                let blocks = count.div_ceil(together);
                let join = self.join(from, to);
                let mut args = vec![Given::Join(&join)];
                args.extend_from_slice(rest);
                let mut shape = Shape::blocks_of(count, together, 256);
                shape.slices = slices(blocks).clamp(1, 65_535) as u32;
                // SAFETY: the caller's promise; blocks begin with a set that there is.
                unsafe { self.queue.launch_given(kernel, shape, &args) }
            })
    }
}
