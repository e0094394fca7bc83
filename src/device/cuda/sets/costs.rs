//! Cost model of the techniques for similar sets: estimates of their work enter, the cheapest technique leaves.
//!
//! | technique | unit of work | time per unit |
//! |---|---|---|
//! | `prefix` | candidates: an element of two prefixes, `Σ p(e)²` by the number `p(e)` of sets with element `e` in their prefix | 3 ps, and 18 ps for the share of elements that need not be common, since signatures reject most |
//! | | probe sets, for the verification of pairs that signatures let through | 1.6 ns for each pair of elements that need not be common |
//! | `inverted_index` | list items in windows, `Σ f(e)²` by the number `f(e)` of sets with element `e` | 3 ps, and 0.8 ps per pair in a window to read its counter |
//! | `matrix` | pairs in windows | 2.2 ps, and 0.4 ps for each 1000 elements of the universe |
//! | `mmjoin` | the same, of the heavy elements | and 20 ps for each pair that heavy elements let through, with 0.15 ps for each of its light elements, by a sample (`techniques/mmjoin.rs`) |
//!
//! Fitted on an H100 to self joins of 10⁵ to 1.6 · 10⁶ sets of clones of DBLP, TWITTER, BMS-POS and KOSARAK at Jaccard 0.5 to
//! 0.9 (`docs/performance/log-sets.md`), where the cheapest technique by the model took at most 1.5 times as long as the
//! fastest. The model reads the indexed side alone, and assumes that the probe side is like it.

use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;
use crate::ir::set_predicate::SetTechnique;

/// Picoseconds on an H100, of `prefix`, `inverted_index` and `matrix` as in the table above.
const CANDIDATE: f64 = 3.0;
const SURVIVOR: f64 = 18.0;
const VERIFIED_PAIR: f64 = 1.57e3;
const ITEM: f64 = 3.0;
const COUNTER: f64 = 0.8;
pub(crate) const PRODUCT: f64 = 2.2;
pub(crate) const PRODUCT_ELEMENT: f64 = 4.0e-4;
/// Picoseconds of a pair whose light elements are looked at, and of each of these.
pub(crate) const HEAVY_PAIR: f64 = 20.0;
pub(crate) const LIGHT_ELEMENT: f64 = 0.15;

/// The estimated work of a set join.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Pairs in windows, and all pairs of sets of equal groups.
    pub pairs: f64,
    pub all_pairs: f64,
    /// Pairs of equal elements, and pairs of equal prefix elements.
    pub items: f64,
    pub candidates: f64,
    /// Probe sets.
    pub sets: f64,
    /// Elements of an average set, the share of them that must be common, and distinct elements in all.
    pub mean: f64,
    pub share: f64,
    pub universe: f64,
    /// Picoseconds of `mmjoin`.
    pub split: f64,
}

impl Work {
    /// Picoseconds of each technique.
    fn costs(&self) -> [(SetTechnique, f64); 4] {
        let may_differ = 1.0 - self.share;
        let verified = self.sets * (self.mean * may_differ).powi(2) * VERIFIED_PAIR;
        let in_windows = self.pairs / self.all_pairs.max(1.0);
        [
            (
                SetTechnique::Prefix,
                self.candidates * (CANDIDATE + SURVIVOR * may_differ) + verified,
            ),
            (
                SetTechnique::InvertedIndex,
                self.items * in_windows * ITEM + self.pairs * COUNTER,
            ),
            (
                SetTechnique::Matrix,
                self.pairs * (PRODUCT + PRODUCT_ELEMENT * self.universe),
            ),
            (SetTechnique::MmJoin, self.split),
        ]
    }

    /// The cheapest technique; `matrix` and `mmjoin` only if their rows of bits fit.
    pub(crate) fn cheapest(&self, bits_fit: bool, heavy_fit: bool) -> SetTechnique {
        let costs = self.costs().into_iter();
        let possible = costs.filter(|(technique, _)| match technique {
            SetTechnique::Matrix => bits_fit,
            SetTechnique::MmJoin => heavy_fit,
            _ => true,
        });
        let cheapest = possible.min_by(|(_, a), (_, b)| a.total_cmp(b));
        cheapest.map_or(SetTechnique::Prefix, |(technique, _)| technique)
    }
}

