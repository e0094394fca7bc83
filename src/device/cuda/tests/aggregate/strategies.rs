//! Every strategy of grouped aggregation against the reference: few and many groups, skew, NULLs and keys of different
//! widths.

use std::time::{Duration, Instant};

use crate::device::cuda::tests::aggregate::fold::{ALL, same_aggregates, same_by};
use crate::device::cuda::tests::*;
use crate::device::primitives::aggregate::AggregatePrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::fold::Fold;
use crate::ir::strategies::{GroupStrategy, Grouping, Materialization};

/// Key numbers of `n` rows, below `groups`.
fn numbers(random: &mut Random, n: usize, groups: u64, skew: usize) -> Vec<u64> {
    (0..n)
        .map(|i| match skew {
            // All different while the groups last, and in order.
            0 => i as u64 % groups,
            1 => random.below(groups),
            // Half of the rows have the same key.
            2 if random.below(2) == 0 => groups / 2,
            2 => random.below(groups),
            // As Zipf's distribution with exponent 1: twice the number, half the frequency.
            _ => {
                let share = random.below(1 << 53) as f64 / (1u64 << 53) as f64;
                ((groups as f64).powf(share) as u64 - 1).min(groups - 1)
            }
        })
        .collect()
}

/// Keys of those numbers: values of 32 and 64 bits in narrow and wide ranges, with NULLs, of several columns, and of
/// several words.
fn keys(random: &mut Random, numbers: &[u64], kind: usize) -> Vec<ArrayRef> {
    let n = numbers.len();
    let odd = 0x9E37_79B9_7F4A_7C15u64;
    match kind {
        0 => vec![Arc::new(Int32Array::from_iter_values(
            numbers.iter().map(|k| *k as i32 - 7),
        ))],
        1 => vec![Arc::new(Int32Array::from_iter_values(
            numbers
                .iter()
                .map(|k| (*k as u32).wrapping_mul(odd as u32) as i32),
        ))],
        2 => vec![u64_column(
            numbers.iter().map(|k| k.wrapping_mul(odd)).collect(),
            None,
        )],
        3 => vec![u64_column(
            numbers.iter().map(|k| k.wrapping_mul(odd)).collect(),
            random.nulls(n, 2),
        )],
        4 => vec![
            Arc::new(Int16Array::new(
                numbers.iter().map(|k| (*k % 64) as i16 - 32).collect(),
                random.nulls(n, 2),
            )),
            u64_column(numbers.iter().map(|k| k / 64 + (1 << 40)).collect(), None),
            Arc::new(BooleanArray::from_iter(
                numbers.iter().map(|k| Some(k & 1 == 0)),
            )),
        ],
        5 => vec![Arc::new(Float64Array::from_iter_values(
            numbers.iter().map(|k| *k as f64 * -0.25),
        ))],
        6 => vec![
            Arc::new(Decimal128Array::from_iter_values(
                numbers.iter().map(|k| i128::from(*k) << 70),
            )),
            Arc::new(Int64Array::new(
                numbers.iter().map(|k| (*k % 3) as i64).collect(),
                random.nulls(n, 2),
            )),
        ],
        // Packed into a word of 64 bits.
        7 => vec![
            Arc::new(Int32Array::new(
                numbers
                    .iter()
                    .map(|k| (*k as u32).wrapping_mul(odd as u32) as i32)
                    .collect(),
                random.nulls(n, 2),
            )),
            Arc::new(BooleanArray::new(
                BooleanBuffer::collect_bool(n, |i| numbers[i] & 1 == 0),
                random.nulls(n, 2),
            )),
            Arc::new(Int8Array::from_iter_values(
                numbers.iter().map(|k| (*k % 5) as i8 - 2),
            )),
        ],
        // Packed into a word of 32 bits.
        8 => vec![
            Arc::new(UInt16Array::from_iter_values(
                numbers.iter().map(|k| (*k as u16).wrapping_mul(odd as u16)),
            )),
            Arc::new(Int16Array::new(
                numbers
                    .iter()
                    .map(|k| (*k / 7 % 3) as i16 * 9_000)
                    .collect(),
                random.nulls(n, 2),
            )),
        ],
        _ => vec![Arc::new(Int64Array::new_null(n))],
    }
}

const KEY_KINDS: usize = 10;

