//! MinHash signatures of sets of hashed elements.
//!
//! Position `i` of a signature is the least `a[i] · x + b[i]` modulo 2⁶⁴ over the elements `x`, mixed with `i` by a bijection, so
//! that values of two positions are equal by chance alone. All constants come from one SplitMix64 generator of a fixed seed:
//! signatures are the same on every machine and in every version, and a shorter one is the beginning of a longer one.

use pulp::Arch;

/// "minhash1".
const SEED: u64 = 0x6D69_6E68_6173_6831;

/// Positions that are computed together: their least values stay in registers.
const LANES: usize = 16;

/// The constants of [`LANES`] positions.
struct Block {
    /// Odd, so that no two elements have the same value.
    factors: [u64; LANES],
    addends: [u64; LANES],
    marks: [u64; LANES],
}

/// The hash functions of the first positions of all signatures.
pub(crate) struct HashFunctions(Vec<Block>);

impl HashFunctions {
    /// Those of signatures of at most `longest` positions.
    pub(crate) fn new(longest: usize) -> Self {
        let mut state = SEED;
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mixed(state)
        };
        let mut block = || {
            let [mut factors, mut addends, mut marks] = [[0; LANES]; 3];
            let positions = factors.iter_mut().zip(&mut addends).zip(&mut marks);
            for ((factor, addend), mark) in positions {
                *factor = next() | 1;
                *addend = next();
                *mark = next();
            }
            Block {
                factors,
                addends,
                marks,
            }
        };
        Self((0..longest.div_ceil(LANES)).map(|_| block()).collect())
    }

    /// Writes the signature of a set, of as many positions as `signature` has. Elements may repeat, and there is one at least.
    pub(crate) fn sign(&self, elements: &[u64], signature: &mut [u64]) {
        debug_assert!(!elements.is_empty() && signature.len() <= self.0.len() * LANES);
        Arch::new().dispatch(
            #[inline(always)]
            || self.sign_here(elements, signature),
        );
    }

    #[inline(always)]
    fn sign_here(&self, elements: &[u64], signature: &mut [u64]) {
        for (values, block) in signature.chunks_mut(LANES).zip(&self.0) {
            let mut least = [u64::MAX; LANES];
            for element in elements {
                let constants = block.factors.iter().zip(&block.addends);
                for (least, (factor, addend)) in least.iter_mut().zip(constants) {
                    let value = element.wrapping_mul(*factor).wrapping_add(*addend);
                    *least = value.min(*least);
                }
            }
            for ((value, least), mark) in values.iter_mut().zip(least).zip(&block.marks) {
                *value = mixed(least ^ mark);
            }
        }
    }
}

/// The finaliser of SplitMix64, a bijection.
#[inline]
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn signature(elements: &[u64], length: usize) -> Vec<u64> {
        let mut signature = vec![0; length];
        HashFunctions::new(length).sign(elements, &mut signature);
        signature
    }

    /// By the definition, position by position.
    fn naive(elements: &[u64], length: usize) -> Vec<u64> {
        let draw = |i: usize| {
            let steps = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            mixed(SEED.wrapping_add(steps))
        };
        let value = |i: usize| {
            let (a, b, mark) = (draw(3 * i) | 1, draw(3 * i + 1), draw(3 * i + 2));
            let values = elements.iter().map(|x| a.wrapping_mul(*x).wrapping_add(b));
            mixed(values.min().unwrap() ^ mark)
        };
        (0..length).map(value).collect()
    }

    #[test]
    fn are_what_they_are_defined_to_be() {
        let elements: Vec<u64> = (0..1_000).map(mixed).collect();
        for set in [&elements[..1], &elements[1..3], &elements[3..]] {
            for length in [1, 2, 15, 16, 17, 100] {
                assert_eq!(signature(set, length), naive(set, length));
            }
        }
    }

    #[test]
    fn are_sets_and_begin_alike() {
        let (a, b) = (signature(&[5, 9, 7], 40), signature(&[7, 5, 5, 9, 9], 40));
        assert_eq!(a, b);
        assert_eq!(signature(&[5, 9, 7], 21), a[..21]);
    }

    /// One element has as many values as there are positions, none of them shared with another element's.
    #[test]
    fn positions_differ() {
        let sets = (0..100).map(|x| signature(&[x], 500));
        let values: BTreeSet<u64> = sets.flatten().collect();
        assert_eq!(values.len(), 50_000);
    }

    /// Of elements 0, 1 and 2⁶⁴ − 1, by another implementation.
    #[test]
    fn never_change() {
        assert_eq!(
            signature(&[0, 1, u64::MAX], 4),
            [
                0x9828_5956_7256_1B0A,
                0xF355_570F_D4D7_AE26,
                0x2E12_FA4E_4E75_DC69,
                0xFC9F_AB3F_CB41_CAEF,
            ]
        );
    }
}
