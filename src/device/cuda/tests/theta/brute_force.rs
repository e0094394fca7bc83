//! Counts over all pairs by brute force: forced, and as the device chooses.

use crate::device::cuda::tests::*;
use crate::device::cuda::theta::published::brute_force;
use crate::device::cuda::theta::zone_map;
use crate::device::data::ranges::Ranges;
use crate::device::primitives::keys::KeyPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;

const INEQUALITIES: [Comparison; 4] = [
    Comparison::Lt,
    Comparison::LtEq,
    Comparison::Gt,
    Comparison::GtEq,
];

/// Two sides without order or groups, and their keys of each tested column.
struct Rectangle {
    build: OrderedRows,
    probe: OrderedRows,
    ranges: Ranges,
    columns: Vec<(ZonedKeys, ZonedKeys)>,
}

impl Rectangle {
    /// From columns as (words of the build side, words of the probe side).
    fn on<D: Device>(device: &D, columns: &[(Vec<u64>, Vec<u64>)]) -> Self {
        let (n, m) = (columns[0].0.len(), columns[0].1.len());
        let build = device.sort(n, None, None, &[]).unwrap();
        let probe = device.sort(m, None, None, &[]).unwrap();
        let zoned = |words: &[u64], build: &OrderedRows| {
            let array = u64_column(words.to_vec(), None);
            let column = device.upload(from_ref(&array)).unwrap();
            let (keys, _) = device.order_keys(&column).unwrap();
            device.zone_keys(&keys, build).unwrap()
        };
        Self {
            ranges: device.range_bounds(&build, &probe, &[], None).unwrap(),
            columns: columns
                .iter()
                .map(|(left, right)| (zoned(left, &build), zoned(right, &probe)))
                .collect(),
            build,
            probe,
        }
    }

    fn tests(&self, ops: &[Comparison]) -> Vec<Test<'_>> {
        ops.iter()
            .zip(&self.columns)
            .map(|(op, (build, probe))| Test {
                op: *op,
                build,
                probe,
            })
            .collect()
    }

    fn matches<'a>(&'a self, tests: &'a [Test<'a>]) -> Matches<'a> {
        Matches {
            build: &self.build,
            probe: &self.probe,
            ranges: &self.ranges,
            tests,
            program: None,
        }
    }
}

/// Words of both sides: far apart, close, ascending, at the limits, around 2^32 apart, all equal.
fn words_like(random: &mut Random, kind: usize, n: usize) -> Vec<u64> {
    let base = 1u64 << 40;
    (0..n as u64)
        .map(|i| match kind {
            0 => random.next(),
            1 => base + random.below(1 << 20),
            2 => i << 22,
            3 => [0, 1, u64::MAX - 1, u64::MAX][random.below(4) as usize],
            4 => {
                let around = [
                    base - (1 << 31),
                    base,
                    base + (1 << 31),
                    base + (1 << 32) - 1,
                    base + (1 << 32),
                ];
                around[random.below(5) as usize] - random.below(2)
            }
            _ => 7,
        })
        .collect()
}

const KINDS: usize = 6;

