//! Containment by the rarest element: a containing set has the rarest element of the contained one, too.
//!
//! If indexed sets are to contain probe sets, the inverted index has all elements of indexed sets, and the candidates
//! of a probe set are the postings of its rarest element. If they are to be contained, each is indexed by its rarest
//! element alone, and the candidates of a probe set are the postings of its elements. A signature rejects most
//! candidates.

use crate::device::data::results::SetTally;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::block::{Block, SetSearch, Technique};
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::hashed_bits::{Signatures, may_be_in, sign};
use crate::device::host::sets::techniques::postings::Postings;
use crate::device::host::sets::techniques::verify::overlap_of_at_least;
use crate::error::Result;

/// The index of technique `rarest`: postings, and signatures of the indexed sets.
#[derive(Debug)]
pub(crate) struct Rarest {
    postings: Postings,
    signatures: Signatures,
}

impl Rarest {
    pub(crate) fn new(
        sets: &Sets,
        universe: usize,
        indexed_contains: bool,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let prefix = |elements: &[u32]| if indexed_contains { elements.len() } else { 1 };
        Ok(Self {
            postings: Postings::new(sets, universe, prefix, check_cancelled)?,
            signatures: Signatures::new(sets, Self::words(sets), check_cancelled)?,
        })
    }

    fn words(sets: &Sets) -> usize {
        Signatures::words_for(sets.elements.len() / sets.len().max(1))
    }

    pub(crate) fn bytes(sets: &Sets, universe: usize) -> u64 {
        Signatures::bytes(sets, Self::words(sets)) + (sets.elements.len() + universe) as u64 * 4
    }
}

impl Technique for Rarest {
    /// The signature of the probe set.
    type Scratch = Vec<u64>;

    fn scratch(&self, _: &Sets) -> Vec<u64> {
        vec![0; self.signatures.words]
    }

    fn scratch_bytes(&self, _: &Sets) -> u64 {
        self.signatures.words as u64 * 8
    }

    fn block<S: Sink>(
        &self,
        search: &SetSearch<'_>,
        block: &Block,
        signature: &mut Vec<u64>,
        sink: &mut S,
    ) -> Result<SetTally> {
        let mut tally = SetTally::default();
        let indexed_contains = search.test.indexed_contains();
        for (i, window) in block.windows.iter().enumerate() {
            let at = block.first + i;
            // No indexed set contains a set with an element that no indexed set has.
            let hopeless = indexed_contains && search.probe.unknown(at) > 0;
            if window.is_empty() || hopeless {
                continue;
            }
            let elements = search.probe.get(at);
            sign(elements, signature);
            let leading = if indexed_contains { 1 } else { elements.len() };
            for (place, element) in elements[..leading].iter().enumerate() {
                if sink.is_full(i) {
                    break;
                }
                let positions = self.postings.of(*element, window);
                tally.candidates += positions.len() as u64;
                for position in positions {
                    let position = *position as usize;
                    let other = self.signatures.of(position);
                    let candidate = match indexed_contains {
                        true => may_be_in(signature, other),
                        false => may_be_in(other, signature),
                    };
                    if !candidate {
                        continue;
                    }
                    tally.verified += 1;
                    // Elements before the contained set's rarest one are not in it.
                    let others = search.indexed.get(position);
                    let (rest, needed) = match indexed_contains {
                        true => (elements, elements.len()),
                        false => (&elements[place..], others.len()),
                    };
                    if overlap_of_at_least(rest, others, needed).is_some() {
                        sink.found(i, position);
                        if sink.is_full(i) {
                            break;
                        }
                    }
                }
            }
            search.step(sink)?;
        }
        Ok(tally)
    }
}
