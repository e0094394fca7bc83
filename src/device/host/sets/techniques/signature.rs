//! Bitmap signatures: every pair of sets with compatible sizes is tested on a few words of hashed bits, and the
//! remaining pairs are verified (the bitmap filter of \[B\] 4.1.2).
//!
//! An element of one set alone accounts for at most one differing bit, so sets of `r` and `s` elements whose signatures
//! differ in `d` bits share at most `(r + s − d) / 2`. A contained set has no bit that the other lacks.

use std::ops::Range;

use pulp::Arch;

use crate::device::data::results::SetTally;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::block::{Block, SetSearch, Technique};
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::hashed_bits::{Signatures, may_be_in, sign};
use crate::device::host::sets::techniques::verify::overlap_of_at_least;
use crate::error::Result;

/// The index of technique `signature`: the signatures of the indexed sets.
#[derive(Debug)]
pub(crate) struct Signature {
    signatures: Signatures,
}

/// Indexed positions that are compared before those that passed are verified.
/// cache.
const STRIP: usize = 512;

impl Signature {
    pub(crate) fn new(sets: &Sets, check_cancelled: CancelCheck<'_>) -> Result<Self> {
        Ok(Self {
            signatures: Signatures::new(sets, Self::words(sets), check_cancelled)?,
        })
    }

    fn words(sets: &Sets) -> usize {
        Signatures::words_for(sets.elements.len() / sets.len().max(1))
    }

    pub(crate) fn bytes(sets: &Sets) -> u64 {
        Signatures::bytes(sets, Self::words(sets))
    }

    /// Adds to `passed` the positions in `strip` whose signatures differ from `signature` in at most `most` bits.
    #[inline(always)]
    fn near<const W: usize>(
        &self,
        signature: &[u64; W],
        strip: Range<usize>,
        most: u32,
        passed: &mut Vec<u32>,
    ) {
        for position in strip {
            let other = self.signatures.get::<W>(position);
            let differing = |i: usize| (signature[i] ^ other[i]).count_ones();
            if (0..W).map(differing).sum::<u32>() <= most {
                passed.push(position as u32);
            }
        }
    }

    /// Adds to `passed` the positions in `strip` that the signature does not reject. `spare`: the most differing bits.
    fn pass<const W: usize>(
        &self,
        search: &SetSearch<'_>,
        signature: &[u64],
        strip: Range<usize>,
        spare: u64,
        passed: &mut Vec<u32>,
    ) {
        let Some(signature) = signature.first_chunk::<W>() else {
            return;
        };
        if search.test.is_containment() {
            for position in strip {
                let other = self.signatures.get::<W>(position);
                let candidate = match search.test.indexed_contains() {
                    true => may_be_in(signature, other),
                    false => may_be_in(other, signature),
                };
                if candidate {
                    passed.push(position as u32);
                }
            }
            return;
        }
        let most = u32::try_from(spare).unwrap_or(u32::MAX);
        Arch::new().dispatch(
            #[inline(always)]
            || self.near::<W>(signature, strip, most, passed),
        );
    }
}

impl Technique for Signature {
    /// The signatures of the probe sets, and the positions that passed.
    type Scratch = (Vec<u64>, Vec<u32>);

    fn scratch(&self, _: &Sets) -> Self::Scratch {
        (vec![0; self.signatures.words], vec![])
    }

    fn scratch_bytes(&self, _: &Sets) -> u64 {
        (self.signatures.words * 8 + STRIP * 4) as u64
    }

    fn block<S: Sink>(
        &self,
        search: &SetSearch<'_>,
        block: &Block,
        (signature, passed): &mut Self::Scratch,
        sink: &mut S,
    ) -> Result<SetTally> {
        let mut tally = SetTally::default();
        search.for_each_set(block, sink, |i, at, window, sink| {
            let elements = search.probe.get(at);
            sign(elements, signature);
            search.for_each_size(search.probe.size(at), window.clone(), |run, least| {
                let together = elements.len() as u64 + search.indexed.size(run.start);
                let Some(spare) = together.checked_sub(2 * least) else {
                    return;
                };
                for from in run.clone().step_by(STRIP) {
                    let strip = from..(from + STRIP).min(run.end);
                    tally.candidates += strip.len() as u64;
                    match self.signatures.words {
                        1 => self.pass::<1>(search, signature, strip, spare, passed),
                        2 => self.pass::<2>(search, signature, strip, spare, passed),
                        4 => self.pass::<4>(search, signature, strip, spare, passed),
                        _ => self.pass::<8>(search, signature, strip, spare, passed),
                    }
                    tally.verified += passed.len() as u64;
                    for position in passed.drain(..) {
                        let position = position as usize;
                        let others = search.indexed.get(position);
                        let enough = || overlap_of_at_least(elements, others, least as usize);
                        if !sink.is_full(i) && enough().is_some() {
                            sink.found(i, position);
                        }
                    }
                }
            });
        })?;
        Ok(tally)
    }
}
