//! Every technique against a comparison of all pairs: lists, counts, existence, groups, both orientations.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray};
use arrow::datatypes::Int32Type;
use proptest::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::keys::NO_GROUP;
use crate::device::host::sets::index::*;
use crate::ir::set_predicate::{SetMeasure, SetPredicate};
use crate::ir::side::Side;

type Rows = Vec<Option<Vec<Option<i32>>>>;

fn column(rows: &Rows) -> Column {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(rows.clone());
    let budget = Budget::new(u64::MAX);
    Column::host(Arc::new(list), budget.lease(0, "test").unwrap())
}

fn ids(budget: &Arc<Budget>, groups: &[u32]) -> Buffer<u32> {
    Buffer::host(groups.to_vec(), budget.lease(0, "test").unwrap())
}

/// Any of the predicates.
fn predicates() -> Vec<SetPredicate> {
    let degrees = [
        (SetMeasure::Jaccard, 0.3),
        (SetMeasure::Jaccard, 0.5),
        (SetMeasure::Jaccard, 0.8),
        (SetMeasure::Dice, 0.6),
        (SetMeasure::Cosine, 0.7),
        (SetMeasure::Cosine, 1.0),
        (SetMeasure::Containment, 0.5),
        (SetMeasure::Containment, 1.0),
    ];
    let degrees = degrees.into_iter().flat_map(|(measure, threshold)| {
        [false, true].map(|above| SetPredicate::degree(measure, threshold, above).unwrap())
    });
    let others = [
        SetPredicate::Contains(Side::Left),
        SetPredicate::Contains(Side::Right),
        SetPredicate::Overlap(1),
        SetPredicate::Overlap(3),
    ];
    degrees.chain(others).collect()
}

fn sets_of(rows: &Rows) -> Vec<Option<BTreeSet<Option<i32>>>> {
    let set = |row: &Option<Vec<Option<i32>>>| Some(row.clone()?.into_iter().collect());
    rows.iter().map(set).collect()
}

/// All matching pairs of an indexed row and a probe row.
fn all_pairs(
    indexed: &Rows,
    probe: &Rows,
    groups: Option<(&[u32], &[u32])>,
    test: SetTest,
) -> Vec<(u32, u32)> {
    let (indexed, probe) = (sets_of(indexed), sets_of(probe));
    let mut pairs = vec![];
    for i in 0..indexed.len() {
        for s in 0..probe.len() {
            let together = groups.is_none_or(|(a, b)| a[i] == b[s] && a[i] != NO_GROUP);
            let (Some(a), Some(b)) = (&indexed[i], &probe[s]) else {
                continue;
            };
            let overlap = a.intersection(b).count() as u64;
            if together && test.holds(overlap, b.len() as u64, a.len() as u64) {
                pairs.push((i as u32, s as u32));
            }
        }
    }
    pairs
}

