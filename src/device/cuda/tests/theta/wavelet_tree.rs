//! Counts of two inequalities: with the wavelet tree forced, and by a walk that is cancelled.

use crate::device::cuda::tests::*;
use crate::device::cuda::theta::wavelet_tree;
use crate::device::cuda::theta::zone_map::{self, on_gpu as on_zoned};
use crate::device::data::ranges::Ranges;
use crate::device::primitives::theta::ThetaPrimitives;

pub(super) const INEQUALITIES: [Comparison; 4] = [
    Comparison::Lt,
    Comparison::LtEq,
    Comparison::Gt,
    Comparison::GtEq,
];

/// Ranges of `n` build positions for `m` probe positions: empty, whole, prefixes, suffixes, narrow, within groups.
pub(super) fn ranges_like(
    random: &mut Random,
    kind: usize,
    n: usize,
    m: usize,
) -> (Vec<u32>, Vec<u32>) {
    let (n, m) = (n as u64, m as u64);
    let group = n / 12 + 1;
    (0..m)
        .map(|i| {
            let at = i * (n + 1) / m;
            let (from, to) = match kind {
                0 => (0, at),
                1 => (at, n),
                2 => (0, n),
                3 => (at, (at + random.below(70)).min(n)),
                4 => (at / group * group, at),
                _ => {
                    let (a, b) = (random.below(n + 1), random.below(n + 1));
                    (a.min(b), a.max(b))
                }
            };
            match from < to && random.below(9) != 0 {
                true => (from as u32, to as u32),
                false => (0, 0),
            }
        })
        .unzip()
}

/// The ranges of both sides, and their keys of one column, in order already.
pub(super) struct Searched {
    pub(super) host: (OrderedRows, OrderedRows, Ranges, ZonedKeys, ZonedKeys),
    pub(super) gpu: (OrderedRows, OrderedRows, Ranges, ZonedKeys, ZonedKeys),
}

impl Searched {
    pub(super) fn of(
        host: &HostDevice,
        gpu: &CudaDevice,
        keys: Vec<u64>,
        words: Vec<u64>,
        (lo, hi): (Vec<u32>, Vec<u32>),
    ) -> Self {
        fn on<D: Device>(
            device: &D,
            keys: &ArrayRef,
            words: &ArrayRef,
            ranges: Ranges,
        ) -> (OrderedRows, OrderedRows, Ranges, ZonedKeys, ZonedKeys) {
            let keys_of = |array: &ArrayRef| {
                let column = device.upload(from_ref(array)).unwrap();
                device.order_keys(&column).unwrap().0
            };
            let in_order = |array: &ArrayRef| {
                let keys = keys_of(array);
                // Ranges are of build positions, so the build side is sorted by position.
                let places = keys_of(&u64_column((0..array.len() as u64).collect(), None));
                let build = device.sort(array.len(), Some(&places), None, &[]).unwrap();
                let zoned = device.zone_keys(&keys, &build).unwrap();
                (build, zoned)
            };
            let (build, keys) = in_order(keys);
            let (probe, words) = in_order(words);
            (build, probe, ranges, keys, words)
        }
        let (keys, words) = (u64_column(keys, None), u64_column(words, None));
        let of_host = Ranges {
            lo: on_host(host, &lo),
            hi: on_host(host, &hi),
        };
        let of_gpu = Ranges {
            lo: on_gpu(gpu, &lo),
            hi: on_gpu(gpu, &hi),
        };
        Self {
            host: on(host, &keys, &words, of_host),
            gpu: on(gpu, &keys, &words, of_gpu),
        }
    }
}

pub(super) fn matches<'a>(
    (build, probe, ranges, _, _): &'a (OrderedRows, OrderedRows, Ranges, ZonedKeys, ZonedKeys),
    tests: &'a [Test<'a>],
) -> Matches<'a> {
    Matches {
        build,
        probe,
        ranges,
        tests,
        program: None,
    }
}

pub(super) fn test(
    (_, _, _, build, probe): &(OrderedRows, OrderedRows, Ranges, ZonedKeys, ZonedKeys),
    op: Comparison,
) -> Test<'_> {
    Test { op, build, probe }
}

