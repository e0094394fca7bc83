//! The technique `signature`: tiles of signatures (`kernels/sets/techniques/set_signature.cu`; the bitmap filter of
//! \[B\] 4.1.2). Each pair of near sizes is tested by hashed bits; pairs that pass are verified.

use std::sync::Arc;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::{ByValue, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::set_element_words;
use crate::device::cuda::sets::search::{PreparedProbe, Search};
use crate::error::Result;
use crate::ir::set_predicate::SetTest;

/// The signatures of the indexed side.
#[derive(Debug)]
pub(crate) struct Signature {
    signatures: Memory,
    /// Words of 32 bits of a signature.
    words: usize,
}

/// Words of 32 bits of a signature, for sets of `mean` elements on average.
///
/// The cost of a test is proportional to its bits, and too few bits let too many pairs pass. Measured on an H200 with
/// 10^5 sets a side, in ms:
///
/// | mean set | predicate | 64 bits | 128 | 256 | 512 |
/// |---|---|---|---|---|---|
/// | 10 | contained | 7.5 | 4.5 | 5.6 | 10 |
/// | 10 | Jaccard 0.8, 0.5 | 2.6, 6.2 | 4.7, 9.5 | 8.7, 18 | 17, 36 |
/// | 10 | overlap of 5 | 165 | 38 | 24 | 39 |
/// | 50 | contained | 1.4 | 2.1 | 3.7 | 7.0 |
/// | 50 | Jaccard 0.8, 0.5 | 33, 1236 | 8.2, 33 | 16, 21 | 31, 42 |
fn words_for(mean: usize, test: SetTest) -> usize {
    let mean = mean.max(1) as u64;
    let bits = match (test.is_containment(), test.least_overlap(mean, mean)) {
        (true, _) => mean,
        // Below about half of a set, the size of the sets that share it does not matter.
        (false, Some(least)) if least * 5 <= mean * 3 => 5 * mean * mean / least.max(1),
        (false, Some(least)) => 2 * mean * mean / least,
        (false, None) => 2 * mean,
    };
    (bits.div_ceil(32).next_power_of_two() as usize).clamp(2, 16)
}

/// Join, signatures of the probe and of the indexed side, and the bounds of windows.
type SignatureKernel = Kernel<(ByValue<'static, 152, 8>, U64, U64, U64, U64)>;

impl Signature {
    pub(crate) fn new(stream: &Arc<Stream>, sets: &Sets, test: SetTest) -> Result<Self> {
        let words = words_for(sets.mean(), test);
        Ok(Self {
            signatures: set_element_words::signatures(stream, sets, words)?,
            words,
        })
    }

    /// The kernel, the probe sets of a block, and the indexed sets that it compares at a time.
    fn kernel(&self, search: &Search<'_>) -> (SignatureKernel, usize, usize) {
        let kernels = match (search.measure.is_contained(), search.measure.is_contains()) {
            (true, _) => [
                kernels::SET_SIGNATURE_CONTAINED_64,
                kernels::SET_SIGNATURE_CONTAINED_128,
                kernels::SET_SIGNATURE_CONTAINED_256,
                kernels::SET_SIGNATURE_CONTAINED_512,
            ],
            (_, true) => [
                kernels::SET_SIGNATURE_CONTAINS_64,
                kernels::SET_SIGNATURE_CONTAINS_128,
                kernels::SET_SIGNATURE_CONTAINS_256,
                kernels::SET_SIGNATURE_CONTAINS_512,
            ],
            _ => [
                kernels::SET_SIGNATURE_SIMILAR_64,
                kernels::SET_SIGNATURE_SIMILAR_128,
                kernels::SET_SIGNATURE_SIMILAR_256,
                kernels::SET_SIGNATURE_SIMILAR_512,
            ],
        };
        let size = self.words.trailing_zeros() as usize - 1;
        let strip = [2048, 2048, 1024, 512][size];
        (kernels[size], strip, 2048 / self.words)
    }

    pub(crate) fn prepare<'a>(&'a self, search: Search<'a>) -> Result<PreparedProbe<'a>> {
        let windows = search.windows()?;
        let (_, candidates) = search.pairs_in(&windows)?;
        let signatures = set_element_words::signatures(search.stream, search.probe, self.words)?;
        let (kernel, strip, columns) = self.kernel(&search);
        Ok(PreparedProbe {
            candidates,
            run: Box::new(move |to| {
                let (lo, hi) = (memory(&windows.lo)?, memory(&windows.hi)?);
                let most = 16 * search.stream.gpu.multiprocessors as usize;
                let shares = search.indexed.len / (8 * columns);
                let slices = |strips: usize| most.div_ceil(strips).min(shares);
                // A pair that passes the bits is verified by a warp.
                let cost = 1.0 + (search.probe.mean() + search.indexed.mean()) as f64 / 32.0;
                search.test_windows(strip, cost, &slices, to, &|shape, join| {
                    let (probe, indexed) = ((&signatures).into(), (&self.signatures).into());
                    let args = (join.into(), probe, indexed, lo.into(), hi.into());
                    // SAFETY: each set has a signature of the kernel's number of bits, each probe set a window.
                    unsafe { search.stream.launch(kernel, shape, &args) }
                })
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::words_for;
    use crate::ir::set_predicate::{SetMeasure, SetPredicate};
    use crate::ir::side::Side;

    #[test]
    fn as_many_bits_as_were_quickest() {
        let jaccard = |threshold| SetPredicate::degree(SetMeasure::Jaccard, threshold, false);
        let bits = |mean, predicate: Option<SetPredicate>| {
            32 * words_for(mean, predicate.unwrap().seen_from(Side::Left))
        };
        assert_eq!(bits(10, jaccard(0.8)), 64);
        assert_eq!(bits(10, jaccard(0.5)), 64);
        assert_eq!(bits(50, jaccard(0.8)), 128);
        assert_eq!(bits(50, jaccard(0.5)), 256);
        assert_eq!(bits(10, Some(SetPredicate::Overlap(5))), 128);
        assert_eq!(bits(50, Some(SetPredicate::Contains(Side::Left))), 64);
        assert_eq!(bits(5000, jaccard(0.5)), 512);
    }
}