fn check(
    indexed: &Rows,
    probe: &Rows,
    groups: Option<(&[u32], &[u32], u32)>,
    test: SetTest,
    technique: Option<SetTechnique>,
) {
    let budget = Budget::new(u64::MAX);
    let check_cancelled = || Ok(());
    let (a, b) = (column(indexed), column(probe));
    let of_groups = groups.map(|(x, y, count)| (ids(&budget, x), ids(&budget, y), count));
    let index_groups = of_groups.as_ref().map(|(x, _, count)| (x, *count));
    let search_groups = of_groups.as_ref().map(|(_, y, _)| y);
    let index = index(
        &budget,
        &a,
        index_groups,
        &[],
        test,
        (technique, &b),
        &check_cancelled,
    )
    .unwrap();
    let expected = all_pairs(indexed, probe, groups.map(|(x, y, _)| (x, y)), test);

    let found = search(&budget, &index, &b, search_groups, &[], &check_cancelled).unwrap();
    let mut pairs = vec![];
    let (lo, hi) = (
        found.ranges.lo.on_host().unwrap(),
        found.ranges.hi.on_host().unwrap(),
    );
    for (at, row) in found.probe.rows.on_host().unwrap().iter().enumerate() {
        let list = &found.matches.rows.on_host().unwrap()[lo[at] as usize..hi[at] as usize];
        pairs.extend(list.iter().map(|matching| (*matching, *row)));
    }
    pairs.sort_unstable();
    assert_eq!(
        pairs,
        expected,
        "{technique:?} as {} {test:?}",
        index.technique()
    );

    for counting in [SetCounting::Exists, SetCounting::Probe, SetCounting::Both] {
        let counted = count(
            &budget,
            &index,
            &b,
            search_groups,
            counting,
            &check_cancelled,
        )
        .unwrap();
        let rows = counted.probe.rows.on_host().unwrap();
        for (row, count) in rows.iter().zip(counted.counts.on_host().unwrap()) {
            let all = expected.iter().filter(|(_, s)| s == row).count() as u32;
            let most = if counting == SetCounting::Exists {
                1
            } else {
                u32::MAX
            };
            assert_eq!(*count, all.min(most), "{technique:?} {test:?}");
        }
        assert_eq!(counted.indexed.is_some(), counting == SetCounting::Both);
        for counts in counted.indexed.iter() {
            for (row, count) in counts.on_host().unwrap().iter().enumerate() {
                let all = expected.iter().filter(|(i, _)| *i == row as u32).count();
                assert_eq!(*count as usize, all);
            }
        }
    }
    let stood = occurrences(&budget, &found.matches, &found.ranges, indexed.len()).unwrap();
    for (row, count) in stood.on_host().unwrap().iter().enumerate() {
        let all = expected.iter().filter(|(i, _)| *i == row as u32).count();
        assert_eq!(*count as usize, all);
    }
}

fn every_technique() -> impl Iterator<Item = Option<SetTechnique>> {
    SetTechnique::ALL.into_iter().map(Some).chain([None])
}

fn rows(most: usize) -> impl Strategy<Value = Rows> {
    // Small numbers are frequent; a few large ones prevent dense numbering.
    let element = prop_oneof![
        8 => (0..6).prop_map(Some),
        4 => (0..25).prop_map(Some),
        1 => (0..3).prop_map(|i| Some(i * 1_000_000_000 - 5)),
        1 => Just(None),
    ];
    let list = prop::collection::vec(element, 0..12);
    prop::collection::vec(prop::option::weighted(0.95, list), 0..most)
}

/// As many rows as before with the sets of the first few, in other orders and with repeated elements.
fn repeated(rows: &Rows, of: usize) -> Rows {
    let row = |i: usize| {
        let mut set = rows[i * 7 % of.min(rows.len())].clone()?;
        let turns = i % set.len().max(1);
        set.rotate_left(turns);
        let again = (i % 2).min(set.len());
        set.extend_from_within(..again);
        Some(set)
    };
    (0..rows.len()).map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn techniques_find_what_a_search_of_all_pairs_does(
        indexed in rows(90),
        probe in rows(150),
        predicate in prop::sample::select(predicates()),
        side in prop::sample::select(vec![Side::Left, Side::Right]),
        grouped in any::<bool>(),
        equal in (any::<bool>(), any::<bool>()),
        seed in any::<u32>(),
    ) {
        let (indexed, probe) = match equal {
            (false, false) => (indexed, probe),
            (true, false) => (repeated(&indexed, 9), probe),
            (false, true) => (indexed, repeated(&probe, 11)),
            // Some sets of one side are on the other.
            (true, true) => {
                let probe = [&indexed[..indexed.len() / 2], &probe].concat();
                (repeated(&indexed, 9), repeated(&probe, 11))
            }
        };
        let test = predicate.seen_from(side);
        let group = |i: usize| match (i as u32).wrapping_mul(seed | 1) >> 28 {
            15 => NO_GROUP,
            group => group % 3,
        };
        let of_indexed: Vec<u32> = (0..indexed.len()).map(group).collect();
        let of_probe: Vec<u32> = (7..probe.len() + 7).map(group).collect();
        let groups = grouped.then_some((of_indexed.as_slice(), of_probe.as_slice(), 3));
        for technique in every_technique() {
            check(&indexed, &probe, groups, test, technique);
        }
    }
}

