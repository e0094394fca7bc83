//! The order of sets: by group, if there are groups, and by size. Also the check whether both sides hold the same sets.

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::keys::sort::{self, NARROW};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::{ByGroup, Sets};
use crate::device::cuda::sets::encode::word_packing::{self, Packing, bits_below};
use crate::device::data::buffer::Buffer;
use crate::error::Result;

impl Sets {
    /// The groups of these sets, and the segments of the groups of `indexed`: null pointers without groups.
    pub(crate) fn groups_in<'a>(&'a self, indexed: &'a Self) -> [Option<&'a Memory>; 2] {
        match (&self.by_group, &indexed.by_group) {
            (Some(mine), Some(indexed)) => [Some(&mine.groups), Some(&indexed.segments)],
            _ => [None, None],
        }
    }
}

/// The order of `n` sets by their `groups`, if given with their number, and `sizes`, of which none exceeds
/// `longest`. With groups also the segments.
pub(crate) fn in_order(
    stream: &Arc<Stream>,
    groups: Option<(&Memory, usize)>,
    sizes: &Memory,
    n: usize,
    longest: usize,
) -> Result<(Buffer<u32>, Option<ByGroup>)> {
    let order = |sorted: Option<Buffer<u32>>| match sorted {
        Some(order) => Ok(order),
        None => rows::sequence(stream, 0, n),
    };
    let Some((groups, count)) = groups else {
        let sorted = match n {
            0 | 1 => None,
            _ => sort::sort_pairs(
                stream,
                NARROW,
                sizes.into(),
                None,
                n,
                bits_below(longest + 1),
            )?,
        };
        return Ok((
            order(sorted.map(|(_, order)| Buffer::cuda(order, n)))?,
            None,
        ));
    };
    let words = word_packing::words(stream, Packing::of(count, longest + 1), n)?;
    let out = words.structure();
    let args = (
        groups.into(),
        sizes.into(),
        (n as u32).into(),
        (&out).into(),
    );
    // SAFETY: each of n sets has a group and a size, and a word.
    unsafe { stream.launch(kernels::SET_ENCODE_ORDER, Shape::rows(n), &args)? };
    let (words, sorted) = word_packing::sorted_with_row_ids(stream, words, Packing::all)?;
    let order = order(sorted)?;
    let by_group = ByGroup {
        groups: rows::gather_values(stream, groups, memory(&order)?, n, 4)?,
        segments: word_packing::upper_offsets(stream, &words, count)?,
        count,
    };
    Ok((order, Some(by_group)))
}

/// Whether both sides hold the same sets at the same positions.
pub(crate) fn are_same(stream: &Arc<Stream>, a: &Sets, b: &Sets) -> Result<bool> {
    let groups = match (&a.by_group, &b.by_group) {
        (Some(a), Some(b)) if a.count == b.count => Some([&a.segments, &b.segments]),
        (None, None) => None,
        _ => return Ok(false),
    };
    if (a.len, a.entries) != (b.len, b.entries) {
        return Ok(false);
    }
    let segments = a.by_group.as_ref().map_or(0, |groups| groups.count + 1);
    let differ = stream.zeroed(4, "sets")?;
    let sets = [
        ([&a.sizes, &b.sizes], a.len),
        ([&a.offsets, &b.offsets], a.len + 1),
        ([&a.elements, &b.elements], a.entries),
    ];
    for ([a, b], n) in sets
        .into_iter()
        .chain(groups.map(|groups| (groups, segments)))
    {
        let args = (a.into(), b.into(), (n as u32).into(), (&differ).into());
        // SAFETY: both hold n words.
        unsafe { stream.launch(kernels::SET_MATCHES_DIFFER, Shape::rows(n), &args)? };
    }
    Ok(stream.read_word32(&differ, 0)? == 0)
}
