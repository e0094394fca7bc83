//! What empty sets match, and match with: known without a test (`kernels/set_matches.cu`). Techniques see other sets alone.

use std::sync::Arc;

use super::encode::Sets;
use crate::device::buffer::{Buffer, Ranges, Sorted};
use crate::device::cuda::queue::{Memory, Queue, Shape};
use crate::device::cuda::rows::memory;
use crate::error::Result;
use crate::spec::SetTest;

/// The indexed side by group, empty sets first: what an empty set matches, or is matched by, is a range of it.
#[derive(Debug)]
pub(super) struct ByGroup {
    positions: Sorted,
    /// Where each group begins, and where its empty sets would if there were no others.
    segments: Memory,
    empties: Memory,
}

/// Matches of searching sets because one of two is empty.
#[derive(Debug)]
pub(super) struct Empties<'a> {
    by_group: &'a ByGroup,
    ranges: Ranges,
    /// Of each searching set.
    pub(super) counts: Buffer<u32>,
    offsets: Buffer<u64>,
    pub(super) total: u64,
}

/// Which pairs match with an empty set: empty ones, an empty searching one with others, others with an empty indexed one.
fn matching(test: SetTest) -> u32 {
    let [both, searching, indexed] = [(0, 0), (0, 1), (1, 0)].map(|(a, b)| test.holds(0, a, b));
    u32::from(both) | u32::from(searching) << 1 | u32::from(indexed) << 2
}

impl ByGroup {
    /// `None` where empty sets match nothing.
    pub(super) fn of(
        queue: &Arc<Queue>,
        sets: &Sets,
        groups: Option<u32>,
        test: SetTest,
    ) -> Result<Option<Self>> {
        if matching(test) == 0 {
            return Ok(None);
        }
        let (positions, segments, empties) = match (&sets.groups, groups) {
            (Some(of_sets), Some(groups)) => {
                let by_group = |n: usize| {
                    let ids = queue.copy_of(of_sets.part(0), n * 4, "groups of sets")?;
                    queue.sort(n, None, Some((&Buffer::cuda(ids, n), groups)), &[])
                };
                let all = by_group(sets.len)?;
                let empty = by_group(sets.empty)?;
                (all.rows, all.segments, empty.segments)
            }
            _ => (queue.sequence(0, sets.len)?, None, None),
        };
        let in_all = |segments: Option<Buffer<u32>>, n: usize| -> Result<Memory> {
            match segments.and_then(Buffer::into_cuda) {
                Some(segments) => Ok(segments),
                None => queue.send(
                    &[0, n as u32].map(u32::to_le_bytes).concat(),
                    "groups of sets",
                ),
            }
        };
        Ok(Some(Self {
            positions: Sorted::of_rows(positions),
            segments: in_all(segments, sets.len)?,
            empties: in_all(empties, sets.empty)?,
        }))
    }

    /// What the sets of `searching` match so; `None` where that is nothing.
    pub(super) fn search(
        &self,
        queue: &Arc<Queue>,
        searching: &Sets,
        test: SetTest,
    ) -> Result<Option<Empties<'_>>> {
        let n = searching.len;
        let counts = queue.zeroed(n * 4, "match counts")?;
        let lo = queue.alloc(n * 4, "range bounds")?;
        let hi = queue.alloc(n * 4, "range bounds")?;
        let args = [
            (&searching.sizes).into(),
            searching.groups.as_ref().into(),
            (n as u32).into(),
            (&self.segments).into(),
            (&self.empties).into(),
            matching(test).into(),
            (&counts).into(),
            (&lo).into(),
            (&hi).into(),
        ];
        // SAFETY: groups, where there are any, are those of the index, each of which has a segment; all others hold n words.
        unsafe { queue.launch("set_matches_empty", Shape::rows(n), &args)? };
        let counts = Buffer::cuda(counts, n);
        let offsets = queue.scan_offsets(&counts)?;
        let total = queue.read_word(memory(&offsets)?, n)?;
        Ok((total > 0).then(|| Empties {
            by_group: self,
            ranges: Ranges {
                lo: Buffer::cuda(lo, n),
                hi: Buffer::cuda(hi, n),
            },
            counts,
            offsets,
            total,
        }))
    }
}

impl Empties<'_> {
    /// Writes the pairs, as kernels hand out others.
    pub(super) fn write(&self, queue: &Arc<Queue>, pairs: &Memory) -> Result<()> {
        let (len, n) = (self.total as usize, self.counts.len());
        let searching = Sorted::of_rows(queue.sequence(0, n)?);
        let positions = &self.by_group.positions;
        let expanded =
            queue.expand_ranges(positions, &searching, &self.ranges, &self.offsets, 0, len)?;
        let args = [
            memory(&expanded.searching)?.into(),
            memory(&expanded.sorted)?.into(),
            (len as u32).into(),
            pairs.into(),
        ];
        // SAFETY: there are so many of both, and the caller has room for as many pairs.
        unsafe { queue.launch("set_matches_pack", Shape::rows(len), &args) }
    }

    /// How many each indexed position has.
    pub(super) fn of_indexed(&self, queue: &Arc<Queue>) -> Result<Buffer<u32>> {
        let positions = &self.by_group.positions;
        queue.cover(positions, &self.ranges, positions.len())
    }
}
