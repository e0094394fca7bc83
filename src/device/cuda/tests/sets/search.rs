//! Probes of set joins: the matches that the host finds, by every technique.

use crate::device::cuda::tests::sets::compare::{
    Sides, compare, every_technique, lists, numbers, predicates,
};
use crate::device::cuda::tests::*;
use crate::device::data::structures::SetIndex;
use crate::device::primitives::sets::SetPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::BowtieError;
use crate::ir::set_predicate::{SetMeasure, SetPredicate, SetTechnique};
use crate::ir::side::Side;

#[test]
fn every_technique_finds_the_hosts_pairs() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(61);
    for (n, m, most, universe) in [
        (0, 3, 5, 9),
        (1, 0, 4, 3),
        (1, 1, 3, 2),
        (33, 70, 12, 30),
        (300, 257, 9, 40),
    ] {
        let indexed = lists(&mut random, n, most, universe);
        let probe = lists(&mut random, m, most, universe + 4);
        for grouped in [false, true] {
            let groups = grouped.then(|| {
                let groups = 4;
                (
                    group_ids(&mut random, n, groups),
                    group_ids(&mut random, m, groups),
                    groups,
                )
            });
            let sides = Sides {
                indexed: Arc::clone(&indexed),
                probe: Arc::clone(&probe),
                groups,
                shingles: None,
            };
            for (i, predicate) in predicates().into_iter().enumerate() {
                let side = [Side::Left, Side::Right][(i + usize::from(grouped)) % 2];
                let test = predicate.seen_from(side);
                compare(&host, &gpu, &sides, test, &every_technique());
            }
        }
    }
}

/// Every overlap of sets of up to 30 elements, at thresholds that some reach exactly.
#[test]
fn thresholds_in_the_last_bit() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let sides = Sides {
        indexed: numbers((0..30).map(|a| (0..a).collect())),
        probe: numbers((0..30).flat_map(|shared| {
            (0..30).map(move |more| (0..shared).chain(100..100 + more).collect())
        })),
        groups: None,
        shingles: None,
    };
    let measures = [
        SetMeasure::Jaccard,
        SetMeasure::Dice,
        SetMeasure::Cosine,
        SetMeasure::Containment,
    ];
    for (i, (p, q)) in [(1, 3), (7, 10), (3, 5), (2, 7), (11, 13), (29, 30)]
        .into_iter()
        .enumerate()
    {
        for measure in measures {
            let exact = f64::from(p) / f64::from(q);
            for (threshold, above) in [
                (exact, false),
                (exact, true),
                (exact.next_up(), false),
                (exact.next_down(), true),
                (exact.sqrt(), false),
            ] {
                let test = SetPredicate::degree(measure, threshold, above)
                    .unwrap()
                    .seen_from(Side::Left);
                let techniques = SetTechnique::ALL.map(Some);
                compare(
                    &host,
                    &gpu,
                    &sides,
                    test,
                    &[techniques[i % 8], techniques[(i + 3) % 8]],
                );
            }
        }
    }
}

/// A universe of which most elements are light, and sets that share many of them: one in four is a changed copy of another.
#[test]
fn light_elements_are_merged() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(67);
    let draw = |random: &mut Random| {
        let number = random.below(6000);
        (number * random.below(6000) / 6000) as i32
    };
    for (n, most) in [(500, 30), (300, 200)] {
        let mut sets: Vec<Vec<i32>> = vec![];
        while sets.len() < n {
            let set = match random.below(4) {
                0 if !sets.is_empty() => {
                    let mut copy = sets[random.below(sets.len() as u64) as usize].clone();
                    let changes = random.below(1 + copy.len() as u64 / 3);
                    for _ in 0..changes {
                        let at = random.below(copy.len() as u64) as usize;
                        copy[at] = draw(&mut random);
                    }
                    copy
                }
                _ => (0..random.below(most)).map(|_| draw(&mut random)).collect(),
            };
            sets.push(set);
        }
        let probe: Vec<Vec<i32>> = sets.iter().skip(n / 3).cloned().collect();
        for same in [false, true] {
            let sides = Sides {
                indexed: numbers(sets.clone()),
                probe: numbers(if same { sets.clone() } else { probe.clone() }),
                groups: None,
                shingles: None,
            };
            for predicate in predicates() {
                let test = predicate.seen_from(Side::Left);
                compare(&host, &gpu, &sides, test, &[Some(SetTechnique::MmJoin)]);
            }
        }
    }
}