/// Values for each kind of fold. Floats are small integers, which have the same sum in any order.
pub(crate) fn values(random: &mut Random, n: usize) -> Vec<(ArrayRef, Vec<Fold>)> {
    use crate::ir::fold::Fold::*;
    let words = random.words(n, 0);
    let some = random.nulls(n, 2);
    let integers: ArrayRef = Arc::new(Int64Array::new(
        words.iter().map(|w| *w as i64).collect(),
        some.clone(),
    ));
    let narrow: ArrayRef = Arc::new(Int16Array::from_iter_values(
        words.iter().map(|w| (*w >> 40) as i16),
    ));
    let ints: ArrayRef = Arc::new(UInt32Array::from_iter_values(
        words.iter().map(|w| (*w >> 17) as u32),
    ));
    let decimals: ArrayRef = Arc::new(Decimal128Array::new(
        words
            .iter()
            .map(|w| i128::from(*w as i64) << 40)
            .collect::<Vec<_>>()
            .into(),
        some.clone(),
    ));
    let widest: ArrayRef = Arc::new(Decimal256Array::from_iter_values(words.iter().map(|w| {
        arrow::datatypes::i256::from_parts(u128::from(*w) << 64, i128::from(*w as i64) << 3)
    })));
    let floats: ArrayRef = Arc::new(Float64Array::new(
        words.iter().map(|w| (*w % 1000) as f64 - 300.0).collect(),
        some.clone(),
    ));
    let flags: ArrayRef = Arc::new(BooleanArray::new(
        BooleanBuffer::collect_bool(n, |i| words[i] & 4 != 0),
        some,
    ));
    vec![
        (integers, vec![Count, Sum, Min, Max, And, Or, Xor]),
        (narrow, vec![Min, Max, Xor]),
        (ints, vec![Min, Max, Or]),
        (decimals, vec![Sum, Min, Max]),
        (widest, vec![Sum, Max]),
        (floats, vec![Sum, Min]),
        (flags, vec![And, Or, Min]),
    ]
}

pub(crate) fn check(
    n: usize,
    groups: u64,
    skew: usize,
    kind: usize,
    folds_from: usize,
    folds_to: usize,
) {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random((n as u64 ^ groups << 20) + 77 * skew as u64 + kind as u64);
    let numbers = numbers(&mut random, n, groups, skew);
    let keys = keys(&mut random, &numbers, kind);
    let keys: Vec<&ArrayRef> = keys.iter().collect();
    let values = values(&mut random, n);
    let folds: Vec<(Fold, Option<&ArrayRef>)> = [(Fold::Count, None)]
        .into_iter()
        .chain(
            values[folds_from..folds_to]
                .iter()
                .flat_map(|(array, folds)| folds.iter().map(move |fold| (*fold, Some(array)))),
        )
        .collect();
    let what = format!("{n} rows, {groups} groups, skew {skew}, keys {kind}");
    same_aggregates(&host, &gpu, n, &keys, &folds, &ALL, &what);
}

/// All folds together have more accumulators than a launch, and keys are numbered first.
#[test]
fn every_fold_by_every_strategy() {
    for (turn, n) in [1, 31, 33, 1000, 1025, 8193, 70_001]
        .into_iter()
        .enumerate()
    {
        for kind in 0..KEY_KINDS {
            for groups in [1, 16, 4096] {
                check(n, groups, (turn + kind) % 4, kind, 0, 7);
                check(
                    n,
                    groups,
                    (turn + kind + 1) % 4,
                    kind,
                    turn % 6,
                    turn % 6 + 2,
                );
            }
        }
    }
}

#[test]
fn many_groups_by_every_strategy() {
    for (turn, groups) in [1, 1 << 4, 1 << 12, 1 << 16, 1 << 20]
        .into_iter()
        .enumerate()
    {
        for kind in 0..KEY_KINDS - 1 {
            let first = (turn + kind) % 6;
            let n = match groups {
                0..=0xFFFF => 150_007,
                _ => 1_200_007,
            };
            check(n, groups, (turn + kind) % 4, kind, first, first + 2);
        }
    }
}

#[test]
fn skew_by_every_strategy() {
    for skew in 0..4 {
        for kind in [0, 1, 2, 4, 6, 7] {
            check(400_003, 100_000, skew, kind, skew, skew + 2);
        }
    }
}

/// Enough rows that a sample is taken even for few ids.
#[test]
fn a_heavy_key_among_few() {
    for skew in [1, 2] {
        check(5_000_003, 3000, skew, 0, 0, 1);
    }
}

/// A forced strategy runs where it is possible.
#[test]
fn forced_strategies_run() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(5);
    for kind in 0..KEY_KINDS {
        let numbers = numbers(&mut random, 100_000, 1000, 1);
        let arrays = keys(&mut random, &numbers, kind);
        // One NULL in seven is a group that makes a partition long.
        let is_skewed = arrays.iter().any(|array| array.null_count() > 0);
        let keys: Vec<_> = arrays
            .iter()
            .map(|array| gpu.upload(from_ref(array)).unwrap())
            .collect();
        let keys: Vec<&Column> = keys.iter().map(AsRef::as_ref).collect();
        for strategy in GroupStrategy::ALL {
            let all = [(Fold::Count, None)];
            let taken = gpu
                .aggregate(100_000, &keys, &all, Some(strategy).into())
                .unwrap()
                .by
                .strategy;
            match strategy {
                // Most keys are in no order.
                GroupStrategy::Runs => {}
                GroupStrategy::Partition if is_skewed => {}
                _ => assert_eq!(taken, Some(strategy), "keys {kind}"),
            }
        }
    }
}