fn some(elements: impl Iterator<Item = i32>) -> Option<Vec<Option<i32>>> {
    Some(elements.map(Some).collect())
}

/// One element in every set; equal sets; one set with all elements; sets of one element.
#[test]
fn skewed_sets() {
    let mut indexed: Rows = (0..150)
        .map(|i| some([0].into_iter().chain(i * 3..i * 3 + i % 7)))
        .collect();
    indexed.push(some(0..4_000));
    indexed.extend((0..20).map(|_| some(5..12)));
    let mut probe = indexed.clone();
    probe.extend((0..70).map(|i| some([i, -i].into_iter())));
    probe.push(some(2..3_000));
    for predicate in predicates() {
        for (technique, side) in
            every_technique().zip([Side::Left, Side::Right].into_iter().cycle())
        {
            check(&indexed, &probe, None, predicate.seen_from(side), technique);
        }
    }
}

#[test]
fn a_column_of_elements() {
    let budget = Budget::new(u64::MAX);
    let elements: ArrayRef = Arc::new(Int32Array::from(vec![Some(3), None, Some(4), Some(3)]));
    let elements = Column::host(elements, budget.lease(0, "test").unwrap());
    let lists = column(&vec![
        some(1..4),
        some(3..9),
        None,
        some(5..6),
        Some(vec![None]),
    ]);
    for technique in every_technique() {
        let test = SetPredicate::Contains(Side::Left).seen_from(Side::Left);
        let by = (technique, &elements);
        let index = index(&budget, &lists, None, &[], test, by, &|| Ok(())).unwrap();
        let found = search(&budget, &index, &elements, None, &[], &|| Ok(())).unwrap();
        assert_eq!(found.probe.rows.on_host().unwrap().as_ref(), [0, 2, 3]);
        assert_eq!(found.matches.rows.len(), 5);
    }
}

#[test]
fn what_is_refused_and_cancelled() {
    let rows: Rows = (0..2_000)
        .map(|i| some((0..i % 9).chain([100 + i])))
        .collect();
    let lists = column(&rows);
    let budget = Budget::new(1 << 21);
    let test = SetPredicate::Overlap(1).seen_from(Side::Left);
    for technique in every_technique() {
        let by = (technique, &lists);
        let index = index(&budget, &lists, None, &[], test, by, &|| Ok(())).unwrap();
        // Three million matches.
        let refused = search(&budget, &index, &lists, None, &[], &|| Ok(())).unwrap_err();
        assert!(refused.is_divisible(), "{refused}");
        let cancelled = || Err(BowtieError::Cancelled);
        let cancelled = search(&budget, &index, &lists, None, &[], &cancelled);
        assert!(matches!(cancelled, Err(BowtieError::Cancelled)));
        drop(index);
        assert_eq!(budget.in_use(), 0);
    }
}

/// Rows with a NULL key of another comparison.
#[test]
fn rows_that_are_left_out() {
    let budget = Budget::new(u64::MAX);
    let lists = column(&vec![some(1..4), some(1..4), None]);
    let keys: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(2)]));
    let keys = Column::host(keys, budget.lease(0, "test").unwrap());
    let (keys, _) = crate::device::host::keys::order_keys::order_keys(&budget, &keys).unwrap();
    let test = SetPredicate::Overlap(1).seen_from(Side::Left);
    let index = index(
        &budget,
        &lists,
        None,
        &[&keys],
        test,
        (None, &lists),
        &|| Ok(()),
    )
    .unwrap();
    let found = search(&budget, &index, &lists, None, &[], &|| Ok(())).unwrap();
    assert_eq!(found.probe.rows.on_host().unwrap().as_ref(), [0, 1]);
    assert_eq!(found.matches.rows.on_host().unwrap().as_ref(), [0, 0]);
    let found = search(&budget, &index, &lists, None, &[&keys], &|| Ok(())).unwrap();
    assert_eq!(found.probe.rows.on_host().unwrap().as_ref(), [0]);
    assert!(lists.on_host().unwrap().as_list::<i32>().is_null(2));
}

