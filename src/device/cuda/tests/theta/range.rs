//! Range searches: bounds, match counts, coverage and expanded matches, with and without tests of further columns.

use crate::device::cuda::tests::theta::range_fold::same_folds;
use crate::device::cuda::tests::theta::tested_fold::same_folds_of_some;
use crate::device::cuda::tests::*;
use crate::device::primitives::keys::KeyPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;

/// Two sides on both devices, sorted by their keys.
pub(crate) struct Sides {
    pub(crate) build: OrderedRows,
    pub(crate) build_on_gpu: OrderedRows,
    pub(crate) probe: OrderedRows,
    pub(crate) probe_on_gpu: OrderedRows,
    /// Keys of the probe side, by row.
    pub(crate) keys: Keys,
    pub(crate) keys_on_gpu: Keys,
    pub(crate) groups: Option<(Buffer<u32>, Buffer<u32>)>,
    pub(crate) rows: usize,
    pub(crate) probe_rows: usize,
}

pub(crate) fn sides(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    (n, m): (usize, usize),
    kind: usize,
    groups: Option<u32>,
) -> Sides {
    let base = u64_column(random.words(n, kind), random.nulls(n, kind % 2 * 2));
    let other = u64_column(random.words(m, kind), random.nulls(m, (kind + 1) % 2 * 2));
    sides_of(host, gpu, random, [&base, &other], groups)
}

/// The same, sorted by these columns.
pub(crate) fn sides_of(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    [base, other]: [&ArrayRef; 2],
    groups: Option<u32>,
) -> Sides {
    let (n, m) = (base.len(), other.len());
    let (base, base_on_gpu) = keys_of(host, gpu, base);
    let (keys, keys_on_gpu) = keys_of(host, gpu, other);
    let ids = groups.map(|g| (group_ids(random, n, g), group_ids(random, m, g)));
    let up = |ids: &[u32]| (on_host(host, ids), on_gpu(gpu, ids));
    let ids = ids.map(|(base, other)| (up(&base), up(&other)));
    let base_ids = ids.as_ref().map(|(base, _)| base);
    let other_ids = ids.as_ref().map(|(_, other)| other);
    Sides {
        build: host
            .sort(n, Some(&base), base_ids.map(|ids| &ids.0).zip(groups), &[])
            .unwrap(),
        build_on_gpu: gpu
            .sort(
                n,
                Some(&base_on_gpu),
                base_ids.map(|ids| &ids.1).zip(groups),
                &[],
            )
            .unwrap(),
        probe: host
            .sort(m, Some(&keys), other_ids.map(|ids| &ids.0).zip(groups), &[])
            .unwrap(),
        probe_on_gpu: gpu
            .sort(
                m,
                Some(&keys_on_gpu),
                other_ids.map(|ids| &ids.1).zip(groups),
                &[],
            )
            .unwrap(),
        keys,
        keys_on_gpu,
        groups: ids.map(|(_, other)| other),
        rows: n,
        probe_rows: m,
    }
}