#[test]
fn counts_over_all_pairs_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(21);
    let sizes = [1, 31, 33, 2047, 2048, 2049];
    let around = sizes
        .into_iter()
        .enumerate()
        .map(|(i, n)| (n, sizes[(i * 5 + 2) % 6]));
    let sizes = around.chain([(2049, 4100), (5_000, 70_001), (70_001, 5_000)]);
    for (turn, (n, m)) in sizes.enumerate() {
        for kind in 0..KINDS {
            let turn = turn + kind / 2;
            // All columns of one kind, or each of another.
            let columns: Vec<_> = (0..3)
                .map(|c| {
                    let kind = (kind + c * (turn % 2)) % KINDS;
                    (
                        words_like(&mut random, kind, n),
                        words_like(&mut random, kind, m),
                    )
                })
                .collect();
            let of_host = Rectangle::on(&host, &columns);
            let of_gpu = Rectangle::on(&gpu, &columns);
            for (i, first) in INEQUALITIES.into_iter().enumerate() {
                for count in 1..=3 {
                    let ops = [first, INEQUALITIES[(i + turn) % 4], INEQUALITIES[turn % 4]];
                    let ops = &ops[..count];
                    let what = format!("{n} x {m}, kind {kind}, {ops:?}");
                    let tests = of_host.tests(ops);
                    let expected = host
                        .count_matches(of_host.matches(&tests), false)
                        .unwrap()
                        .counts;
                    let tests = of_gpu.tests(ops);
                    let matches = of_gpu.matches(&tests);
                    let by_tiles =
                        brute_force::tiles_count(&gpu.stream, matches, &|| Ok(())).unwrap();
                    let by_tiles = down(&by_tiles);
                    assert_eq!(expected.on_host().unwrap(), &by_tiles, "{what}: by tiles");
                    let chosen = gpu.count_matches(matches, false).unwrap().counts;
                    assert_eq!(
                        expected.on_host().unwrap(),
                        &down(&chosen),
                        "{what}: as chosen"
                    );
                }
            }
        }
    }
}

/// Columns without order, whose zones decide nothing.
fn unordered(gpu: &CudaDevice, n: usize, m: usize) -> Rectangle {
    let mut random = Random(22);
    let columns: Vec<_> = (0..3)
        .map(|_| (random.words(n, 0), random.words(m, 0)))
        .collect();
    Rectangle::on(gpu, &columns)
}

#[test]
fn only_a_whole_rectangle_of_inequalities_goes_by_tiles() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let sides = unordered(&gpu, 5_000, 3_000);
    let all = [Comparison::Lt, Comparison::GtEq, Comparison::Gt];
    let mut last = 0.0;
    for count in 1..=3 {
        let tests = sides.tests(&all[..count]);
        let cost = brute_force::cost(sides.matches(&tests), false).unwrap();
        assert!(cost > last);
        last = cost;
        assert!(brute_force::cost(sides.matches(&tests), true).is_none());
    }
    for other in [Comparison::Eq, Comparison::NotEq] {
        let tests = sides.tests(&[Comparison::Lt, other]);
        assert!(brute_force::cost(sides.matches(&tests), false).is_none());
    }
    let tests = sides.tests(&all);
    let four: Vec<_> = tests.iter().chain(&tests[..1]).copied().collect();
    assert!(brute_force::cost(sides.matches(&four), false).is_none());
    assert!(brute_force::cost(sides.matches(&[]), false).is_none());

    let column = gpu.upload(&[u64_column((0..5_000).collect(), None)]);
    let (keys, _) = gpu.order_keys(&column.unwrap()).unwrap();
    let ids = on_gpu(&gpu, &[0; 5_000]);
    for build in [
        gpu.sort(5_000, Some(&keys), None, &[]).unwrap(),
        gpu.sort(5_000, None, Some((&ids, 1)), &[]).unwrap(),
    ] {
        let ranges = Matches {
            build: &build,
            ..sides.matches(&tests)
        };
        assert!(brute_force::cost(ranges, false).is_none());
    }
}

#[test]
fn tiles_in_several_launches_count_the_same_and_can_be_cancelled() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let ops = [Comparison::Gt, Comparison::LtEq, Comparison::Lt];
    // Three launches or more.
    let sides = unordered(&gpu, 1_000_000, 200_001);
    for count in [2, 3] {
        let tests = sides.tests(&ops[..count]);
        let matches = sides.matches(&tests);
        let by_tiles = brute_force::tiles_count(&gpu.stream, matches, &|| Ok(())).unwrap();
        let by_walk = zone_map::zones_count(&gpu.stream, matches, false, &|| Ok(())).unwrap();
        assert_eq!(down(&by_tiles), down(&by_walk.unwrap()));
    }

    // 10^13 pairs.
    let sides = unordered(&gpu, 10_000_000, 1_000_000);
    let tests = sides.tests(&ops[..2]);
    ends_when_cancelled(&host, &gpu, |gpu| {
        gpu.count_matches(sides.matches(&tests), false)
    });
}
