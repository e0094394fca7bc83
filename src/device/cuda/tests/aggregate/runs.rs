//! Groups that are runs of keys in order, against the reference: every kind of key and fold, both directions, NULLs at either end, and orders that
//! break at one row.

use crate::device::cuda::tests::aggregate::fold::same_aggregates;
use crate::device::cuda::tests::*;
use crate::ir::fold::Fold;
use crate::ir::strategies::GroupStrategy;

use crate::device::cuda::tests::aggregate::strategies::values;

const RUNS: [Option<GroupStrategy>; 1] = [Some(GroupStrategy::Runs)];

/// Ascending numbers of `n` rows: runs of one to `longest` rows, now and then far longer ones.
fn ascending(random: &mut Random, n: usize, longest: u64) -> Vec<u64> {
    let mut numbers = Vec::with_capacity(n);
    let mut number = 0;
    while numbers.len() < n {
        let run = match random.below(50) {
            0 => 3000,
            _ => 1 + random.below(longest),
        };
        numbers.extend((0..run).map(|_| number));
        number += 1;
    }
    numbers.truncate(n);
    numbers
}

/// Keys in the order of `numbers`, of which the first `nulls` rows are NULL.
fn keys(numbers: &[u64], kind: usize, nulls: usize) -> Vec<ArrayRef> {
    let n = numbers.len();
    let valid = (nulls > 0).then(|| NullBuffer::from_iter((0..n).map(|row| row >= nulls)));
    let of = |map: &dyn Fn(u64) -> i64| -> Vec<i64> { numbers.iter().map(|k| map(*k)).collect() };
    let text = |k: u64| format!("{:08} and some more", k);
    match kind {
        0 => vec![Arc::new(Int32Array::new(
            of(&|k| k as i64 - 700)
                .into_iter()
                .map(|k| k as i32)
                .collect(),
            valid,
        ))],
        1 => vec![Arc::new(UInt32Array::new(
            of(&|k| (1 << 31) + k as i64)
                .into_iter()
                .map(|k| k as u32)
                .collect(),
            valid,
        ))],
        // Descends.
        2 => vec![Arc::new(Int64Array::new(
            of(&|k| 900 - k as i64).into(),
            valid,
        ))],
        3 => vec![u64_column(
            numbers.iter().map(|k| (1 << 63) + k).collect(),
            valid,
        )],
        4 => vec![Arc::new(Float64Array::new(
            // Both zeros are in one run.
            of(&|k| k as i64 - 3)
                .into_iter()
                .enumerate()
                .map(|(row, k)| {
                    if k == 0 && row % 2 == 0 {
                        -0.0
                    } else {
                        k as f64
                    }
                })
                .collect(),
            valid,
        ))],
        5 => vec![Arc::new(Float32Array::new(
            of(&|k| 5 - k as i64)
                .into_iter()
                .enumerate()
                .map(|(row, k)| {
                    if k == 0 && row % 2 == 0 {
                        -0.0
                    } else {
                        k as f32
                    }
                })
                .collect(),
            valid,
        ))],
        6 => vec![Arc::new(Decimal128Array::new(
            numbers
                .iter()
                .map(|k| (i128::from(*k) - 9) << 66)
                .collect::<Vec<_>>()
                .into(),
            valid,
        ))],
        7 => vec![Arc::new(StringArray::from_iter(
            numbers
                .iter()
                .enumerate()
                .map(|(row, k)| (row >= nulls).then(|| text(*k))),
        ))],
        // Short text, and a number that descends within it.
        8 => vec![
            Arc::new(StringArray::from_iter(
                numbers
                    .iter()
                    .enumerate()
                    .map(|(row, k)| (row >= nulls).then(|| format!("{:05}", k / 4))),
            )),
            Arc::new(Int16Array::from_iter_values(
                numbers
                    .iter()
                    .enumerate()
                    .map(|(row, k)| match row < nulls {
                        true => 5,
                        false => -((k % 4) as i16),
                    }),
            )),
        ],
        9 => vec![
            Arc::new(BooleanArray::from_iter(
                numbers.iter().map(|k| Some(*k * 2 > numbers[n - 1])),
            )),
            Arc::new(Int64Array::new(of(&|k| k as i64 / 2).into(), valid)),
            Arc::new(StringViewArray::from_iter_values(
                numbers.iter().map(|k| text(*k)),
            )),
        ],
        _ => vec![Arc::new(Int64Array::new_null(n))],
    }
}

