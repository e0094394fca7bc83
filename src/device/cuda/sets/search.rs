//! [`Search`]: the encoded sets of both sides and the predicate, and the launches that test candidates. Launches are
//! short enough for a query to be cancelled between them.

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

/// The inputs of a search.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) queue: &'a Arc<Stream>,
    /// Called between launches; its error ends the search.
    pub(crate) go_on: &'a dyn Fn() -> Result<()>,
    pub(crate) measure: &'a Measure,
    pub(crate) probe: &'a Sets,
    pub(crate) indexed: &'a Sets,
    /// The half of the pairs that is tested if both sides are the same sets.
    pub(crate) half: Option<Half>,
}

/// Runs the launches of a search, which write matches to a target.
type Run<'a> = Box<dyn Fn(&Target<'_>) -> Result<()> + 'a>;

/// A search that is ready to run, again if the buffer for its matches was too small.
pub(crate) struct Prepared<'a> {
    /// Pairs that the technique proposes.
    pub(crate) candidates: u64,
    pub(crate) run: Run<'a>,
}

/// Numbered candidates from inverted lists: each probe has consecutive ones, from its place in the lists on.
pub(crate) struct Probes {
    /// First list item of each probe.
    starts: Memory,
    /// First candidate number of each probe, and the end.
    offsets: Buffer<u64>,
    count: usize,
    pub(crate) total: u64,
}

/// Candidates of the first launch from lists.
const FIRST_CANDIDATES: usize = 1 << 26;
/// Tests of a few words in the first launch of a kernel that tests pairs.
const FIRST_TESTS: u64 = 1 << 34;
/// Candidates of any launch, at most.
const MOST_CANDIDATES: usize = 1 << 30;

impl<'a> Search<'a> {
    /// The `Join` of the kernels for launches that begin at probe set `first`.
    pub(crate) fn join(&self, first: usize, to: &Target<'_>) -> Structure<17> {
        let by = (self.measure, self.half);
        join(by, self.probe, first, self.indexed, to)
    }

    /// The window of each probe set: the range of indexed sets that may match by group and size.
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
        // SAFETY: the structures are of sets and a measure; groups are those of the index, each of which has a segment;
        // sizes are those of the indexed sets; `lo` and `hi` hold n words.
        unsafe { self.queue.launch_given(kernel, Shape::each(n), &args)? };
        Ok(Ranges {
            lo: Buffer::cuda(lo, n),
            hi: Buffer::cuda(hi, n),
        })
    }

    /// The scanned numbers of pairs in windows, and their sum.
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

    /// Probes that begin at `starts` and have `counts` candidates each, `count` probes.
    pub(crate) fn probes(&self, starts: Memory, counts: Memory, count: usize) -> Result<Probes> {
        let offsets = self.queue.scan_offsets(&Buffer::cuda(counts, count))?;
        Ok(Probes {
            starts,
            total: self.total(&offsets)?,
            offsets,
            count,
        })
    }

    /// Launches a kernel that tests candidates, some numbers at a time; `rest` are its arguments after probes and join.
    ///
    /// # Safety
    /// The kernel takes probes, a join and `rest`, whose addresses hold what it reads for these probes and sets.
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
            // SAFETY: the caller's promise; probes have `total` candidates, of which these are some.
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

    /// Launches a kernel whose blocks take `together` probe sets each, some sets at a time, in `slices(blocks)` slices
    /// of the indexed side; `rest` are its arguments after the join. A pair of sets takes as long as `cost` tests of a
    /// few words.
    ///
    /// # Safety
    /// The kernel takes a join and `rest`, whose addresses hold what it reads for these sets.
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
        // About as many pairs as the first launch should test.
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
                // SAFETY: the caller's promise; blocks begin with an existing set.
                unsafe { self.queue.launch_given(kernel, shape, &args) }
            })
    }
}
