//! [`Search`]: the encoded sets of both sides and the predicate, and the launches that test candidates. Launches are
//! short enough for a query to be cancelled between them.

use std::sync::Arc;

use crate::device::cuda::columns::scan;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::Structure;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::predicate::{Half, Join, Measure, Target, join};
use crate::device::cuda::theta::range;
use crate::device::data::buffer::Buffer;
use crate::device::data::ranges::Ranges;
use crate::error::Result;

/// The inputs of a search.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) stream: &'a Arc<Stream>,
    /// Called between launches; its error ends the search.
    pub(crate) check_cancelled: &'a dyn Fn() -> Result<()>,
    pub(crate) measure: &'a Measure,
    pub(crate) probe: &'a Sets,
    pub(crate) indexed: &'a Sets,
    /// The half of the pairs that is tested if both sides are the same sets.
    pub(crate) half: Option<Half>,
}

/// Runs the launches of a search, which write matches to a target.
type Run<'a> = Box<dyn Fn(&Target<'_>) -> Result<()> + 'a>;

/// A search that is ready to run, again if the buffer for its matches was too small.
pub(crate) struct PreparedProbe<'a> {
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
    /// Of all pairs of sets of one side.
    pub(crate) fn of_one_side(
        stream: &'a Arc<Stream>,
        check_cancelled: &'a dyn Fn() -> Result<()>,
        measure: &'a Measure,
        sets: &'a Sets,
    ) -> Self {
        Self {
            stream,
            check_cancelled,
            measure,
            probe: sets,
            indexed: sets,
            half: None,
        }
    }

    /// The `Join` of the kernels for launches that begin at probe set `first`.
    pub(crate) fn join(&self, first: usize, to: &Target<'_>) -> Join {
        let by = (self.measure, self.half);
        join(by, self.probe, first, self.indexed, to)
    }

    /// The window of each probe set: the range of indexed sets that may match by group and size.
    pub(crate) fn windows(&self) -> Result<Ranges> {
        let n = self.probe.len;
        let lo = self.stream.alloc(n * 4, "range bounds")?;
        let hi = self.stream.alloc(n * 4, "range bounds")?;
        let (probe, measure) = (self.probe.structure(), self.measure.structure());
        let [groups, segments] = self.probe.groups_in(self.indexed);
        let args = (
            (&probe).into(),
            groups.into(),
            segments.into(),
            (&self.indexed.sizes).into(),
            (self.indexed.len as u32).into(),
            (&measure).into(),
            Half::of_windows(self.half).into(),
            (&lo).into(),
            (&hi).into(),
        );
        let kernel = kernels::SET_MATCHES_WINDOWS;
        // SAFETY: the structures are of sets and a measure; groups are those of the index, each of which has a segment;
        // sizes are those of the indexed sets; `lo` and `hi` hold n words.
        unsafe { self.stream.launch(kernel, Shape::each(n), &args)? };
        Ok(Ranges {
            lo: Buffer::cuda(lo, n),
            hi: Buffer::cuda(hi, n),
        })
    }

    /// The scanned numbers of pairs in windows, and their sum.
    pub(crate) fn pairs_in(&self, windows: &Ranges) -> Result<(Buffer<u64>, u64)> {
        let counts = range::range_counts(self.stream, windows, false)?;
        let offsets = scan::scan_offsets(self.stream, &counts)?;
        let total = self.total(&offsets)?;
        Ok((offsets, total))
    }

    fn total(&self, offsets: &Buffer<u64>) -> Result<u64> {
        let words = memory(offsets)?;
        self.stream.read_word(words, offsets.len() - 1)
    }

    /// Probes that begin at `starts` and have `counts` candidates each, `count` probes.
    pub(crate) fn probes(&self, starts: Memory, counts: Memory, count: usize) -> Result<Probes> {
        let offsets = scan::scan_offsets(self.stream, &Buffer::cuda(counts, count))?;
        Ok(Probes {
            starts,
            total: self.total(&offsets)?,
            offsets,
            count,
        })
    }

    /// Tests the candidates of `probes`, some numbers at a time. `launch` launches a kernel in a shape with these probes
    /// and this join as its first arguments.
    pub(crate) fn test_candidates(
        &self,
        probes: &Probes,
        to: &Target<'_>,
        launch: &dyn Fn(Shape, &Structure<4>, &Join) -> Result<()>,
    ) -> Result<()> {
        let join = self.join(0, to);
        let offsets = memory(&probes.offsets)?;
        let total = probes.total as usize;
        let most = 4 * self.stream.gpu.multiprocessors;
        let test = |from: usize, len: usize| {
            let of = Structure([
                (&probes.starts).into(),
                offsets.into(),
                (from as u64).into(),
                (len as u32, probes.count as u32).into(),
            ]);
            let mut shape = Shape::blocks_of(len + probes.count, 4092, 256);
            shape.blocks = shape.blocks.min(most);
            launch(shape, &of, &join)
        };
        self.stream.in_launches(
            total,
            1,
            FIRST_CANDIDATES,
            self.check_cancelled,
            |from, len| {
                let pieces = (from..from + len).step_by(MOST_CANDIDATES);
                for piece in pieces {
                    test(piece, MOST_CANDIDATES.min(from + len - piece))?;
                }
                Ok(())
            },
        )
    }

    /// Tests windows with blocks of `together` probe sets each, some sets at a time, in `slices(blocks)` slices of the
    /// indexed side. `launch` launches a kernel in a shape with this join as its first argument; blocks begin with an
    /// existing set. A pair of sets takes as long as `cost` tests of a few words.
    pub(crate) fn test_windows(
        &self,
        together: usize,
        cost: f64,
        slices: &dyn Fn(usize) -> usize,
        to: &Target<'_>,
        launch: &dyn Fn(Shape, &Join) -> Result<()>,
    ) -> Result<()> {
        let sets = self.probe.len;
        // About as many pairs as the first launch should test.
        let tested = (FIRST_TESTS as f64 / cost.max(1.0)) as usize;
        let first = (tested / self.indexed.len.max(1)).clamp(together, 1 << 24);
        self.stream.in_launches(
            sets,
            together,
            first,
            self.check_cancelled,
            |from, count| {
                let blocks = count.div_ceil(together);
                let join = self.join(from, to);
                let mut shape = Shape::blocks_of(count, together, 256);
                shape.slices = slices(blocks).clamp(1, 65_535) as u32;
                launch(shape, &join)
            },
        )
    }
}