#[test]
fn ranges_counts_and_coverage_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(5);
    for sizes in [
        (0, 5),
        (5, 0),
        (1, 1),
        (33, 31),
        (1000, 257),
        (255, 5000),
        (40_001, 33_537),
        (300_000, 10),
    ] {
        for kind in 0..6 {
            for groups in [None, Some(40)] {
                let sides = sides(&host, &gpu, &mut random, sizes, kind, groups);
                for ops in [
                    &OPS[..1],
                    &OPS[1..2],
                    &OPS[2..3],
                    &OPS[3..4],
                    &OPS[4..5],
                    &[Comparison::GtEq, Comparison::Lt],
                ] {
                    let what = format!("{sizes:?}, kind {kind}, {groups:?} groups, {ops:?}");
                    let bounds = |probe| {
                        ops.iter()
                            .map(|op| Bound { op: *op, probe })
                            .collect::<Vec<_>>()
                    };
                    let of_host = host
                        .range_bounds(
                            &sides.build,
                            &sides.probe,
                            &bounds(&sides.keys),
                            sides.groups.as_ref().map(|ids| &ids.0),
                        )
                        .unwrap();
                    let of_gpu = gpu
                        .range_bounds(
                            &sides.build_on_gpu,
                            &sides.probe_on_gpu,
                            &bounds(&sides.keys_on_gpu),
                            sides.groups.as_ref().map(|ids| &ids.1),
                        )
                        .unwrap();
                    assert_eq!(
                        of_host.lo.on_host().unwrap(),
                        &down(&of_gpu.lo),
                        "{what}: lo"
                    );
                    assert_eq!(
                        of_host.hi.on_host().unwrap(),
                        &down(&of_gpu.hi),
                        "{what}: hi"
                    );
                    let cover = host.cover(&sides.build, &of_host, sides.rows).unwrap();
                    let cover_on_gpu = gpu.cover(&sides.build_on_gpu, &of_gpu, sides.rows).unwrap();
                    assert_eq!(
                        cover.on_host().unwrap(),
                        &down(&cover_on_gpu),
                        "{what}: cover"
                    );
                    for exists_only in [true, false] {
                        let matches = Matches {
                            build: &sides.build,
                            probe: &sides.probe,
                            ranges: &of_host,
                            tests: &[],
                            program: None,
                        };
                        let matches_on_gpu = Matches {
                            build: &sides.build_on_gpu,
                            probe: &sides.probe_on_gpu,
                            ranges: &of_gpu,
                            tests: &[],
                            program: None,
                        };
                        let counts = host.count_matches(matches, exists_only).unwrap().counts;
                        let counts_on_gpu = gpu
                            .count_matches(matches_on_gpu, exists_only)
                            .unwrap()
                            .counts;
                        assert_eq!(
                            counts.on_host().unwrap(),
                            &down(&counts_on_gpu),
                            "{what}: counts"
                        );
                        let by_row = host
                            .row_counts(&sides.probe, &counts, sides.probe_rows)
                            .unwrap();
                        let by_row_on_gpu = gpu
                            .row_counts(&sides.probe_on_gpu, &counts_on_gpu, sides.probe_rows)
                            .unwrap();
                        assert_eq!(
                            by_row.on_host().unwrap(),
                            &down(&by_row_on_gpu),
                            "{what}: by row"
                        );
                        if !exists_only {
                            same_pairs(&host, &gpu, matches, matches_on_gpu, &mut random, &what);
                        }
                        if !exists_only && kind % 5 == 0 && ops[0] != Comparison::GtEq {
                            same_folds(
                                &host,
                                &gpu,
                                &sides,
                                matches,
                                matches_on_gpu,
                                &mut random,
                                &what,
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Checks offsets, output pieces and matches.
pub(crate) fn same_pairs(
    host: &HostDevice,
    gpu: &CudaDevice,
    of_host: Matches<'_>,
    of_gpu: Matches<'_>,
    random: &mut Random,
    what: &str,
) {
    let counts = host.count_matches(of_host, false).unwrap().counts;
    let counts_on_gpu = gpu.count_matches(of_gpu, false).unwrap().counts;
    assert_eq!(
        counts.on_host().unwrap(),
        &down(&counts_on_gpu),
        "{what}: counts"
    );
    let offsets = host.scan(&counts).unwrap();
    let offsets_on_gpu = gpu.scan(&counts_on_gpu).unwrap();
    assert_eq!(
        offsets.on_host().unwrap(),
        &down(&offsets_on_gpu),
        "{what}: offsets"
    );
    let total = host.total(&offsets).unwrap();
    assert_eq!(total, gpu.total(&offsets_on_gpu).unwrap(), "{what}: total");
    let mut windows = vec![(0, total.min(100_000))];
    for _ in 0..3 {
        let from = random.below(total.max(1));
        windows.push((
            from,
            (total - from.min(total)).min(random.below(50_000) + 1),
        ));
    }
    for (from, len) in windows.into_iter().filter(|(_, len)| *len > 0) {
        for (target, most) in [(1, 1), (100, 1000), (8192, 8192)] {
            assert_eq!(
                host.piece_end(&offsets, from, target, most).unwrap(),
                gpu.piece_end(&offsets_on_gpu, from, target, most).unwrap(),
                "{what}: end of the piece from {from}, {target}, {most}"
            );
        }
        let pairs = host.expand(of_host, &offsets, from, len as usize).unwrap();
        let pairs_on_gpu = gpu
            .expand(of_gpu, &offsets_on_gpu, from, len as usize)
            .unwrap();
        assert_eq!(
            pairs.probe.on_host().unwrap(),
            &down(&pairs_on_gpu.probe),
            "{what}: probe rows of {from}, {len}"
        );
        assert_eq!(
            pairs.build.on_host().unwrap(),
            &down(&pairs_on_gpu.build),
            "{what}: build rows of {from}, {len}"
        );
    }
}

#[test]
fn tested_matches_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(6);
    let mut turn = 0;
    for sizes in [
        (1, 1),
        (63, 33),
        (65, 64),
        (1000, 257),
        (4097, 3000),
        (70_001, 5_000),
        (1_000_000, 60),
    ] {
        for kind in [0, 1, 4, 5] {
            for (bound, tests) in [
                (None, vec![Comparison::Lt, Comparison::NotEq]),
                (Some(Comparison::Gt), vec![Comparison::Lt]),
                (
                    Some(Comparison::LtEq),
                    vec![Comparison::GtEq, Comparison::NotEq, Comparison::Lt],
                ),
                (Some(Comparison::GtEq), vec![Comparison::Eq]),
                (Some(Comparison::Lt), OPS.to_vec()),
                // More than a kernel takes.
                (Some(Comparison::Gt), [OPS.as_slice(), &OPS[..3]].concat()),
            ] {
                let groups = (kind == 5).then_some(13);
                let sides = sides(&host, &gpu, &mut random, sizes, kind, groups);
                let what = format!(
                    "{sizes:?}, kind {kind}, {bound:?}, {tests:?}",
                    sizes = (sides.rows, sides.probe_rows)
                );
                let bounds = |probe| {
                    bound
                        .map(|op| Bound { op, probe })
                        .into_iter()
                        .collect::<Vec<_>>()
                };
                let ranges = host
                    .range_bounds(
                        &sides.build,
                        &sides.probe,
                        &bounds(&sides.keys),
                        sides.groups.as_ref().map(|g| &g.0),
                    )
                    .unwrap();
                let ranges_on_gpu = gpu
                    .range_bounds(
                        &sides.build_on_gpu,
                        &sides.probe_on_gpu,
                        &bounds(&sides.keys_on_gpu),
                        sides.groups.as_ref().map(|g| &g.1),
                    )
                    .unwrap();
                // Further columns that are tested, ordered and unordered.
                let tested: Vec<_> = tests
                    .iter()
                    .enumerate()
                    .map(|(i, op)| {
                        let left = u64_column(random.words(sides.rows, i + kind), None);
                        let right = u64_column(random.words(sides.probe_rows, i + kind), None);
                        let (left, left_on_gpu) = keys_of(&host, &gpu, &left);
                        let (right, right_on_gpu) = keys_of(&host, &gpu, &right);
                        (
                            *op,
                            host.zone_keys(&left, &sides.build).unwrap(),
                            host.zone_keys(&right, &sides.probe).unwrap(),
                            gpu.zone_keys(&left_on_gpu, &sides.build_on_gpu).unwrap(),
                            gpu.zone_keys(&right_on_gpu, &sides.probe_on_gpu).unwrap(),
                        )
                    })
                    .collect();
                let of_host: Vec<Test<'_>> = tested
                    .iter()
                    .map(|(op, build, probe, _, _)| Test {
                        op: *op,
                        build,
                        probe,
                    })
                    .collect();
                let of_gpu: Vec<Test<'_>> = tested
                    .iter()
                    .map(|(op, _, _, build, probe)| Test {
                        op: *op,
                        build,
                        probe,
                    })
                    .collect();
                let matches = Matches {
                    build: &sides.build,
                    probe: &sides.probe,
                    ranges: &ranges,
                    tests: &of_host,
                    program: None,
                };
                let matches_on_gpu = Matches {
                    build: &sides.build_on_gpu,
                    probe: &sides.probe_on_gpu,
                    ranges: &ranges_on_gpu,
                    tests: &of_gpu,
                    program: None,
                };
                let exists = host.count_matches(matches, true).unwrap().counts;
                let exists_on_gpu = gpu.count_matches(matches_on_gpu, true).unwrap().counts;
                assert_eq!(
                    exists.on_host().unwrap(),
                    &down(&exists_on_gpu),
                    "{what}: exists"
                );
                same_pairs(&host, &gpu, matches, matches_on_gpu, &mut random, &what);
                turn += 1;
                same_folds_of_some(
                    (&host, &gpu),
                    (matches, matches_on_gpu),
                    &mut random,
                    (sides.rows, sides.probe_rows),
                    turn,
                    &what,
                );
            }
        }
    }
}
