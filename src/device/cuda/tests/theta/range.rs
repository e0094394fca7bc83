//! Range searches: bounds, match counts, coverage and expanded matches, with and without tests of further columns.

use crate::device::cuda::tests::theta::range_fold::same_folds;
use crate::device::cuda::tests::*;
use crate::device::primitives::keys::KeyPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;

/// Two sides on both devices, sorted by their keys.
pub(crate) struct Sides {
    pub(crate) build: OrderedRows,
    pub(crate) sorted_there: OrderedRows,
    pub(crate) probe: OrderedRows,
    pub(crate) probe_there: OrderedRows,
    /// Keys of the probe side, by row.
    pub(crate) keys: Keys,
    pub(crate) keys_there: Keys,
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
    let (base, base_there) = keys_of(host, gpu, &base);
    let (keys, keys_there) = keys_of(host, gpu, &other);
    let ids = groups.map(|g| (group_ids(random, n, g), group_ids(random, m, g)));
    let up = |ids: &[u32]| (on_host(host, ids), on_gpu(gpu, ids));
    let ids = ids.map(|(base, other)| (up(&base), up(&other)));
    let base_ids = ids.as_ref().map(|(base, _)| base);
    let other_ids = ids.as_ref().map(|(_, other)| other);
    Sides {
        build: host
            .sort(n, Some(&base), base_ids.map(|ids| &ids.0).zip(groups), &[])
            .unwrap(),
        sorted_there: gpu
            .sort(
                n,
                Some(&base_there),
                base_ids.map(|ids| &ids.1).zip(groups),
                &[],
            )
            .unwrap(),
        probe: host
            .sort(m, Some(&keys), other_ids.map(|ids| &ids.0).zip(groups), &[])
            .unwrap(),
        probe_there: gpu
            .sort(
                m,
                Some(&keys_there),
                other_ids.map(|ids| &ids.1).zip(groups),
                &[],
            )
            .unwrap(),
        keys,
        keys_there,
        groups: ids.map(|(_, other)| other),
        rows: n,
        probe_rows: m,
    }
}

