//! Sorts the elements of lists without duplicates into sets, without a sort of words if elements have few ranks
//! (`kernels/sets/set_listed.cu`): each block sets a bit per rank, and reads the bits in order.

use std::sync::Arc;

use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U32, EXCLUSIVE_U64};
use crate::device::cuda::keys::sort::check_sortable;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::list_offsets::ListSpans;
use crate::device::cuda::sets::encode::set_element_words::{self, Distinct, Order, Ranks};
use crate::device::cuda::sets::encode::word_packing::Words;
use crate::device::data::buffer::Buffer;
use crate::error::Result;

/// Ranks for which a block of the kernel has bits, at most.
const MOST_RANKS: usize = 1 << 17;

/// Values of an average list for which a block is worth its time, by an estimate of its waits.
const LEAST_VALUES: usize = 128;

/// Bits that a block reads per value, at most; a sort of words moves some 70 bytes per value.
const BITS_A_VALUE: usize = 128;

/// Whether `lists` lists of `values` values are sorted by bitmaps.
fn are_few(universe: usize, values: usize, lists: usize) -> bool {
    let mean = values.checked_div(lists).unwrap_or(0);
    mean >= LEAST_VALUES && universe <= MOST_RANKS.min(BITS_A_VALUE * mean)
}

/// The sets of lists without duplicates, elements by `ranks`. `None` if a list has duplicates, or elements without
/// a rank. `words` makes the words of (set, id), which are only needed if elements have many ranks.
pub(crate) fn arrange_listed(
    stream: &Arc<Stream>,
    spans: &ListSpans,
    ids: &Buffer<u32>,
    ranks: &Ranks,
    words: impl FnOnce() -> Result<Words>,
) -> Result<Option<Sets>> {
    // A set cannot have more elements than the universe.
    if spans.longest as usize > ranks.universe {
        return Ok(None);
    }
    let order = set_element_words::sets_in_order(stream, spans, &spans.counts)?;
    // Lists may share values, or skip some: then only the estimate is wrong.
    if are_few(ranks.universe, ids.len(), spans.rows.len()) {
        drop(words);
        return arrange_by_bits(stream, spans, ids, ranks, order);
    }
    let words = words()?;
    let total = words.n;
    let sets = set_element_words::arrange(stream, spans, Distinct { words, order }, ranks)?;
    Ok((sets.entries == total).then_some(sets))
}

/// The same by bitmaps in shared memory.
fn arrange_by_bits(
    stream: &Arc<Stream>,
    spans: &ListSpans,
    ids: &Buffer<u32>,
    ranks: &Ranks,
    order: Order,
) -> Result<Option<Sets>> {
    let len = spans.rows.len();
    let total = total_of(stream, &order.sizes, len)?;
    let offsets = scan::scan(stream, EXCLUSIVE_U32, &order.sizes, len, "elements of sets")?;
    let elements = stream.alloc(total * 4, "elements of sets")?;
    let fewer = stream.zeroed(4, "elements of sets")?;
    let args = (
        memory(&order.order)?.into(),
        (&spans.starts).into(),
        memory(ids)?.into(),
        memory(&ranks.of)?.into(),
        (ranks.of.len() as u32).into(),
        (ranks.universe as u32).into(),
        (&offsets).into(),
        (len as u32).into(),
        (&elements).into(),
        (&fewer).into(),
    );
    let shape = Shape {
        blocks: (len as u32).min(8 * stream.gpu.multiprocessors),
        ..Shape::each(len)
    };
    // SAFETY: each list's values have ids behind its start; offsets are the sums of the lists' lengths in this
    // order, so that `elements` holds as many words for each; ranks are below the universe, for which the kernel
    // has bits.
    unsafe { stream.launch(kernels::SET_LISTED_ELEMENTS, shape, &args)? };
    if stream.read_word32(&fewer, 0)? != 0 {
        return Ok(None);
    }
    set_element_words::sets_of(stream, spans, order, offsets, elements, total).map(Some)
}

/// The sum of `n` lengths; an error if it exceeds what a sort can number.
fn total_of(stream: &Arc<Stream>, lengths: &Memory, n: usize) -> Result<usize> {
    let sums = scan::scan(stream, EXCLUSIVE_U64, lengths, n, "elements of sets")?;
    let total = stream.read_word(&sums, n)? as usize;
    check_sortable(total)?;
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::are_few;

    #[test]
    fn bits_are_for_long_lists_of_few_elements() {
        assert!(are_few(1 << 14, 2_000 * 100_000, 100_000));
        assert!(are_few(1 << 14, 128 * 50, 50));
        assert!(!are_few((1 << 14) + 1, 128 * 50, 50));
        assert!(!are_few(100, 127 * 50, 50));
        assert!(are_few(1 << 17, 1 << 20, 1));
        assert!(!are_few((1 << 17) + 1, 1 << 20, 1));
        // All lists are NULL.
        assert!(!are_few(1, 1_000, 0));
    }
}
