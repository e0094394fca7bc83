//! Few rows through the kernels of equi-joins, groups and set joins: what `compute-sanitizer` can come to the end
//! of, under which a launch takes a hundred times as long (CONTRIBUTING.md).

use super::*;
use crate::spec::{EquiStrategy, Materialization, SetMeasure, SetPredicate, SetTechnique, Side};

/// Over a block, a strip and a tile of each kernel, with a part of the last one.
const ROWS: usize = 4_500;

#[test]
fn equi_joins() {
    let Some((host, gpu)) = twins() else { return };
    let key = |i: usize, salt: usize| (i * 2_654_435_761 + salt) % ROWS;
    let ints: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..ROWS).map(|i| key(i, 0) as i32),
    ));
    let shared: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..ROWS).map(|i| if i % 3 > 0 { 7 } else { key(i, 5) as i32 }),
    ));
    let mut random = Random(91);
    let longs = u64_column(
        (0..ROWS).map(|i| (key(i, 1) as u64) << 40).collect(),
        random.nulls(ROWS, 2),
    );
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..ROWS).map(|i| format!("text {:x}", key(i, 2))),
    ));
    equi::compare(&host, &gpu, from_ref(&ints), from_ref(&shared));
    equi::compare(&host, &gpu, from_ref(&shared), from_ref(&ints));
    equi::compare(&host, &gpu, from_ref(&longs), from_ref(&longs));
    let (base, other) = ([texts.clone(), ints.clone()], [texts, shared]);
    equi::compare(&host, &gpu, &base, &other);
    let sides = [&equi::payload(&ints, 1)[..4], &equi::payload(&ints, 9)[..3]];
    let mut first = None;
    for by in EquiStrategy::ALL {
        for how in [Materialization::Gftr, Materialization::Gfur] {
            let rows = equi::joined(&gpu, sides, by, how).expect("unique keys");
            assert_eq!(
                first.get_or_insert_with(|| rows.clone()),
                &rows,
                "{by}, {how}"
            );
        }
    }
}

#[test]
fn groups() {
    for (kind, groups, skew) in [
        (0, 16, 1),
        (0, 3_000, 2),
        (1, 300, 3),
        (3, 3_000, 0),
        (6, 9, 1),
    ] {
        strategies::check(ROWS, groups, skew, kind, kind, kind + 1);
    }
}

#[test]
fn sets() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(92);
    let lists = |random: &mut Random, n| set_pairs::lists(random, n, 11, 60);
    let sides = set_pairs::Sides {
        indexed: lists(&mut random, 300),
        searching: lists(&mut random, 270),
        groups: None,
    };
    for predicate in [
        SetPredicate::degree(SetMeasure::Jaccard, 0.5, false).unwrap(),
        SetPredicate::Contains(Side::Left),
        SetPredicate::Contains(Side::Right),
        SetPredicate::Overlap(2),
    ] {
        let every = set_pairs::every_technique();
        set_pairs::compare(&host, &gpu, &sides, predicate.seen_from(Side::Left), &every);
    }
    // Pairs that are cut along the intersect path.
    let huge = |step| (0..3).map(move |i| (i..70_000).step_by(step).collect());
    let sides = set_pairs::Sides {
        indexed: set_pairs::numbers(huge(1)),
        searching: set_pairs::numbers(huge(2)),
        groups: None,
    };
    let test = SetPredicate::degree(SetMeasure::Jaccard, 0.4, false).unwrap();
    let by = [Some(SetTechnique::Intersect)];
    set_pairs::compare(&host, &gpu, &sides, test.seen_from(Side::Left), &by);
}
