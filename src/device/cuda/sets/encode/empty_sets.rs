//! Matches of which one set is empty: known without a test, as ranges of indexed sets (`kernels/sets/set_matches.cu`).
//! Techniques see the other sets only.

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::equal_sets;
use crate::device::cuda::theta::range;
use crate::device::data::buffer::Buffer;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::error::Result;
use crate::ir::set_predicate::SetTest;

/// The matches of probe sets of which one set is empty: ranges of the indexed sets, which are ordered by group and
/// size.
#[derive(Debug)]
pub(crate) struct EmptySetMatches {
    /// Number of indexed sets.
    indexed: usize,
    ranges: Ranges,
    /// Matching sets of each probe set.
    pub(crate) counts: Buffer<u32>,
    offsets: Buffer<u64>,
    /// Sum of the counts.
    pub(crate) total: u64,
}

/// Which pairs with an empty set match, as bits: 1 for two empty sets, 2 for an empty probe set with others, 4 for
/// others with an empty indexed set.
fn matching(test: SetTest) -> u32 {
    let [both, probe, indexed] = [(0, 0), (0, 1), (1, 0)].map(|(a, b)| test.holds(0, a, b));
    u32::from(both) | u32::from(probe) << 1 | u32::from(indexed) << 2
}

impl EmptySetMatches {
    /// The matches of empty sets; `None` if there are none.
    pub(crate) fn of(
        stream: &Arc<Stream>,
        [probe, indexed]: [&Sets; 2],
        test: SetTest,
    ) -> Result<Option<Self>> {
        if matching(test) == 0 {
            return Ok(None);
        }
        let n = probe.len;
        let counts = stream.zeroed(n * 4, "match counts")?;
        let lo = stream.alloc(n * 4, "range bounds")?;
        let hi = stream.alloc(n * 4, "range bounds")?;
        let [groups, segments] = probe.groups_in(indexed);
        let args = (
            (&probe.sizes).into(),
            groups.into(),
            (n as u32).into(),
            segments.into(),
            (&indexed.sizes).into(),
            (indexed.len as u32).into(),
            matching(test).into(),
            (&counts).into(),
            (&lo).into(),
            (&hi).into(),
        );
        // SAFETY: groups, if there are any, are those of the index, each of which has a segment; sizes are those of
        // both sides; all others hold n words.
        unsafe { stream.launch(kernels::SET_MATCHES_EMPTY, Shape::rows(n), &args)? };
        let counts = Buffer::cuda(counts, n);
        let offsets = scan::scan_offsets(stream, &counts)?;
        let total = stream.read_word(memory(&offsets)?, n)?;
        Ok((total > 0).then(|| Self {
            indexed: indexed.len,
            ranges: Ranges {
                lo: Buffer::cuda(lo, n),
                hi: Buffer::cuda(hi, n),
            },
            counts,
            offsets,
            total,
        }))
    }

    /// All indexed positions.
    fn positions(&self, stream: &Arc<Stream>) -> Result<OrderedRows> {
        Ok(OrderedRows::of_rows(rows::sequence(
            stream,
            0,
            self.indexed,
        )?))
    }

    /// Writes the pairs to the first `total` entries of `pairs`, in the format of the technique kernels.
    pub(crate) fn write(&self, stream: &Arc<Stream>, pairs: &Memory) -> Result<()> {
        let (len, n) = (self.total as usize, self.counts.len());
        let probe = OrderedRows::of_rows(rows::sequence(stream, 0, n)?);
        let positions = self.positions(stream)?;
        let expanded = range::expand_ranges(
            stream,
            &positions,
            &probe,
            &self.ranges,
            &self.offsets,
            0,
            len,
        )?;
        let args = (
            memory(&expanded.probe)?.into(),
            memory(&expanded.build)?.into(),
            (len as u32).into(),
            pairs.into(),
        );
        // SAFETY: there are `len` of both, and the caller has room for as many pairs.
        unsafe { stream.launch(kernels::SET_MATCHES_PACK, Shape::rows(len), &args) }
    }

    /// Matching rows of each probe set.
    pub(crate) fn of_probe(&self, stream: &Arc<Stream>, indexed: &Sets) -> Result<Buffer<u32>> {
        let Some(members) = &indexed.members else {
            return range::range_counts(stream, &self.ranges, false);
        };
        let n = self.ranges.rows();
        let bound = |positions: &Buffer<u32>| -> Result<Buffer<u32>> {
            let rows = rows::gather_values(stream, &members.starts, memory(positions)?, n, 4)?;
            Ok(Buffer::cuda(rows, n))
        };
        let ranges = Ranges {
            lo: bound(&self.ranges.lo)?,
            hi: bound(&self.ranges.hi)?,
        };
        range::range_counts(stream, &ranges, false)
    }

    /// Matching rows of each indexed set.
    pub(crate) fn of_indexed(&self, stream: &Arc<Stream>, probe: &Sets) -> Result<Buffer<u32>> {
        let positions = self.positions(stream)?;
        if probe.members.is_none() {
            return range::cover(stream, &positions, &self.ranges, positions.len());
        }
        let of_rows =
            |bounds: &Buffer<u32>| equal_sets::by_row(stream, probe, memory(bounds)?.part(0)?);
        let ranges = Ranges {
            lo: of_rows(&self.ranges.lo)?,
            hi: of_rows(&self.ranges.hi)?,
        };
        range::cover(stream, &positions, &ranges, positions.len())
    }
}
