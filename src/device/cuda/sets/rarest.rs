//! Containment from the rarest element (`kernels/set_rarest.cu`; \[B\] 6.1.4), where indexed sets are to contain searching ones:
//! candidates are the list of a searching set's rarest element, of which signatures reject most. (Where they are to be contained,
//! prefixes of one element are the same the other way round.)

use super::encode::Sets;
use super::lists::Lists;
use super::measure::Half;
use super::search::{Prepared, Search};
use crate::device::cuda::queue::{Given, Memory, Queue, Shape};
use crate::error::Result;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Rarest {
    lists: Lists,
    signatures: Memory,
    kernel: &'static str,
    /// Of a signature, in 32 bits.
    words: usize,
}

impl Rarest {
    pub(super) fn new(queue: &Arc<Queue>, sets: &Sets, universe: usize) -> Result<Self> {
        // Measured: the random read of a signature takes its time, whatever it has up to 256 bits.
        let (words, kernel) = match sets.mean() {
            0..24 => (2, "set_rarest_64"),
            24..64 => (4, "set_rarest_128"),
            _ => (8, "set_rarest_256"),
        };
        Ok(Self {
            lists: queue.inverted(sets, &sets.sizes, universe, false)?,
            signatures: queue.signatures(sets, words)?,
            kernel,
            words,
        })
    }

    pub(super) fn prepare<'a>(&'a self, search: Search<'a>) -> Result<Prepared<'a>> {
        let (queue, n) = (search.queue, search.searching.len);
        let starts = queue.alloc(n * 4, "candidates")?;
        let counts = queue.alloc(n * 4, "candidates")?;
        let searching = search.searching.structure();
        let args = [
            Given::Four(&searching),
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
        let signatures = queue.signatures(search.searching, self.words)?;
        Ok(Prepared {
            candidates: probes.total,
            run: Box::new(move |to| {
                let rest = [
                    (&self.lists.sets).into(),
                    (&signatures).into(),
                    (&self.signatures).into(),
                ];
                // SAFETY: candidates are places in the lists, signatures one for each set, of the kernel's bits.
                unsafe { search.test_candidates(self.kernel, &probes, to, &rest) }
            }),
        })
    }
}