/// One element in all sets, one set with very many elements, many equal sets, many matches.
#[test]
fn skewed_sets() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let rows = |step: i32| {
        let some =
            (0..600).map(move |i| [0].into_iter().chain(i * step..i * step + i % 7).collect());
        let equal = (0..90).map(|_| (5..12).collect());
        let empty = (0..40).map(|_| vec![]);
        some.chain([
            (0..100_000).collect(),
            (0..70_000).map(|i| i * step).collect(),
        ])
        .chain(equal)
        .chain(empty)
    };
    let sides = Sides {
        indexed: numbers(rows(3)),
        probe: numbers(rows(2)),
        groups: None,
        shingles: None,
    };
    for predicate in predicates() {
        compare(
            &host,
            &gpu,
            &sides,
            predicate.seen_from(Side::Left),
            &every_technique(),
        );
    }
}

#[test]
fn many_sets() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(64);
    // Intersecting every pair is for few sets.
    let mut techniques = every_technique();
    techniques.retain(|by| *by != Some(SetTechnique::Intersect));
    let sides = Sides {
        indexed: lists(&mut random, 20_000, 14, 3_000),
        probe: lists(&mut random, 15_000, 14, 3_000),
        groups: None,
        shingles: None,
    };
    for predicate in [
        SetPredicate::degree(SetMeasure::Jaccard, 0.6, false).unwrap(),
        SetPredicate::degree(SetMeasure::Cosine, 0.5, true).unwrap(),
        SetPredicate::Contains(Side::Left),
        SetPredicate::Contains(Side::Right),
        SetPredicate::Overlap(4),
    ] {
        compare(
            &host,
            &gpu,
            &sides,
            predicate.seen_from(Side::Left),
            &techniques,
        );
    }
}

#[test]
fn rows_that_are_left_out() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(65);
    let array = lists(&mut random, 500, 8, 30);
    let nulls = random.nulls(500, 2);
    let (of_host, of_gpu) = keys_of(&host, &gpu, &u64_column(random.words(500, 0), nulls));
    let test = SetPredicate::Overlap(2).seen_from(Side::Left);
    let rows = |device: &dyn Device, keys: &Keys| {
        let lists = device.upload(from_ref(&array)).unwrap();
        let index: SetIndex = device
            .set_index(&lists, None, &[keys], test, None, &lists)
            .unwrap();
        let found = device.set_search(&index, &lists, None, &[keys]).unwrap();
        let probe = device.read(&found.probe.rows).unwrap();
        let matches = device.read(&found.matches.rows).unwrap();
        let [lo, hi] = [&found.ranges.lo, &found.ranges.hi].map(|ends| device.read(ends).unwrap());
        // Equal sets may share a list.
        let of_row = |(i, row): (usize, &u32)| {
            let list = &matches[lo[i] as usize..hi[i] as usize];
            list.iter().map(|of| (*row, *of)).collect::<Vec<_>>()
        };
        let mut pairs: Vec<(u32, u32)> = probe.iter().enumerate().flat_map(of_row).collect();
        pairs.sort_unstable();
        pairs
    };
    assert_eq!(rows(&host, &of_host), rows(&gpu, &of_gpu));
}

#[test]
fn what_does_not_fit_is_refused_and_what_is_cancelled_ends() {
    if reference_and_gpu().is_none() {
        return;
    }
    let gpu = CudaDevice::open(0, Some(4 << 20)).unwrap();
    let array = numbers((0..3_000).map(|i| (0..i % 9).collect()));
    let lists = gpu.upload(from_ref(&array)).unwrap();
    let test = SetPredicate::Overlap(1).seen_from(Side::Left);
    let in_use = gpu.budget().in_use();
    for by in every_technique() {
        let index = gpu.set_index(&lists, None, &[], test, by, &lists).unwrap();
        // Seven million matches.
        let refused = gpu.set_search(&index, &lists, None, &[]).unwrap_err();
        assert!(refused.is_divisible(), "{by:?}: {refused}");
        gpu.cancelled.store(true, Ordering::Relaxed);
        let cancelled = gpu.set_search(&index, &lists, None, &[]);
        assert!(matches!(cancelled, Err(BowtieError::Cancelled)), "{by:?}");
        gpu.cancelled.store(false, Ordering::Relaxed);
        drop(index);
        assert_eq!(gpu.budget().in_use(), in_use);
    }
}