#[test]
fn ranges_counts_and_coverage_are_the_twins() {
    let Some((host, gpu)) = twins() else { return };
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
                    let here = host
                        .range_bounds(
                            &sides.build,
                            &sides.probe,
                            &bounds(&sides.keys),
                            sides.groups.as_ref().map(|ids| &ids.0),
                        )
                        .unwrap();
                    let there = gpu
                        .range_bounds(
                            &sides.sorted_there,
                            &sides.probe_there,
                            &bounds(&sides.keys_there),
                            sides.groups.as_ref().map(|ids| &ids.1),
                        )
                        .unwrap();
                    assert_eq!(
                        here.lo.on_host().unwrap(),
                        &down(&gpu, &there.lo),
                        "{what}: lo"
                    );
                    assert_eq!(
                        here.hi.on_host().unwrap(),
                        &down(&gpu, &there.hi),
                        "{what}: hi"
                    );
                    let cover = host.cover(&sides.build, &here, sides.rows).unwrap();
                    let cover_there = gpu.cover(&sides.sorted_there, &there, sides.rows).unwrap();
                    assert_eq!(
                        cover.on_host().unwrap(),
                        &down(&gpu, &cover_there),
                        "{what}: cover"
                    );
                    for exists_only in [true, false] {
                        let matches = Matches {
                            build: &sides.build,
                            probe: &sides.probe,
                            ranges: &here,
                            tests: &[],
                            program: None,
                        };
                        let matches_there = Matches {
                            build: &sides.sorted_there,
                            probe: &sides.probe_there,
                            ranges: &there,
                            tests: &[],
                            program: None,
                        };
                        let counts = host.count_matches(matches, exists_only).unwrap();
                        let counts_there = gpu.count_matches(matches_there, exists_only).unwrap();
                        assert_eq!(
                            counts.on_host().unwrap(),
                            &down(&gpu, &counts_there),
                            "{what}: counts"
                        );
                        let by_row = host
                            .row_counts(&sides.probe, &counts, sides.probe_rows)
                            .unwrap();
                        let by_row_there = gpu
                            .row_counts(&sides.probe_there, &counts_there, sides.probe_rows)
                            .unwrap();
                        assert_eq!(
                            by_row.on_host().unwrap(),
                            &down(&gpu, &by_row_there),
                            "{what}: by row"
                        );
                        if !exists_only {
                            same_pairs(&host, &gpu, matches, matches_there, &mut random, &what);
                        }
                        if !exists_only && kind % 5 == 0 && ops[0] != Comparison::GtEq {
                            same_folds(
                                &host,
                                &gpu,
                                &sides,
                                matches,
                                matches_there,
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
    here: Matches<'_>,
    there: Matches<'_>,
    random: &mut Random,
    what: &str,
) {
    let counts = host.count_matches(here, false).unwrap();
    let counts_there = gpu.count_matches(there, false).unwrap();
    assert_eq!(
        counts.on_host().unwrap(),
        &down(gpu, &counts_there),
        "{what}: counts"
    );
    let offsets = host.scan(&counts).unwrap();
    let offsets_there = gpu.scan(&counts_there).unwrap();
    assert_eq!(
        offsets.on_host().unwrap(),
        &down(gpu, &offsets_there),
        "{what}: offsets"
    );
    let total = host.total(&offsets).unwrap();
    assert_eq!(total, gpu.total(&offsets_there).unwrap(), "{what}: total");
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
                gpu.piece_end(&offsets_there, from, target, most).unwrap(),
                "{what}: end of the piece from {from}, {target}, {most}"
            );
        }
        let pairs = host.expand(here, &offsets, from, len as usize).unwrap();
        let pairs_there = gpu
            .expand(there, &offsets_there, from, len as usize)
            .unwrap();
        assert_eq!(
            pairs.probe.on_host().unwrap(),
            &down(gpu, &pairs_there.probe),
            "{what}: searching rows of {from}, {len}"
        );
        assert_eq!(
            pairs.build.on_host().unwrap(),
            &down(gpu, &pairs_there.build),
            "{what}: sorted rows of {from}, {len}"
        );
    }
}

#[test]
fn tested_matches_are_the_twins() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(6);
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
                let ranges_there = gpu
                    .range_bounds(
                        &sides.sorted_there,
                        &sides.probe_there,
                        &bounds(&sides.keys_there),
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
                        let (left, left_there) = keys_of(&host, &gpu, &left);
                        let (right, right_there) = keys_of(&host, &gpu, &right);
                        (
                            *op,
                            host.zone_keys(&left, &sides.build).unwrap(),
                            host.zone_keys(&right, &sides.probe).unwrap(),
                            gpu.zone_keys(&left_there, &sides.sorted_there).unwrap(),
                            gpu.zone_keys(&right_there, &sides.probe_there).unwrap(),
                        )
                    })
                    .collect();
                let here: Vec<Test<'_>> = tested
                    .iter()
                    .map(|(op, build, probe, _, _)| Test {
                        op: *op,
                        build,
                        probe,
                    })
                    .collect();
                let there: Vec<Test<'_>> = tested
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
                    tests: &here,
                    program: None,
                };
                let matches_there = Matches {
                    build: &sides.sorted_there,
                    probe: &sides.probe_there,
                    ranges: &ranges_there,
                    tests: &there,
                    program: None,
                };
                let exists = host.count_matches(matches, true).unwrap();
                let exists_there = gpu.count_matches(matches_there, true).unwrap();
                assert_eq!(
                    exists.on_host().unwrap(),
                    &down(&gpu, &exists_there),
                    "{what}: exists"
                );
                same_pairs(&host, &gpu, matches, matches_there, &mut random, &what);
            }
        }
    }
}
