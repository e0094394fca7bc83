//! The technique `prefix`: the prefix filter (`kernels/sets/techniques/set_prefix.cu`; PPJoin; \[B\] 4.1.2). Two sets
//! that match have one of the rarest elements of each in common. The inverted lists of these elements give the
//! candidates, the positional filter cuts them, and the rest is verified. Of larger sets signatures reject most
//! candidates before that (the bitmap filter, \[B\] 4.1.2).

use std::sync::Arc;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::{ByValue, Structure, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::inverted_lists::{self, Lists};
use crate::device::cuda::sets::encode::set_element_words;
use crate::device::cuda::sets::predicate::Measure;
use crate::device::cuda::sets::search::{PreparedProbe, Search};
use crate::error::{BowtieError, Result};

/// The inverted lists of the prefixes of the indexed side.
#[derive(Debug)]
pub(crate) struct Prefix {
    lists: Lists,
    /// The place of each list item's element in its set.
    places: Memory,
}

/// As [`kernels::SET_PREFIX_TEST`], with signatures of the probe and of the indexed side.
type SignedKernel = Kernel<(
    ByValue<'static, 32, 8>,
    ByValue<'static, 152, 8>,
    U64,
    U64,
    ByValue<'static, 16, 8>,
    U64,
    U64,
)>;

/// Signatures of both sides, and the kernel that compares them.
struct Signatures {
    indexed: Memory,
    /// `None`: both sides are the same sets.
    probe: Option<Memory>,
    kernel: SignedKernel,
}

/// Elements of an average set, at least, and candidates for each element of both sides, at least, for which signatures
/// are made: a signature is read in the time of comparing a few elements, and made in that of some candidates.
const SIGNED_ELEMENTS: usize = 24;
const CANDIDATES_AN_ELEMENT: u64 = 8;

/// Elements of an average set from which on signatures have 256 bits, not 128.
const LARGE_SETS: usize = 40;

impl Signatures {
    /// `None` if they would not pay, or if there is no memory for them.
    fn of(search: &Search<'_>, candidates: u64) -> Result<Option<Self>> {
        let [indexed, probe] = [search.indexed, search.probe];
        let mean = indexed.mean().min(probe.mean());
        let elements = (indexed.entries + probe.entries) as u64;
        if mean < SIGNED_ELEMENTS || candidates < CANDIDATES_AN_ELEMENT * elements {
            return Ok(None);
        }
        let (words, kernel) = match mean < LARGE_SETS {
            true => (4, kernels::SET_PREFIX_TEST_128),
            false => (8, kernels::SET_PREFIX_TEST_256),
        };
        let made = || -> Result<Self> {
            Ok(Self {
                indexed: set_element_words::signatures(search.stream, indexed, words)?,
                probe: match std::ptr::eq(indexed, probe) {
                    true => None,
                    false => Some(set_element_words::signatures(search.stream, probe, words)?),
                },
                kernel,
            })
        };
        match made() {
            Err(BowtieError::OutOfDeviceMemory { .. }) => Ok(None),
            made => made.map(Some),
        }
    }
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
        let mut lists = inverted_lists::inverted(stream, sets, &lengths, universe, true)?;
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
        let (of_entries, offsets, total) = set_element_words::entries(stream, &lengths, sets.len)?;
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
        let signatures = Signatures::of(&search, probes.total)?;
        Ok(PreparedProbe {
            candidates: probes.total,
            run: Box::new(move |to| {
                let given = prefixes(&offsets, &of_entries);
                search.test_candidates(&probes, to, &|shape, probes, join| {
                    let (probes, join) = (probes.into(), join.into());
                    let (lists, places) = ((&self.lists.sets).into(), (&self.places).into());
                    let Some(signatures) = &signatures else {
                        let args = (probes, join, lists, places, (&given).into());
                        // SAFETY: candidates are places in the lists; probes are the entries of the prefixes.
                        return unsafe { stream.launch(kernels::SET_PREFIX_TEST, shape, &args) };
                    };
                    let indexed = &signatures.indexed;
                    let probe = signatures.probe.as_ref().unwrap_or(indexed);
                    let given = (&given).into();
                    let args = (
                        probes,
                        join,
                        lists,
                        places,
                        given,
                        probe.into(),
                        indexed.into(),
                    );
                    // SAFETY: the same; each set has a signature of the number of bits that the kernel assumes.
                    unsafe { stream.launch(signatures.kernel, shape, &args) }
                })
            }),
        })
    }
}
