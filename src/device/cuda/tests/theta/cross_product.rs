//! Cross products.

use crate::device::cuda::tests::*;
use crate::device::primitives::fast_paths::FastPaths;
use crate::device::primitives::transfer::TransferPrimitives;

/// Cross products of columns, from any output row on, where the device computes them.
#[test]
fn products_repeat_one_side_and_the_other_again() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(43);
    for (turn, (left, right)) in [
        (1, 1),
        (3, 5),
        (7, 1),
        (1, 1000),
        (129, 257),
        (1000, 33),
        (40, 70_001),
    ]
    .into_iter()
    .enumerate()
    {
        let mut served = 0;
        for (repeated, n) in [(true, left), (false, right)] {
            for array in columns(&mut random, n, turn * 3) {
                let column = gpu.upload(from_ref(&array)).unwrap();
                let all = left as u64 * right as u64;
                let cuts = [
                    (0, all),
                    (all / 3, all - all / 3),
                    (all - 1, 1),
                    (all / 2, (all / 7).max(1)),
                ];
                for (from, len) in cuts.map(|(from, len)| (from, len.min(all - from))) {
                    let made = gpu
                        .cross_product(&column, repeated, right, from, len as usize)
                        .unwrap();
                    let Some(made) = made else { continue };
                    let row = |pair: u64| match repeated {
                        true => pair / right as u64,
                        false => pair % right as u64,
                    };
                    let rows: UInt32Array = (from..from + len)
                        .map(|pair| Some(row(pair) as u32))
                        .collect();
                    let expected = take(&array, &rows, None).unwrap();
                    assert_eq!(
                        &gpu.download(&made).unwrap(),
                        &expected,
                        "{left} x {right}, {from}, {len}"
                    );
                    served += 1;
                }
            }
        }
        assert!(served > 100, "{served} columns");
    }
}
