//! Altered copies of bytes, such as those of a message or a file.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Copies of `bytes`, as many as `PROPTEST_CASES` says, or `cases`: of each a few bytes are others. They are always the same copies.
pub(crate) fn altered(
    bytes: &[u8],
    within: Range<usize>,
    cases: usize,
) -> impl Iterator<Item = Altered> {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let cases = asked.and_then(|asked| asked.parse().ok()).unwrap_or(cases);
    let mut random = StdRng::seed_from_u64(bytes.len() as u64);
    (0..cases).map(move |_| {
        let mut copy = bytes.to_vec();
        let mut places = vec![];
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(within.clone());
            copy[at] = match random.random_range(0..4) {
                0 => 0,
                1 => 0xff,
                2 => random.random(),
                _ => copy[at] ^ (1_u8 << random.random_range(0..8_u32)),
            };
            places.push((at, copy[at]));
        }
        Altered {
            bytes: copy,
            places,
        }
    })
}

/// An altered copy.
#[derive(Debug)]
pub(crate) struct Altered {
    pub bytes: Vec<u8>,
    /// The places of the bytes that may be others, with their values.
    pub places: Vec<(usize, u8)>,
}