/// Sets that repeat are indexed and searched once, and rows with equal sets share a list.
#[test]
fn equal_sets_share_a_list() {
    let distinct: Rows = (0..19)
        .map(|i| some(i..i + 4))
        .chain([some(0..0)])
        .collect();
    let rows = repeated(
        &[distinct.clone(), vec![None; 500]].concat(),
        distinct.len(),
    );
    let groups: Vec<u32> = (0..rows.len() as u32).map(|i| i % 5).collect();
    let other: Rows = (0..90).map(|i| some(i..i + 3)).collect();
    let budget = Budget::new(u64::MAX);
    let a = column(&rows);
    for (n, predicate) in predicates().into_iter().enumerate() {
        let test = predicate.seen_from([Side::Left, Side::Right][n % 2]);
        let technique = every_technique().nth(n % 8).flatten();
        check(&rows, &rows, None, test, technique);
        check(&rows, &other, None, test, technique);
        check(&other, &rows, None, test, technique);
        let groups = (groups.as_slice(), groups.as_slice(), 5);
        check(&rows, &rows, Some(groups), test, technique);

        let index = index(&budget, &a, None, &[], test, (technique, &a), &|| Ok(())).unwrap();
        assert_eq!((index.sets.len(), index.sets.members.rows.len()), (20, 520));
        let found = search(&budget, &index, &a, None, &[], &|| Ok(())).unwrap();
        assert_eq!(found.tally.repeats, 500);
        assert!(found.tally.candidates <= 20 * 20);
        // Each row occurs once in the list of each set that it matches.
        assert!(found.matches.len() <= 20 * 520);
        assert_eq!(found.matches.segments.unwrap().len(), 21);
        assert_eq!(found.ranges.rows(), 520);
    }
}

/// In a self join every technique tests each pair once, with the same result.
#[test]
fn self_joins_test_each_pair_once() {
    let random = |i: i32, j: i32| (i * 7 + j * j * 3 + i * j) % 40;
    let rows: Rows = (0..120)
        .map(|i| (i % 29 > 0).then(|| (0..i % 12).map(|j| Some(random(i, j))).collect()))
        .collect();
    // One side has one more set.
    let mut others = rows.clone();
    others.push(some(0..1));
    let groups: Vec<u32> = (0..rows.len() as u32).map(|i| i % 3).collect();
    let budget = Budget::new(u64::MAX);
    let (column, other) = (column(&rows), column(&others));
    for predicate in predicates() {
        for (side, technique) in [Side::Left, Side::Right]
            .into_iter()
            .flat_map(|side| every_technique().map(move |technique| (side, technique)))
        {
            let test = predicate.seen_from(side);
            check(&rows, &rows, None, test, technique);
            let groups = (groups.as_slice(), groups.as_slice(), 3);
            check(&rows, &rows, Some(groups), test, technique);

            let by = (technique, &column);
            let index = index(&budget, &column, None, &[], test, by, &|| Ok(())).unwrap();
            let candidates = |probe| {
                let found = search(&budget, &index, probe, None, &[], &|| Ok(())).unwrap();
                let counting = SetCounting::Both;
                let counted = count(&budget, &index, probe, None, counting, &|| Ok(()));
                assert_eq!(counted.unwrap().tally, found.tally);
                found.tally.candidates
            };
            let (once, twice) = (candidates(&column), candidates(&other));
            let most = match predicate {
                // The length filter has removed most of the other half.
                SetPredicate::Contains(_) => twice,
                // Each set matches itself, too.
                _ => twice / 2 + rows.len() as u64,
            };
            assert!(once <= most, "{technique:?} {test:?}: {once} of {twice}");
        }
    }
}
