//! Set joins against the reference, by every technique, with groups and NULL keys: matches, counts, and occurrences.

use crate::device::cuda::tests::*;
use crate::device::data::results::SetCounting;
use crate::device::data::structures::SetIndex;
use crate::ir::set_predicate::{SetMeasure, SetPredicate, SetTechnique, SetTest};
use crate::ir::side::Side;

/// Lists of up to `longest` elements, few of which are frequent.
fn lists(random: &mut Random, rows: usize, longest: u64) -> ArrayRef {
    let list = |random: &mut Random| -> Option<Vec<Option<i64>>> {
        let length = random.below(longest + 1);
        let element = |random: &mut Random| {
            let below = 1 << random.below(9);
            (random.below(40) != 0).then(|| random.below(below) as i64)
        };
        (random.below(20) != 0).then(|| (0..length).map(|_| element(random)).collect())
    };
    let rows: Vec<_> = (0..rows).map(|_| list(random)).collect();
    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows))
}

/// A side of a join: lists, and columns for equalities and for other comparisons.
struct Input {
    lists: ArrayRef,
    equal: ArrayRef,
    compared: ArrayRef,
}

impl Input {
    fn new(random: &mut Random, rows: usize, longest: u64) -> Self {
        let of = |random: &mut Random, below: u64| -> ArrayRef {
            let value =
                |random: &mut Random| (random.below(9) != 0).then(|| random.below(below) as i64);
            Arc::new((0..rows).map(|_| value(random)).collect::<Int64Array>())
        };
        Self {
            lists: lists(random, rows, longest),
            equal: of(random, 3),
            compared: of(random, 100),
        }
    }
}

/// The result on a device: all matches, and the number of matches of each probe row and of each indexed row.
type Found = (Vec<(u32, u32)>, Vec<u32>, Vec<u32>);

fn find(
    device: &dyn Device,
    indexed: &Input,
    probe: &Input,
    test: SetTest,
    technique: Option<SetTechnique>,
    grouped: bool,
) -> Found {
    let up = |array: &ArrayRef| device.upload(from_ref(array)).unwrap();
    let (a, b) = (up(&indexed.lists), up(&probe.lists));
    let (of_base, domain) = device.group_keys(&[&up(&indexed.equal)], false).unwrap();
    let of_other = device.group_keys_in(&domain, &[&up(&probe.equal)]).unwrap();
    let index_groups = grouped.then_some((&of_base, domain.groups));
    let search_groups = grouped.then_some(&of_other);
    let (keys, order) = device.order_keys(&up(&indexed.compared)).unwrap();
    let other_keys = device.order_keys_in(&order, &up(&probe.compared)).unwrap();
    let index = |not_null: &[&Keys]| -> SetIndex {
        device
            .set_index(&a, index_groups, not_null, test, technique, &b)
            .unwrap()
    };
    let read = |words: &Buffer<u32>| device.read(words).unwrap();

    let found = device
        .set_search(&index(&[&keys]), &b, search_groups, &[&other_keys])
        .unwrap();
    let (matches, rows) = (read(&found.matches.rows), read(&found.probe.rows));
    let (lo, hi) = (read(&found.ranges.lo), read(&found.ranges.hi));
    let mut pairs = vec![];
    for (at, row) in rows.iter().enumerate() {
        let list = &matches[lo[at] as usize..hi[at] as usize];
        pairs.extend(list.iter().map(|matching| (*matching, *row)));
    }
    assert!(pairs.len() >= matches.len());
    assert!(found.matches.segments.is_some());
    let stood = device.occurrences(&found.matches, &found.ranges, a.rows());
    let stood = read(&stood.unwrap());
    for (row, count) in stood.iter().enumerate() {
        let all = pairs.iter().filter(|(i, _)| *i == row as u32).count();
        assert_eq!(*count as usize, all);
    }
    pairs.sort_unstable();

    let index = index(&[]);
    let by_row = |counting| {
        let counted = device
            .set_count(&index, &b, search_groups, counting)
            .unwrap();
        let counts = device.row_counts(&counted.probe, &counted.counts, b.rows());
        (read(&counts.unwrap()).to_vec(), counted.indexed)
    };
    let (counts, of_indexed) = by_row(SetCounting::Both);
    let (exist, _) = by_row(SetCounting::Exists);
    assert_eq!(by_row(SetCounting::Probe).0, counts);
    assert_eq!(exist, counts.iter().map(|c| *c.min(&1)).collect::<Vec<_>>());
    (pairs, counts, read(&of_indexed.unwrap()).to_vec())
}

#[test]
fn sets_as_the_host() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let random = &mut Random(41);
    let degree = |measure, threshold| SetPredicate::degree(measure, threshold, false).unwrap();
    let predicates = [
        SetPredicate::Contains(Side::Left),
        SetPredicate::Contains(Side::Right),
        SetPredicate::Overlap(1),
        SetPredicate::Overlap(3),
        degree(SetMeasure::Jaccard, 0.5),
        degree(SetMeasure::Jaccard, 0.9),
        degree(SetMeasure::Dice, 0.7),
        degree(SetMeasure::Cosine, 0.6),
        degree(SetMeasure::Containment, 0.8),
    ];
    for (rows, others, longest) in [
        (0, 5, 3),
        (5, 0, 3),
        (1, 1, 1),
        (300, 500, 8),
        (90, 70, 400),
    ] {
        let (indexed, probe) = (
            Input::new(random, rows, longest),
            Input::new(random, others, longest),
        );
        for (n, predicate) in predicates.into_iter().enumerate() {
            let side = [Side::Left, Side::Right][n % 2];
            let test = predicate.seen_from(side);
            for grouped in [false, true] {
                let expected = find(&host, &indexed, &probe, test, None, grouped);
                for technique in SetTechnique::ALL.into_iter().map(Some).chain([None]) {
                    let found = find(&gpu, &indexed, &probe, test, technique, grouped);
                    assert!(
                        found == expected,
                        "{technique:?} {test:?} {rows} × {others} {grouped}"
                    );
                }
            }
        }
    }
}