/// `mixed64` of `kernels/aggregate/block/group_hash.cuh`.
fn mixed(mut key: u64) -> u64 {
    for factor in FACTORS {
        key = (key ^ key >> 33).wrapping_mul(factor);
    }
    key ^ key >> 33
}

/// The key of which [`mixed`] makes this word.
fn unmixed(word: u64) -> u64 {
    // Each step of Newton's method doubles the number of right bits.
    let inverse = |factor: u64| {
        (0..6).fold(factor, |found, _| {
            found.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(found)))
        })
    };
    let mut key = word ^ word >> 33;
    for factor in FACTORS.into_iter().rev() {
        key = key.wrapping_mul(inverse(factor));
        key ^= key >> 33;
    }
    key
}

const FACTORS: [u64; 2] = [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53];

/// Keys that would all have one home without a seed are grouped about as fast as others, not in a time quadratic in their number.
#[test]
fn keys_that_were_made_to_collide_are_grouped() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let rows = 1u64 << 15;
    let time = |key: &dyn Fn(u64) -> u64| {
        let keys = u64_column((0..rows).map(key).collect(), None);
        let (folds, by) = ([(Fold::Count, None)], [Some(GroupStrategy::HashGlobal)]);
        let begun = Instant::now();
        same_aggregates(&host, &gpu, rows as usize, &[&keys], &folds, &by, "made");
        begun.elapsed()
    };
    let made = |i: u64| unmixed(i << 32 | 5);
    assert!((0..rows).all(|i| mixed(made(i)) as u32 == 5));
    let other = time(&|i| i.wrapping_mul(FACTORS[0]));
    let made = time(&made);
    let most = 4 * other + Duration::from_millis(200);
    assert!(made < most, "{made:?}, others {other:?}");
}

/// SGB and SGB-DE with GFTR and with GFUR, of any number of groups; extremes of rows that a sort moved.
#[test]
fn sorts_move_columns_or_gather_them() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let n = 30_000;
    let mut random = Random(41);
    let key = |random: &mut Random, groups: u64| random.below(groups);
    let scattered = |word: u64| (word << 1 | 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let dense = (0..n).map(|_| key(&mut random, 20_000) as i32);
    let dense: ArrayRef = Arc::new(Int32Array::from_iter_values(dense));
    let narrow = (0..n).map(|_| (scattered(key(&mut random, 200)) >> 32) as u32);
    let narrow: ArrayRef = Arc::new(UInt32Array::from_iter_values(narrow));
    let wide = (0..n).map(|_| scattered(key(&mut random, 25_000)) as i64);
    let wide: ArrayRef = Arc::new(Int64Array::from_iter_values(wide));
    let words = random.words(n, 0);
    let ints: ArrayRef = Arc::new(Int32Array::from_iter_values(
        words.iter().map(|w| *w as i32),
    ));
    let longs: ArrayRef = Arc::new(Int64Array::from_iter_values(
        words.iter().map(|w| *w as i64),
    ));
    let folds = [
        (Fold::Sum, Some(&longs)),
        (Fold::Max, Some(&ints)),
        (Fold::Min, Some(&longs)),
        (Fold::Count, None),
    ];
    let sorts = [GroupStrategy::Sort, GroupStrategy::SortDictionary];
    let wanted = sorts.map(|sort| {
        [Materialization::Gftr, Materialization::Gfur].map(|how| Grouping {
            strategy: Some(sort),
            materialization: Some(how),
        })
    });
    for keys in [&[&dense][..], &[&narrow], &[&wide], &[&dense, &narrow]] {
        same_by(&host, &gpu, n, keys, &folds, wanted.as_flattened(), "sorts");
        let up = |array: &&ArrayRef| gpu.upload(from_ref(*array)).unwrap();
        let (keys, values) = (keys.iter().map(up).collect::<Vec<_>>(), up(&&longs));
        let keys: Vec<&Column> = keys.iter().map(AsRef::as_ref).collect();
        let folds = [(Fold::Sum, Some(values.as_ref()))];
        for wanted in wanted.as_flattened() {
            let made = gpu.aggregate(n, &keys, &folds, *wanted).unwrap();
            assert_eq!(made.by, *wanted);
        }
    }
}
