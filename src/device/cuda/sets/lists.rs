//! Inverted lists (`kernels/set_encode.cu`): of each element the sets that have it, or have it in front, by size.

use std::sync::Arc;

use super::encode::Sets;
use super::words::bits_below;
use crate::device::cuda::queue::{Given, Memory, Part, Queue, Shape};
use crate::device::cuda::rows::memory;
use crate::device::cuda::sort::WIDE;
use crate::error::Result;

/// The lists of all elements, one after the other.
#[derive(Debug)]
pub(super) struct Lists {
    /// Where those of each element begin, and the end.
    pub(super) offsets: Memory,
    /// Positions.
    pub(super) sets: Memory,
    /// Where in each set the element stands, where that is wanted.
    pub(super) places: Option<Memory>,
}

impl Queue {
    /// The lists of each set's first elements, as many as `lengths` says.
    pub(super) fn inverted(
        self: &Arc<Self>,
        sets: &Sets,
        lengths: &Memory,
        universe: usize,
        with_places: bool,
    ) -> Result<Lists> {
        let (of_entries, offsets, total) = self.entries(lengths, sets.len)?;
        let words = self.alloc(total * 8, "inverted lists")?;
        let structure = sets.structure();
        let args = [
            Given::Four(&structure),
            (&offsets).into(),
            (&of_entries).into(),
            (total as u32).into(),
            (&words).into(),
        ];
        // SAFETY: entries are the first elements of each set, at most as many as it has; `words` holds a word an entry.
        unsafe { self.launch_given("set_encode_list_words", Shape::rows(total), &args)? };
        drop(of_entries);
        // Entries are in the order of sets, which a sort by elements keeps.
        let by_element = match total {
            0 | 1 => None,
            _ => {
                let varying = bits_below(universe) << 32;
                self.sort_pairs(WIDE, Part::from(&words), None, total, varying)?
            }
        };
        let (words, entries) = match by_element {
            Some(sorted) => sorted,
            None => {
                let in_order = self.sequence(0, total)?;
                let all = memory(&in_order)?;
                (words, self.gather_values(all, all, total, 4)?)
            }
        };
        let lists = self.alloc(total * 4, "inverted lists")?;
        let places = match with_places {
            true => Some(self.alloc(total * 4, "inverted lists")?),
            false => None,
        };
        let args = [
            (&words).into(),
            (&entries).into(),
            (total as u32).into(),
            (&offsets).into(),
            (&lists).into(),
            places.as_ref().into(),
        ];
        // SAFETY: words and entries are one for each of the total, as are lists and places; entries are numbers of words in order
        // of sets, whose offsets say where each set's begin.
        unsafe { self.launch("set_encode_lists", Shape::rows(total), &args)? };
        Ok(Lists {
            offsets: self.set_offsets(&words, total, universe)?,
            sets: lists,
            places,
        })
    }
}
