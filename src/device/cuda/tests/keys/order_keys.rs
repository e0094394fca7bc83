//! Order keys and sorting.

use crate::device::cuda::keys::sort::{self, KeyWidth, NARROW_KEYS_ONLY, WIDE_KEYS_ONLY};
use crate::device::cuda::tests::*;
use crate::device::primitives::keys::KeyPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;

/// The bytes of words of 64 or 32 bits.
fn bytes_of(words: &[u64], width: usize) -> Vec<u8> {
    let words = words.iter().map(|word| word.to_le_bytes());
    words.flat_map(|word| word[..width].to_vec()).collect()
}

/// The bytes of `keys`, sorted by their `varying` bits; where there are none the GPU leaves them in place.
fn sorted_bytes(
    gpu: &CudaDevice,
    keys: &[u64],
    (width, bytes): (KeyWidth, usize),
    varying: u64,
) -> Vec<u8> {
    let n = keys.len();
    let unsorted = gpu.stream.send(&bytes_of(keys, bytes), "test").unwrap();
    let sorted =
        sort::sort_pairs(&gpu.stream, width, (&unsorted).into(), None, n, varying).unwrap();
    assert_eq!(sorted.is_some(), varying != 0);
    let sorted = sorted.map_or(unsorted, |(sorted, _)| sorted);
    let mut found = vec![0; n * bytes];
    gpu.stream.read_few(&mut found, &sorted, 0).unwrap();
    found
}

/// Sorts `n` keys alone that differ in some bits.
pub(crate) fn sorted_alone(gpu: &CudaDevice, random: &mut Random, n: usize, kind: usize) {
    let widths: [(KeyWidth, usize); 2] = [(WIDE_KEYS_ONLY, 8), (NARROW_KEYS_ONLY, 4)];
    for (width, bytes) in widths {
        let mut keys = random.words(n, kind);
        if bytes == 4 {
            // In some kinds only the upper halves differ.
            keys = keys
                .iter()
                .map(|key| (key ^ key >> 32) as u32 as u64)
                .collect();
        }
        for varying in [u64::MAX, 0x7F_FFFF_FFFF, 0xFFF0_FFF0, 1 << 20, 0] {
            let varying = match bytes {
                4 => varying & u64::from(u32::MAX),
                _ => varying,
            };
            let keys: Vec<u64> = keys.iter().map(|key| key & varying).collect();
            let found = sorted_bytes(gpu, &keys, (width, bytes), varying);
            let mut expected = keys;
            expected.sort_unstable();
            assert!(
                found == bytes_of(&expected, bytes),
                "{n} keys of {bytes} bytes, kind {kind}, {varying:x}"
            );
        }
    }
}

#[test]
fn keys_alone_are_sorted() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(5);
    // Also around the tiles of both widths.
    let tiles = [5759, 5760, 5761, 8831, 8832, 8833, 17_665];
    for n in SIZES.into_iter().chain(tiles) {
        for kind in 0..6 {
            sorted_alone(&gpu, &mut random, n, kind);
        }
    }
}

/// A sort by some bits is stable.
#[test]
fn keys_alone_by_some_bits_are_stable() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(6);
    for n in [2, 33, 9_000, 70_000] {
        for (width, bytes, first) in [(WIDE_KEYS_ONLY, 8, 40), (NARROW_KEYS_ONLY, 4, 24)] {
            let key = |i: u64, random: &mut Random| random.below(9) << first | i;
            let keys: Vec<u64> = (0..n).map(|i| key(i, &mut random)).collect();
            let found = sorted_bytes(&gpu, &keys, (width, bytes), 0xF << first);
            // Sorted by all bits, as the lower ones were ascending.
            let mut expected = keys;
            expected.sort_unstable();
            assert!(
                found == bytes_of(&expected, bytes),
                "{n} keys of {bytes} bytes"
            );
        }
    }
}

#[test]
fn order_keys_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(2);
    for (kind, n) in SIZES.into_iter().enumerate() {
        for array in columns(&mut random, n, kind + 2) {
            for array in [Arc::clone(&array), array.slice(n / 3, n / 5)] {
                let (of_host, of_gpu) = keys_of(&host, &gpu, &array);
                let what = format!("{} of {n}", array.data_type());
                same_keys(&of_host, &of_gpu, &what);
                // Every sort omits exactly the rows with a NULL.
                let rows = array.len();
                let of_host = host.sort(rows, None, None, &[&of_host]).unwrap();
                let of_gpu = gpu.sort(rows, None, None, &[&of_gpu]).unwrap();
                same_sorted(&of_host, &of_gpu, &what);
            }
        }
    }
}

#[test]
fn keys_of_another_column_in_a_domain() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(3);
    for n in [0, 1, 33, 5000, 70_000] {
        for kind in [0, 1, 3, 4, 5] {
            // In the base, one in seven is NULL, all are, or none; some of the others' values are from the base.
            let (base, other) = (
                columns(&mut random, n, kind),
                columns(&mut random, n / 2, if kind == 4 { 4 } else { 3 }),
            );
            for (base, other) in base.iter().zip(&other) {
                let (_, of_host) = host
                    .order_keys(&host.upload(from_ref(base)).unwrap())
                    .unwrap();
                let (_, of_gpu) = gpu
                    .order_keys(&gpu.upload(from_ref(base)).unwrap())
                    .unwrap();
                let of_host = host
                    .order_keys_in(&of_host, &host.upload(from_ref(other)).unwrap())
                    .unwrap();
                let of_gpu = gpu
                    .order_keys_in(&of_gpu, &gpu.upload(from_ref(other)).unwrap())
                    .unwrap();
                same_keys(&of_host, &of_gpu, &base.data_type().to_string());
            }
        }
    }
}

#[test]
fn sorting_is_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(4);
    for n in SIZES.into_iter().chain([3_000_000]) {
        for kind in 0..6 {
            if n > 1_000_000 && kind % 3 != 0 {
                continue;
            }
            let array = u64_column(random.words(n, kind), random.nulls(n, kind));
            let (key, key_on_gpu) = keys_of(&host, &gpu, &array);
            let second = u64_column(random.words(n, 0), random.nulls(n, kind + 1));
            let (not_null, not_null_on_gpu) = keys_of(&host, &gpu, &second);
            for groups in [None, Some(1), Some(300), Some(70_000)] {
                let ids = groups.map(|groups| group_ids(&mut random, n, groups));
                let here_ids = ids.as_ref().map(|ids| on_host(&host, ids));
                let there_ids = ids.as_ref().map(|ids| on_gpu(&gpu, ids));
                for (with_key, with_other) in
                    [(true, false), (true, true), (false, true), (false, false)]
                {
                    let of_host = host
                        .sort(
                            n,
                            with_key.then_some(&key),
                            here_ids.as_ref().zip(groups),
                            &if with_other { vec![&not_null] } else { vec![] },
                        )
                        .unwrap();
                    let of_gpu = gpu
                        .sort(
                            n,
                            with_key.then_some(&key_on_gpu),
                            there_ids.as_ref().zip(groups),
                            &if with_other {
                                vec![&not_null_on_gpu]
                            } else {
                                vec![]
                            },
                        )
                        .unwrap();
                    let what = format!(
                        "{n} rows, kind {kind}, {groups:?} groups, {with_key} {with_other}"
                    );
                    same_sorted(&of_host, &of_gpu, &what);
                }
            }
        }
    }
}
