//! The technique `inverted_index`: overlap counts from a static inverted index (`kernels/sets/techniques/set_index.cu`;
//! sf-gSSJoin, \[B\] 5.1.1). A block reads the lists of a probe set's elements, and counts the occurrences of each
//! indexed set.

use std::sync::Arc;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::Structure;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::inverted_lists::{self, Lists};
use crate::device::cuda::sets::search::{PreparedProbe, Search};
use crate::error::Result;

/// The inverted lists of all elements of the indexed side.
#[derive(Debug)]
pub(crate) struct InvertedIndex {
    lists: Lists,
    universe: usize,
}

/// Cost of a list item, in pairs whose counter is only read.
const ITEM_COST: f64 = 8.0;

/// Probe sets that fill the GPU without slices of the indexed side.
const ENOUGH_SETS: usize = 1000;

/// Indexed sets whose counters fit the shared memory of a block.
const COUNTED: usize = 1 << 15;

impl InvertedIndex {
    pub(crate) fn new(stream: &Arc<Stream>, sets: &Sets, universe: usize) -> Result<Self> {
        Ok(Self {
            lists: inverted_lists::inverted(stream, sets, &sets.sizes, universe, false)?,
            universe,
        })
    }

    pub(crate) fn prepare<'a>(&'a self, search: Search<'a>) -> Result<PreparedProbe<'a>> {
        let windows = search.windows()?;
        let (_, candidates) = search.pairs_in(&windows)?;
        Ok(PreparedProbe {
            candidates,
            run: Box::new(move |to| {
                let index = Structure([(&self.lists.offsets).into(), (&self.lists.sets).into()]);
                let (lo, hi) = (memory(&windows.lo)?, memory(&windows.hi)?);
                let most = 8 * search.stream.gpu.multiprocessors as usize;
                let windows = search.indexed.len / COUNTED;
                let slices = |blocks: usize| match blocks {
                    ENOUGH_SETS.. => 1,
                    few => (most / few).min(windows).min(1024),
                };
                // The cost of a pair: its counter, and its average number of list items.
                let items = search.probe.mean() as f64 * search.indexed.entries as f64;
                let pairs = search.indexed.len.max(1) as f64 * self.universe.max(1) as f64;
                let cost = 1.0 + ITEM_COST * items / pairs;
                search.test_windows(1, cost, &slices, to, &|shape, join| {
                    let args = (join.into(), (&index).into(), lo.into(), hi.into());
                    // SAFETY: the index has a list for each element that probe sets have here; each probe set has a
                    // window.
                    unsafe {
                        search
                            .stream
                            .launch(kernels::SET_INDEX_COUNTS, shape, &args)
                    }
                })
            }),
        })
    }
}
