//! Inverted lists (`kernels/sets/set_encode.cu`): encoded sets enter; for each element, the sets that have it, or have
//! it in their prefix, ordered by size, leave.

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::set_element_words;
use crate::device::cuda::sets::encode::word_packing::{self, Packing};
use crate::error::Result;

/// The inverted lists of all elements, one after the other.
#[derive(Debug)]
pub(crate) struct Lists {
    /// First item of each element's list, and the end.
    pub(crate) offsets: Memory,
    /// Positions of sets.
    pub(crate) sets: Memory,
    /// The place of the element in each set, if wanted.
    pub(crate) places: Option<Memory>,
}

/// The inverted lists over the first `lengths` elements of each set; `universe` elements have a list.
pub(crate) fn inverted(
    stream: &Arc<Stream>,
    sets: &Sets,
    lengths: &Memory,
    universe: usize,
    with_places: bool,
) -> Result<Lists> {
    let (of_entries, offsets, total) = set_element_words::entries(stream, lengths, sets.len)?;
    let words = word_packing::words(stream, Packing::of(universe, sets.len), total)?;
    let (structure, out) = (sets.structure(), words.structure());
    let args = (
        (&structure).into(),
        (&offsets).into(),
        (&of_entries).into(),
        (total as u32).into(),
        (&out).into(),
    );
    // SAFETY: entries are the first elements of each set, at most as many as it has; there is a word for each
    // entry.
    unsafe { stream.launch(kernels::SET_ENCODE_LIST_WORDS, Shape::rows(total), &args)? };
    drop(of_entries);
    // Entries are in the order of sets, which a stable sort by elements keeps.
    let (words, entries) = match with_places {
        true => {
            let (words, entries) =
                word_packing::sorted_with_row_ids(stream, words, Packing::upper)?;
            let in_order = || rows::sequence(stream, 0, total);
            (words, Some(entries.map_or_else(in_order, Ok)?))
        }
        false => (
            word_packing::sorted_words(stream, words, Packing::upper)?,
            None,
        ),
    };
    let lists = stream.alloc(total * 4, "inverted lists")?;
    let places = match with_places {
        true => Some(stream.alloc(total * 4, "inverted lists")?),
        false => None,
    };
    let given = words.structure();
    let args = (
        (&given).into(),
        entries.as_ref().map(memory).transpose()?.into(),
        (total as u32).into(),
        (&offsets).into(),
        (&lists).into(),
        places.as_ref().into(),
    );
    let shape = Shape::rows(total);
    // SAFETY: words are one for each of the total, as are lists, and entries if places are wanted; entries are
    // numbers of words in the order of sets, and the offsets are those of each set's first entry.
    unsafe { stream.launch(kernels::SET_ENCODE_LISTS, shape, &args)? };
    Ok(Lists {
        offsets: word_packing::upper_offsets(stream, &words, universe)?,
        sets: lists,
        places,
    })
}
