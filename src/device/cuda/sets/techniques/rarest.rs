//! Containment from the rarest element (`kernels/sets/techniques/set_rarest.cu`; \[B\] 6.1.4), where indexed sets are to contain searching ones:
//! candidates are the list of a searching set's rarest element, of which signatures, or rows of bits where sets are large, reject
//! most. (Where they are to be contained, prefixes of one element are the same the other way round.)

use std::sync::Arc;

use crate::device::cuda::runtime::launch::{Given, Shape};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::inverted_lists::Lists;
use crate::device::cuda::sets::predicate::Half;
use crate::device::cuda::sets::search::{Prepared, Search};
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct Rarest {
    lists: Lists,
    filter: Filter,
}

/// What rejects candidates.
#[derive(Debug)]
enum Filter {
    /// Signatures of so many words of 32 bits, which that kernel compares.
    Signatures {
        indexed: Memory,
        words: usize,
        kernel: &'static str,
    },
    /// Rows of so many bits, a power of two, in which a set's next rarest elements are looked for.
    Rows { indexed: Memory, bits: usize },
}

/// From so many elements of an average set on signatures of 256 bits have nearly all of them.
const LARGE_SETS: usize = 768;

/// A row has so many bits for each element of an average set, unless it has one for each element of the universe.
const BITS_AN_ELEMENT: usize = 8;

/// Of the room that is left rows take this part at most.
const ROOM_SHARE: u64 = 4;

impl Rarest {
    pub(crate) fn new(queue: &Arc<Stream>, sets: &Sets, universe: usize) -> Result<Self> {
        let lists = queue.inverted(sets, &sets.sizes, universe, false)?;
        let bits = universe
            .min(BITS_AN_ELEMENT * sets.mean())
            .next_power_of_two()
            .max(32);
        let fit = (sets.len * bits / 8) as u64 <= queue.budget.room() / ROOM_SHARE;
        if sets.mean() >= LARGE_SETS && fit {
            let indexed = queue.bit_rows(sets, bits / 32, bits as u32 - 1)?;
            let filter = Filter::Rows { indexed, bits };
            return Ok(Self { lists, filter });
        }
        // Measured: the random read of a signature takes its time, whatever it has up to 256 bits.
        let (words, kernel) = match sets.mean() {
            0..24 => (2, "set_rarest_64"),
            24..64 => (4, "set_rarest_128"),
            _ => (8, "set_rarest_256"),
        };
        let filter = Filter::Signatures {
            indexed: queue.signatures(sets, words)?,
            words,
            kernel,
        };
        Ok(Self { lists, filter })
    }

    pub(crate) fn prepare<'a>(&'a self, search: Search<'a>) -> Result<Prepared<'a>> {
        let (queue, n) = (search.queue, search.probe.len);
        let starts = queue.alloc(n * 4, "candidates")?;
        let counts = queue.alloc(n * 4, "candidates")?;
        let probe = search.probe.structure();
        let args = [
            Given::Four(&probe),
            (&self.lists.offsets).into(),
            (&self.lists.sets).into(),
            (&search.indexed.sizes).into(),
            Half::of_windows(search.half).into(),
            (&starts).into(),
            (&counts).into(),
        ];
        // SAFETY: lists are those of all elements that searching sets have here, of indexed sets, which have sizes; `starts` and
        // `counts` hold n words.
        unsafe { queue.launch_given("set_rarest_ranges", Shape::each(n), &args)? };
        let probes = search.probes(starts, counts, n)?;
        let probe = match &self.filter {
            Filter::Signatures { words, .. } => Some(queue.signatures(search.probe, *words)?),
            Filter::Rows { .. } => None,
        };
        Ok(Prepared {
            candidates: probes.total,
            run: Box::new(move |to| {
                let lists = Given::from(&self.lists.sets);
                let (kernel, rest) = match &self.filter {
                    Filter::Signatures {
                        indexed, kernel, ..
                    } => {
                        let signatures = [probe.as_ref().into(), indexed.into()];
                        (*kernel, [&[lists][..], &signatures].concat())
                    }
                    Filter::Rows { indexed, bits } => {
                        let (words, mask) = (*bits as u32 / 32, *bits as u32 - 1);
                        let rows = [indexed.into(), words.into(), mask.into()];
                        ("set_rarest_rows", [&[lists][..], &rows].concat())
                    }
                };
                // SAFETY: candidates are places in the lists; signatures, or rows, are one for each set, of the bits that the kernel
                // takes them to have.
                unsafe { search.test_candidates(kernel, &probes, to, &rest) }
            }),
        })
    }
}
