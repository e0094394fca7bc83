//! The technique `rarest`: containment, if the indexed set must contain the probe set
//! (`kernels/sets/techniques/set_rarest.cu`). Candidates are the list of the probe set's rarest element. Signatures, or
//! rows of bits for large sets, reject most of them. (In the other direction, prefixes of one element do the same.)

use std::sync::Arc;

use crate::device::cuda::runtime::arguments::{ByValue, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::inverted_lists::{self, Lists};
use crate::device::cuda::sets::encode::set_element_words;
use crate::device::cuda::sets::predicate::Half;
use crate::device::cuda::sets::search::{PreparedProbe, Search};
use crate::device::cuda::sets::techniques::bit_rows;
use crate::error::Result;

/// The inverted lists of all elements of the indexed side, and the filter.
#[derive(Debug)]
pub(crate) struct Rarest {
    lists: Lists,
    filter: Filter,
}

/// Probes, join, the sets of lists, and signatures of the probe and of the indexed side.
type RarestKernel = Kernel<(
    ByValue<'static, 32, 8>,
    ByValue<'static, 152, 8>,
    U64,
    U64,
    U64,
)>;

/// The filter of candidates.
#[derive(Debug)]
enum Filter {
    /// Signatures of `words` words of 32 bits, which `kernel` compares.
    Signatures {
        indexed: Memory,
        words: usize,
        kernel: RarestKernel,
    },
    /// Rows of `bits` bits, a power of two, in which the next rarest elements of the probe set are looked up.
    Rows { indexed: Memory, bits: usize },
}

/// Elements of an average set from which on signatures of 256 bits have nearly all bits set.
const LARGE_SETS: usize = 768;

/// Bits of a row per element of an average set, unless the universe has fewer elements.
const BITS_AN_ELEMENT: usize = 8;

/// Rows take one `MEMORY_SHARE`th of the free memory, at most.
const MEMORY_SHARE: u64 = 4;

impl Rarest {
    pub(crate) fn new(stream: &Arc<Stream>, sets: &Sets, universe: usize) -> Result<Self> {
        let lists = inverted_lists::inverted(stream, sets, &sets.sizes, universe, false)?;
        let bits = universe
            .min(BITS_AN_ELEMENT * sets.mean())
            .next_power_of_two()
            .max(32);
        let fit = (sets.len * bits / 8) as u64 <= stream.budget.available() / MEMORY_SHARE;
        if sets.mean() >= LARGE_SETS && fit {
            let indexed = bit_rows::bit_rows(stream, sets, bits / 32, bits as u32 - 1, 0)?;
            let filter = Filter::Rows { indexed, bits };
            return Ok(Self { lists, filter });
        }
        // Measured: the random read of a signature takes the same time for any length up to 256 bits.
        let (words, kernel) = match sets.mean() {
            0..24 => (2, kernels::SET_RAREST_64),
            24..64 => (4, kernels::SET_RAREST_128),
            _ => (8, kernels::SET_RAREST_256),
        };
        let filter = Filter::Signatures {
            indexed: set_element_words::signatures(stream, sets, words)?,
            words,
            kernel,
        };
        Ok(Self { lists, filter })
    }

    pub(crate) fn prepare<'a>(&'a self, search: Search<'a>) -> Result<PreparedProbe<'a>> {
        let (stream, n) = (search.stream, search.probe.len);
        let starts = stream.alloc(n * 4, "candidates")?;
        let counts = stream.alloc(n * 4, "candidates")?;
        let probe = search.probe.structure();
        let args = (
            (&probe).into(),
            (&self.lists.offsets).into(),
            (&self.lists.sets).into(),
            (&search.indexed.sizes).into(),
            Half::of_windows(search.half).into(),
            (&starts).into(),
            (&counts).into(),
        );
        // SAFETY: the lists are those of all elements that probe sets have here, and hold indexed sets, which have
        // sizes; `starts` and `counts` hold n words.
        unsafe { stream.launch(kernels::SET_RAREST_RANGES, Shape::each(n), &args)? };
        let probes = search.probes(starts, counts, n)?;
        let probe = match &self.filter {
            Filter::Signatures { words, .. } => {
                Some(set_element_words::signatures(stream, search.probe, *words)?)
            }
            Filter::Rows { .. } => None,
        };
        Ok(PreparedProbe {
            candidates: probes.total,
            run: Box::new(move |to| {
                search.test_candidates(&probes, to, &|shape, probes, join| {
                    let (probes, join) = (probes.into(), join.into());
                    let lists = (&self.lists.sets).into();
                    match &self.filter {
                        Filter::Signatures {
                            indexed, kernel, ..
                        } => {
                            let args = (probes, join, lists, probe.as_ref().into(), indexed.into());
                            // SAFETY: candidates are places in the lists; each set has a signature of the number of
                            // bits that the kernel assumes.
                            unsafe { stream.launch(*kernel, shape, &args) }
                        }
                        Filter::Rows { indexed, bits } => {
                            let (words, mask) = (*bits as u32 / 32, *bits as u32 - 1);
                            let (words, mask) = (words.into(), mask.into());
                            let args = (probes, join, lists, indexed.into(), words, mask);
                            // SAFETY: the same, with a row of `bits` bits for each set.
                            unsafe { stream.launch(kernels::SET_RAREST_ROWS, shape, &args) }
                        }
                    }
                })
            }),
        })
    }
}
