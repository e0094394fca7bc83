//! The technique `prefix`: the prefix filter (`kernels/sets/techniques/set_prefix.cu`; PPJoin; \[B\] 4.1.2). Two sets
//! that match have one of the rarest elements of each in common. The inverted lists of these elements give the
//! candidates, the positional filter cuts them, and the rest is verified.

use std::sync::Arc;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::Structure;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::inverted_lists::Lists;
use crate::device::cuda::sets::predicate::Measure;
use crate::device::cuda::sets::search::{PreparedProbe, Search};
use crate::error::Result;

/// The inverted lists of the prefixes of the indexed side.
#[derive(Debug)]
pub(crate) struct Prefix {
    lists: Lists,
    /// The place of each list item's element in its set.
    places: Memory,
}

impl Prefix {
    pub(crate) fn new(
        stream: &Arc<Stream>,
        sets: &Sets,
        universe: usize,
        measure: &Measure,
    ) -> Result<Self> {
        let lengths = stream.alloc(sets.len * 4, "prefixes of sets")?;
        let (structure, measure) = (sets.structure(), measure.structure());
        let args = ((&structure).into(), (&measure).into(), (&lengths).into());
        // SAFETY: the structures are of sets and a measure; `lengths` holds a word per set.
        unsafe { stream.launch(kernels::SET_PREFIX_BUILD, Shape::each(sets.len), &args)? };
        let mut lists = stream.inverted(sets, &lengths, universe, true)?;
        let places = match lists.places.take() {
            Some(places) => places,
            None => stream.alloc(0, "inverted lists")?,
        };
        Ok(Self { lists, places })
    }

    /// First item of each element's list, and the end.
    pub(crate) fn list_offsets(&self) -> &Memory {
        &self.lists.offsets
    }

    pub(crate) fn prepare<'a>(&'a self, search: Search<'a>) -> Result<PreparedProbe<'a>> {
        let (stream, sets) = (search.stream, search.probe);
        let windows = search.windows()?;
        let (lo, hi) = (memory(&windows.lo)?, memory(&windows.hi)?);
        let lengths = stream.alloc(sets.len * 4, "prefixes of sets")?;
        let (structure, measure) = (sets.structure(), search.measure.structure());
        let args = (
            (&structure).into(),
            (&search.indexed.sizes).into(),
            (&measure).into(),
            lo.into(),
            hi.into(),
            (&lengths).into(),
        );
        // SAFETY: windows are of indexed sets, which have sizes; `lengths` holds a word per set.
        unsafe { stream.launch(kernels::SET_PREFIX_PROBE, Shape::each(sets.len), &args)? };
        let (of_entries, offsets, total) = stream.entries(&lengths, sets.len)?;
        let prefixes = move |offsets: &Memory, of_entries: &Memory| {
            Structure([offsets.into(), of_entries.into()])
        };
        let starts = stream.alloc(total * 4, "candidates")?;
        let counts = stream.alloc(total * 4, "candidates")?;
        let given = prefixes(&offsets, &of_entries);
        let args = (
            (&structure).into(),
            (&given).into(),
            (total as u32).into(),
            (&self.lists.offsets).into(),
            (&self.lists.sets).into(),
            lo.into(),
            hi.into(),
            (&starts).into(),
            (&counts).into(),
        );
        // SAFETY: entries are the first elements of probe sets, each of which has a list; `starts` and `counts` hold a
        // word per entry.
        unsafe { stream.launch(kernels::SET_PREFIX_RANGES, Shape::each(total), &args)? };
        let probes = search.probes(starts, counts, total)?;
        Ok(PreparedProbe {
            candidates: probes.total,
            run: Box::new(move |to| {
                let given = prefixes(&offsets, &of_entries);
                search.test_candidates(&probes, to, &|shape, probes, join| {
                    let args = (
                        probes.into(),
                        join.into(),
                        (&self.lists.sets).into(),
                        (&self.places).into(),
                        (&given).into(),
                    );
                    // SAFETY: candidates are places in the lists; probes are the entries of the prefixes.
                    unsafe { stream.launch(kernels::SET_PREFIX_TEST, shape, &args) }
                })
            }),
        })
    }
}
