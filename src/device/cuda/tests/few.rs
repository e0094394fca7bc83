//! Few rows through the kernels of equi-joins, groups, sorts, set joins, key bitmaps, text and row programs: few enough
//! for `compute-sanitizer`, under which a launch takes a hundred times as long (CONTRIBUTING.md).

use crate::device::cuda::tests::aggregate::{
    dependent_keys, group_program, runs, short_text, strategies,
};
use crate::device::cuda::tests::equi::{index, single_pass};
use crate::device::cuda::tests::expr::{codegen, filter, row_program, shingles, string_predicate};
use crate::device::cuda::tests::keys::{order_keys, sort_rows};
use crate::device::cuda::tests::semi::{distinct, key_bitmap, presorted};
use crate::device::cuda::tests::sets::{compare, encode, self_join};
use crate::device::cuda::tests::types;
use crate::device::cuda::tests::*;
use crate::ir::set_predicate::{SetMeasure, SetPredicate, SetTechnique};
use crate::ir::side::Side;
use crate::ir::strategies::{EquiStrategy, Materialization};

/// More rows than a block, a strip and a tile of each kernel, with a partial last one.
const ROWS: usize = 4_500;

#[test]
fn equi_joins() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
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
    index::compare(&host, &gpu, from_ref(&ints), from_ref(&shared));
    index::compare(&host, &gpu, from_ref(&shared), from_ref(&ints));
    index::compare(&host, &gpu, from_ref(&longs), from_ref(&longs));
    let (base, other) = ([texts.clone(), ints.clone()], [texts, shared]);
    index::compare(&host, &gpu, &base, &other);
    let sides = [
        &single_pass::payload(&ints, 1)[..4],
        &single_pass::payload(&ints, 9)[..3],
    ];
    let mut first = None;
    for by in EquiStrategy::ALL {
        for how in [Materialization::Gftr, Materialization::Gfur] {
            let rows = single_pass::joined(&gpu, sides, by, how).expect("unique keys");
            assert_eq!(
                first.get_or_insert_with(|| rows.clone()),
                &rows,
                "{by}, {how}"
            );
        }
    }
}

#[test]
fn sides_that_ascend() {
    presorted::check(&[(1, 1), (700, 1_900), (ROWS, ROWS)], 1);
    presorted::check(&[(1_300, 900)], 6);
}

#[test]
fn groups() {
    for (kind, groups, skew) in [
        (0, 16, 1),
        (0, 3_000, 2),
        (1, 300, 3),
        (3, 3_000, 0),
        (6, 9, 1),
        (7, 300, 1),
        (8, 300, 1),
    ] {
        strategies::check(ROWS, groups, skew, kind, kind % 7, kind % 7 + 1);
    }
    short_text::check(ROWS, 1);
    short_text::check(ROWS, 7);
    short_text::check(ROWS, 12);
    dependent_keys::check(ROWS, 300, 13);
}

#[test]
fn groups_in_order() {
    for kind in 0..runs::KINDS {
        runs::check(ROWS, 40, kind, kind % 2 * 700, kind % 6..kind % 6 + 1);
    }
}

#[test]
fn keys_alone() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(97);
    // More than a tile, and a tile of equal digits.
    for kind in [0, 1, 5] {
        order_keys::sorted_alone(&gpu, &mut random, 2 * ROWS, kind);
    }
}

#[test]
fn rows_in_order() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    sort_rows::every_type(&host, &gpu, 700, 2);
}