/// `Σ n²` of `count` numbers of 32 bits or, if they `are_offsets`, of the differences of `count` + 1 of them. It
/// reads them back to the host.
pub(crate) fn sum_of_squares(
    stream: &Stream,
    numbers: &Memory,
    count: usize,
    are_offsets: bool,
) -> Result<f64> {
    if count == 0 {
        return Ok(0.0);
    }
    let mut bytes = vec![0; (count + usize::from(are_offsets)) * 4];
    stream.read_few(&mut bytes, numbers, 0)?;
    let words = bytes.as_chunks().0.iter();
    let words: Vec<u32> = words.map(|word| u32::from_le_bytes(*word)).collect();
    let square = |n: u32| f64::from(n) * f64::from(n);
    Ok(match are_offsets {
        true => words.windows(2).map(|w| square(w[1] - w[0])).sum(),
        false => words.into_iter().map(square).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Self joins of clones as they were measured, in ms: by `prefix`, `inverted_index` and `matrix`. DBLP on an H100; the others on an H200,
    /// before there were signatures and with equal sets joined one by one.
    const MEASURED: [(&str, Work, [f64; 3]); 8] = [
        (
            "DBLP 100K, 0.5",
            work(3.41e9, 1e5, 6.22e10, 3.5e9, 88.0, 0.667, 7205.0),
            [218.0, 64.4, 18.2],
        ),
        (
            "DBLP 100K, 0.7",
            work(1.79e9, 1e5, 6.22e10, 1.34e9, 88.0, 0.824, 7205.0),
            [34.6, 37.9, 12.4],
        ),
        (
            "DBLP 200K, 0.5",
            work(1.36e10, 2e5, 2.29e11, 1.15e10, 88.0, 0.667, 8817.0),
            [473.0, 233.0, 74.8],
        ),
        (
            "DBLP 200K, 0.8",
            work(4.54e9, 2e5, 2.29e11, 2.39e9, 88.0, 0.889, 8817.0),
            [39.3, 85.3, 34.0],
        ),
        (
            "TWITTER 100K, 0.5",
            work(3.42e9, 1e5, 2.66e10, 5.33e8, 75.0, 0.667, 37e3),
            [52.4, 37.0, 94.5],
        ),
        (
            "TWITTER 100K, 0.9",
            work(5.41e8, 1e5, 2.66e10, 3.85e7, 75.0, 0.947, 37e3),
            [10.1, 15.2, 25.7],
        ),
        (
            "BMS-POS, 0.5",
            work(1.15e11, 5.1e5, 4.91e10, 3.47e9, 6.5, 0.667, 1657.0),
            [78.9, 200.0, 337.0],
        ),
        (
            "KOSARAK, 0.5",
            work(4.2e11, 1e6, 7.38e10, 1.11e9, 8.0, 0.667, 41e3),
            [48.6, 368.0, 23e3],
        ),
    ];

    const fn work(
        pairs: f64,
        sets: f64,
        items: f64,
        candidates: f64,
        mean: f64,
        share: f64,
        universe: f64,
    ) -> Work {
        Work {
            pairs,
            all_pairs: sets * sets,
            items,
            candidates,
            sets,
            mean,
            share,
            universe,
            split: f64::INFINITY,
        }
    }

    #[test]
    fn the_cheapest_is_about_the_fastest() {
        let place = |technique| match technique {
            SetTechnique::Prefix => 0,
            SetTechnique::InvertedIndex => 1,
            _ => 2,
        };
        for (case, work, ms) in MEASURED {
            let fastest = ms.into_iter().fold(f64::MAX, f64::min);
            let taken = ms[place(work.cheapest(true, true))];
            assert!(
                taken <= 1.5 * fastest,
                "{case}: {taken} {fastest} {:?}",
                work.costs()
            );
            // The transfer of the lists to the GPU and their encoding are not measured.
            // Nor was `mmjoin`.
            for (technique, cost) in work.costs().into_iter().take(3) {
                let measured = ms[place(technique)];
                assert!(
                    cost / 1e9 < 2.0 * measured,
                    "{case}: {technique:?} {cost} {measured}"
                );
            }
        }
    }

    #[test]
    fn rows_of_bits_need_room() {
        let (_, dblp, _) = MEASURED[0];
        assert_eq!(dblp.cheapest(true, true), SetTechnique::Matrix);
        assert_eq!(dblp.cheapest(false, true), SetTechnique::InvertedIndex);
    }
}