#[test]
fn counts_of_two_inequalities_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(11);
    let around = |n: usize| [n - 1, n, n + 1];
    let sizes: Vec<usize> = [1, 31, 32, 33, 1000, 100_000, 300_001]
        .into_iter()
        .chain(
            [64, 128, 256, 512, 4096, 8192, 16_384, 65_536]
                .into_iter()
                .flat_map(around),
        )
        .collect();
    for (i, n) in sizes.into_iter().enumerate() {
        for kind in 0..6 {
            let m = [1, 31, 257, 3000][(i + kind) % 4];
            let keys = random.words(n, kind);
            let mut words = random.words(m, kind);
            for word in words.iter_mut().step_by(3) {
                *word = keys[random.below(n as u64) as usize];
            }
            let ranges = ranges_like(&mut random, (i + kind) % 6, n, m);
            let searched = Searched::of(&host, &gpu, keys, words, ranges);
            for op in INEQUALITIES {
                let tests = [test(&searched.host, op)];
                let of_host = host
                    .count_matches(matches(&searched.host, &tests), false)
                    .unwrap()
                    .counts;
                let tests = [test(&searched.gpu, op)];
                let of_gpu = matches(&searched.gpu, &tests);
                let by_tree = wavelet_tree::wavelet_count(&gpu.stream, of_gpu, &tests[0]).unwrap();
                let what = format!("{n} x {m}, kind {kind}, {op}");
                assert_eq!(
                    of_host.on_host().unwrap(),
                    &down(&by_tree),
                    "{what}: by the tree"
                );
                let chosen = gpu.count_matches(of_gpu, false).unwrap().counts;
                assert_eq!(
                    of_host.on_host().unwrap(),
                    &down(&chosen),
                    "{what}: as chosen"
                );
                let exists = host
                    .count_matches(matches(&searched.host, &[test(&searched.host, op)]), true)
                    .unwrap()
                    .counts;
                let exists_on_gpu = gpu.count_matches(of_gpu, true).unwrap().counts;
                assert_eq!(
                    exists.on_host().unwrap(),
                    &down(&exists_on_gpu),
                    "{what}: exists"
                );
            }
        }
    }
}

/// Prefixes of keys without order: no zone decides anything.
fn unordered(host: &HostDevice, gpu: &CudaDevice, n: usize, m: usize) -> Searched {
    let mut random = Random(12);
    let (keys, words) = (random.words(n, 0), random.words(m, 0));
    let hi = (0..m).map(|i| (i * n / m) as u32).collect();
    Searched::of(host, gpu, keys, words, (vec![0; m], hi))
}

#[test]
fn the_tree_is_made_where_zones_decide_nothing_and_there_is_room() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let n = 400_000;
    let has_tree = |searched: &Searched| on_zoned(&searched.gpu.3).unwrap().wavelet.get().is_some();
    let apart = unordered(&host, &gpu, n, n);
    let tests = [test(&apart.gpu, Comparison::Gt)];
    let counts = gpu
        .count_matches(matches(&apart.gpu, &tests), false)
        .unwrap()
        .counts;
    assert!(has_tree(&apart));

    let rising: Vec<u64> = (0..n as u64).map(|i| i << 20).collect();
    let prefixes = (vec![0; n], (0..n as u32).collect());
    let close = Searched::of(&host, &gpu, rising.clone(), rising, prefixes);
    let tests = [test(&close.gpu, Comparison::Gt)];
    gpu.count_matches(matches(&close.gpu, &tests), false)
        .unwrap();
    assert!(!has_tree(&close));

    // If the tree does not fit, an error asks for a smaller tile.
    let refused = unordered(&host, &gpu, n, n);
    let tests = [test(&refused.gpu, Comparison::Gt)];
    let of_gpu = matches(&refused.gpu, &tests);
    let full = gpu.budget().limit() - gpu.budget().in_use() - n as u64 * 8;
    let held = gpu.budget().lease(full, "test").unwrap();
    let error = gpu.count_matches(of_gpu, false).unwrap_err();
    assert!(error.is_divisible());
    drop(held);
    assert!(!has_tree(&refused));
    let counts_again = gpu.count_matches(of_gpu, false).unwrap().counts;
    assert!(has_tree(&refused));
    assert_eq!(down(&counts_again), down(&counts));
}

#[test]
fn a_walk_in_several_launches_counts_the_same_and_can_be_cancelled() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let (n, m) = (1_000_000, 200_000);
    let searched = unordered(&host, &gpu, n, m);
    let tests = [test(&searched.gpu, Comparison::Gt)];
    let of_gpu = matches(&searched.gpu, &tests);
    let walked = zone_map::zones_count(&gpu.stream, of_gpu, false, &|| Ok(()))
        .unwrap()
        .unwrap();
    let by_tree = wavelet_tree::wavelet_count(&gpu.stream, of_gpu, &tests[0]).unwrap();
    assert_eq!(down(&walked), down(&by_tree));

    // 10^13 pairs, tested twice.
    let searched = unordered(&host, &gpu, 10_000_000, 1_000_000);
    let tests = [
        test(&searched.gpu, Comparison::Gt),
        test(&searched.gpu, Comparison::Gt),
    ];
    ends_when_cancelled(&host, &gpu, |gpu| {
        gpu.count_matches(matches(&searched.gpu, &tests), false)
    });
}
