//! Samples of keys, by which a strategy is chosen.

use crate::device::cuda::equi::key_words;
use crate::device::cuda::equi::sample;
use crate::device::cuda::tests::*;
use crate::device::primitives::transfer::TransferPrimitives;

/// Estimates of a sample are near the true shares: of probe rows that match, and of build rows with a duplicate key.
#[test]
fn samples_of_keys() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(23);
    let n = 150_000;
    let odd = 0x9E37_79B9_7F4A_7C15u64;
    for share in [0.0, 0.03, 0.4, 1.0] {
        for rows_a_key in [1, 4] {
            let keys = n as u64 / rows_a_key;
            let build: Vec<u64> = (0..n as u64).map(|i| i % keys).collect();
            let probe: Vec<u64> = (0..2 * n)
                .map(|_| match random.below(1000) < (share * 1000.0) as u64 {
                    true => random.below(keys),
                    false => keys + random.below(1 << 30),
                })
                .collect();
            let wide = |keys: &[u64]| -> ArrayRef {
                u64_column(keys.iter().map(|k| k.wrapping_mul(odd)).collect(), None)
            };
            let narrow = |keys: &[u64]| -> ArrayRef {
                let words = keys.iter().map(|k| (*k as u32).wrapping_mul(odd as u32));
                Arc::new(UInt32Array::from_iter_values(words))
            };
            // A seventh of the probe rows has no key.
            let nulls = random.nulls(2 * n, 2);
            let some = Arc::new(UInt32Array::new(
                probe
                    .iter()
                    .map(|k| (*k as u32).wrapping_mul(odd as u32))
                    .collect(),
                nulls,
            ));
            for (build, probe) in [
                (wide(&build), wide(&probe)),
                (narrow(&build), narrow(&probe)),
                (narrow(&build), some as ArrayRef),
            ] {
                let [build, probe] =
                    [build, probe].map(|array| gpu.upload(from_ref(&array)).unwrap());
                let (keys, keying) = key_words::equi_keys(&gpu, &[&build], false).unwrap();
                let probe = key_words::equi_keys_in(&gpu, &keying, &[&probe]).unwrap();
                let sampled = sample::sampled(&gpu.stream, &keys, &probe).unwrap();
                let again = 1.0 - 1.0 / rows_a_key as f64;
                // A key of several matching rows counts once.
                let near = |found: f64, share: f64| (found - share).abs() < 0.05;
                assert!(
                    sampled.matches.is_some_and(|found| near(found, share))
                        && near(sampled.again, again),
                    "{share} match, {rows_a_key} rows a key: {sampled:?}"
                );
            }
        }
    }
}