#[test]
fn sets() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(92);
    let lists = |random: &mut Random, n| compare::lists(random, n, 11, 60);
    let sides = compare::Sides {
        indexed: lists(&mut random, 300),
        probe: lists(&mut random, 270),
        groups: None,
        shingles: None,
    };
    for predicate in [
        SetPredicate::degree(SetMeasure::Jaccard, 0.5, false).unwrap(),
        SetPredicate::Contains(Side::Left),
        SetPredicate::Contains(Side::Right),
        SetPredicate::Overlap(2),
    ] {
        let every = compare::every_technique();
        compare::compare(&host, &gpu, &sides, predicate.seen_from(Side::Left), &every);
    }
    // Pairs that are cut along the intersect path.
    let huge = |step| (0..3).map(move |i| (i..70_000).step_by(step).collect());
    let sides = compare::Sides {
        indexed: compare::numbers(huge(1)),
        probe: compare::numbers(huge(2)),
        groups: None,
        shingles: None,
    };
    let test = SetPredicate::degree(SetMeasure::Jaccard, 0.4, false).unwrap();
    let by = [Some(SetTechnique::Intersect)];
    compare::compare(&host, &gpu, &sides, test.seen_from(Side::Left), &by);
}

#[test]
fn sets_with_themselves() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(93);
    let jaccard = SetPredicate::degree(SetMeasure::Jaccard, 0.5, false).unwrap();
    for (groups, predicate) in [(0, jaccard), (5, SetPredicate::Contains(Side::Left))] {
        let sides = self_join::with_itself(&mut random, 200, groups);
        let every = compare::every_technique();
        compare::compare(&host, &gpu, &sides, predicate.seen_from(Side::Left), &every);
    }
}

#[test]
fn long_lists_and_large_sets() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(98);
    for universe in [257, 9_000] {
        encode::long_lists(&host, &gpu, &mut random, 16, universe);
    }
    for universe in [4_000, 300_000] {
        encode::parts_of_large_sets(&host, &gpu, &mut random, 5, universe, 900);
    }
}

/// Lists whose elements are their own ids.
#[test]
fn sets_of_ids() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(100);
    let jaccard = SetPredicate::degree(SetMeasure::Jaccard, 0.5, false).unwrap();
    for elements in [encode::ELEMENTS[1], encode::ELEMENTS[4]] {
        for sides in encode::lists_that_are_sets(&mut random, [200, 150], elements) {
            let test = jaccard.seen_from(Side::Left);
            compare::compare(&host, &gpu, &sides, test, &[None]);
        }
    }
}

#[test]
fn bits_of_keys() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(94);
    key_bitmap::every_type(&host, &gpu, &mut random, 1_500, 2, 900);
    gpu.rows_before_compiling = 0;
    for turn in 0..2 {
        key_bitmap::kept_by_every_type(&host, &gpu, &mut random, ROWS, turn);
    }
    key_bitmap::outside(&host, &gpu, &mut random, ROWS);
}

#[test]
fn distinct_values_by_runs() {
    // Three tiles: a half of shared memory is reused.
    distinct::check(&[1, 130, 3 * 8192], &[0, 2], &[2, 700]);
}

#[test]
fn values_of_texts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    string_predicate::values_of(&host, &gpu, &mut Random(95), 600, 3);
}

#[test]
fn columns_of_texts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    string_predicate::columns_of(&host, &gpu, &mut Random(101), 600, [3, 5]);
}

#[test]
fn characters_of_texts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    string_predicate::characters_of(&host, &gpu, &mut Random(102), 600, 5);
}

#[test]
fn sets_of_shingles() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    shingles::few_sets(&host, &gpu, &mut Random(99));
}

/// Row programs by the interpreter and compiled, filters, and concatenation of columns.
#[test]
fn programs_over_rows() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(96);
    for after in [u64::MAX, 0] {
        gpu.rows_before_compiling = after;
        for turn in 0..40 {
            let arrays = row_program::each_kind(&mut random, ROWS);
            let program = row_program::program(&mut random, turn % 5 == 0);
            row_program::same_outputs(&host, &gpu, &arrays, &program);
            filter::same_filter(&host, &gpu, &mut random, ROWS, turn);
        }
    }
    row_program::pieces_of(&gpu, &mut random, ROWS, 2);
}

#[test]
fn codes_and_groups_in_one_pass() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    codegen::codes(&host, &mut gpu, &[ROWS]);
    group_program::few(&host, &mut gpu, &[3, ROWS]);
}

#[test]
fn what_each_primitive_does_with_each_type() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    types::same_table(&host, &gpu);
}