pub(crate) const KINDS: usize = 11;

pub(crate) fn check(
    n: usize,
    longest: u64,
    kind: usize,
    nulls: usize,
    folds: std::ops::Range<usize>,
) {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(n as u64 + 31 * kind as u64);
    let numbers = ascending(&mut random, n, longest);
    let keys = keys(&numbers, kind, nulls.min(n));
    let keys: Vec<&ArrayRef> = keys.iter().collect();
    let values = values(&mut random, n);
    let of_values = values[folds].iter();
    let of_values =
        of_values.flat_map(|(array, folds)| folds.iter().map(move |fold| (*fold, Some(array))));
    let folds: Vec<_> = [(Fold::Count, None)].into_iter().chain(of_values).collect();
    let what = format!("{n} rows, runs up to {longest}, keys {kind}, {nulls} NULLs");
    same_aggregates(&host, &gpu, n, &keys, &folds, &RUNS, &what);
    for device in [&host as &dyn Device, &gpu] {
        assert_eq!(
            strategy_of(device, n, &keys),
            Some(GroupStrategy::Runs),
            "{what}"
        );
    }
}

fn strategy_of(device: &dyn Device, n: usize, keys: &[&ArrayRef]) -> Option<GroupStrategy> {
    let keys: Vec<_> = keys
        .iter()
        .map(|key| device.upload(from_ref(*key)).unwrap())
        .collect();
    let keys: Vec<&Column> = keys.iter().map(AsRef::as_ref).collect();
    let runs = Some(GroupStrategy::Runs);
    device
        .aggregate(n, &keys, &[(Fold::Count, None)], runs.into())
        .unwrap()
        .by
        .strategy
}

#[test]
fn keys_in_order_are_grouped_by_runs() {
    for (turn, n) in [1, 32, 33, 1000, 1025, 8193, 40_001]
        .into_iter()
        .enumerate()
    {
        for kind in 0..KINDS {
            check(n, 9, kind, 0, 0..7);
            check(n, 1, kind, n / 3, turn % 6..turn % 6 + 1);
        }
    }
}

/// A row that is out of order, far from the places that are looked at first.
#[test]
fn one_row_out_of_order_is_seen() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let n = 30_000;
    for (turn, at) in [9_000, 8_192, 8_191, 1_023 + 8_192, 22_223]
        .into_iter()
        .enumerate()
    {
        let numbers: Vec<u64> = (0..n).map(|row| row / 2).collect();
        let mut broken = numbers.clone();
        broken[at] = broken[at - 3];
        // Several columns, with NULLs; and one column without, which has a way of its own.
        for kind in [turn % 6, 8] {
            for (numbers, runs) in [(&numbers, true), (&broken, false)] {
                let keys = keys(numbers, kind, 5);
                let keys: Vec<&ArrayRef> = keys.iter().collect();
                let folds = [(Fold::Count, None)];
                same_aggregates(
                    &host,
                    &gpu,
                    n as usize,
                    &keys,
                    &folds,
                    &RUNS,
                    &format!("{at}, keys {kind}"),
                );
                for device in [&host as &dyn Device, &gpu] {
                    let by_runs =
                        strategy_of(device, n as usize, &keys) == Some(GroupStrategy::Runs);
                    assert_eq!(by_runs, runs, "{at}, keys {kind}");
                }
            }
        }
        let keys = keys(&broken, turn % 4, 0);
        let keys: Vec<&ArrayRef> = keys.iter().collect();
        assert_ne!(
            strategy_of(&gpu, n as usize, &keys),
            Some(GroupStrategy::Runs)
        );
        assert_ne!(
            strategy_of(&host, n as usize, &keys),
            Some(GroupStrategy::Runs)
        );
    }
}

/// Values that come back, and NULLs amid values.
#[test]
fn orders_that_turn_are_none() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let n = 20_000;
    let turning: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..n).map(|i: i64| (i - 10_000).abs()),
    ));
    let holes: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..n).map(|i| (i != 9_999).then_some(i)),
    ));
    for key in [&turning, &holes] {
        assert_ne!(
            strategy_of(&gpu, n as usize, &[key]),
            Some(GroupStrategy::Runs)
        );
    }
}
