//! Groups by direct address: their keys are decoded from their ids, and their results tell which ids have rows.

use crate::device::cuda::tests::aggregate::fold::{ALL, same_aggregates};
use crate::device::cuda::tests::*;
use crate::ir::fold::Fold;
use crate::ir::strategies::GroupStrategy;

/// Values that are zero for all rows of many groups, also in sums.
fn values(n: usize, random: &mut Random) -> Vec<ArrayRef> {
    let small: Vec<i64> = (0..n).map(|_| random.below(3) as i64 - 1).collect();
    let wide = |shift: u32| small.iter().map(move |v| i128::from(*v) << shift);
    vec![
        Arc::new(Int64Array::from(small.clone())),
        Arc::new(Decimal128Array::from_iter_values(wide(100))),
        Arc::new(Float64Array::from_iter_values(
            small.iter().map(|v| *v as f64),
        )),
        Arc::new(Int64Array::new(small.clone().into(), random.nulls(n, 3))),
        Arc::new(UInt64Array::from_iter_values(
            small.iter().map(|v| (v + 2) as u64),
        )),
        // Four of them add up to a multiple of 2^64.
        Arc::new(Int64Array::from_iter_values(small.iter().map(|_| 1 << 62))),
    ]
}

/// Keys with gaps: of few bits and of many, Booleans, several columns, with and without NULLs.
fn keys(n: usize, random: &mut Random) -> Vec<Vec<ArrayRef>> {
    let numbers: Vec<u64> = (0..n).map(|_| random.below(90) * 11).collect();
    let bytes: ArrayRef = Arc::new(Int8Array::new(
        numbers.iter().map(|k| *k as i8).collect(),
        random.nulls(n, 2),
    ));
    let shorts: ArrayRef = Arc::new(UInt16Array::from_iter_values(
        numbers.iter().map(|k| 65_535 - *k as u16),
    ));
    let dates: ArrayRef = Arc::new(Date32Array::from_iter_values(
        numbers.iter().map(|k| *k as i32 - 500),
    ));
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::new(
        numbers
            .iter()
            .map(|k| *k as i64 + i64::MIN)
            .collect::<Vec<_>>()
            .into(),
        random.nulls(n, 2),
    ));
    let flags: ArrayRef = Arc::new(BooleanArray::new(
        BooleanBuffer::collect_bool(n, |i| numbers[i].is_multiple_of(2)),
        random.nulls(n, 2),
    ));
    let all_null: ArrayRef = Arc::new(Int32Array::new_null(n));
    vec![
        vec![dates.clone()],
        vec![bytes.clone()],
        vec![times.clone()],
        vec![flags.clone()],
        vec![all_null],
        vec![flags, bytes],
        vec![shorts, times],
    ]
}

#[test]
fn sums_that_are_zero_are_of_groups() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(11);
    for n in [1, 33, 700, 20_011] {
        let values = values(n, &mut random);
        let folds: [Vec<(Fold, Option<&ArrayRef>)>; 11] = [
            vec![],
            vec![(Fold::Sum, Some(&values[4]))],
            vec![(Fold::Sum, Some(&values[5]))],
            vec![(Fold::Sum, Some(&values[5])), (Fold::Sum, Some(&values[4]))],
            vec![(Fold::Sum, Some(&values[0]))],
            vec![(Fold::Sum, Some(&values[1]))],
            vec![(Fold::Sum, Some(&values[2])), (Fold::And, Some(&values[0]))],
            vec![(Fold::Sum, Some(&values[3]))],
            vec![(Fold::And, Some(&values[0]))],
            vec![(Fold::Xor, Some(&values[0])), (Fold::Max, Some(&values[3]))],
            vec![(Fold::Min, Some(&values[0])), (Fold::Sum, Some(&values[0]))],
        ];
        for keys in keys(n, &mut random) {
            let keys: Vec<&ArrayRef> = keys.iter().collect();
            for folds in &folds {
                let types: Vec<_> = keys.iter().map(|key| key.data_type()).collect();
                let what = format!("{n} rows by {types:?}: {folds:?}");
                let what = &what[..what.len().min(200)];
                same_aggregates(&host, &gpu, n, &keys, folds, &ALL, what);
            }
        }
    }
}

/// Enough rows that the range of keys is assumed from a sample: right, with gaps, with a few keys outside the sample,
/// and with one heavy key. Narrow and wide ranges, some at the least or greatest value of the type.
#[test]
fn assumed_ranges() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let n = (1 << 22) + 77;
    let mut random = Random(12);
    let values = values(n, &mut random);
    for kind in 0..9 {
        let key = |i: usize, random: &mut Random| match kind {
            0 => random.below(16) as i32 - 3,
            1 => i32::MAX - 4096 + random.below(4096) as i32,
            2 => random.below(1000) as i32 * 4,
            3 if i % 1_500_000 == 7 => i as i32,
            3 => random.below(300) as i32,
            5 => i32::MIN + random.below(70_000) as i32,
            6 => i32::MAX - random.below(1 << 20) as i32 * 3,
            7 if i == 3_000_000 => -5_000,
            7 => random.below(1 << 20) as i32,
            8 => random.below(5 << 20) as i32,
            _ if random.below(2) == 0 => 77,
            _ => random.below(2000) as i32,
        };
        let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(
            (0..n).map(|i| key(i, &mut random)),
        ));
        let all_folds = [
            vec![(Fold::Sum, Some(&values[kind % 2 * 4]))],
            vec![(Fold::Sum, Some(&values[3])), (Fold::Count, None)],
        ];
        // Fewer of the slow cases.
        let (all_folds, strategies) = match kind {
            ..5 => (&all_folds[..], &ALL[..2]),
            7 => (&all_folds[..], &ALL[2..4]),
            _ => (&all_folds[..1], &ALL[..4]),
        };
        for folds in all_folds {
            let what = format!("keys {kind}");
            same_aggregates(&host, &gpu, n, &[&keys], folds, strategies, &what);
        }
    }
}

/// Distinct keys by one bit each, in a range much wider than their number; and keys too far apart for bits.
#[test]
fn distinct_keys_by_bits() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(14);
    for n in [1, 31, 1000, 20_011, 300_007] {
        for spread in [1, n as u64 / 3 + 1, 50 * n as u64 + 3, 1 << 40] {
            let words: Vec<u64> = (0..n).map(|_| random.below(spread)).collect();
            let longs = words.iter().map(|w| *w as i64 + i64::MIN);
            let longs: ArrayRef = Arc::new(Int64Array::from_iter_values(longs));
            let ints = words.iter().map(|w| *w as i32 - 9);
            let ints: ArrayRef = Arc::new(Int32Array::from_iter_values(ints));
            let some: ArrayRef = Arc::new(UInt32Array::new(
                words.iter().map(|w| *w as u32).collect(),
                random.nulls(n, 2),
            ));
            let flags: ArrayRef = Arc::new(BooleanArray::new(
                BooleanBuffer::collect_bool(n, |i| words[i].is_multiple_of(3)),
                random.nulls(n, 2),
            ));
            for keys in [vec![&longs], vec![&ints], vec![&some], vec![&some, &flags]] {
                let types: Vec<_> = keys.iter().map(|key| key.data_type()).collect();
                let what = format!("{n} rows of {types:?} below {spread}");
                let by = match spread == 1 << 40 && n < 100_000 {
                    true => &ALL[..],
                    false => &ALL[..1],
                };
                same_aggregates(&host, &gpu, n, &keys, &[], by, &what);
            }
        }
    }
}

/// Partitions without row ids: all columns are partitioned with their keys, one or several, with NULLs too.
#[test]
fn partitions_without_row_ids() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let n = 300_007;
    let mut random = Random(13);
    let values = values(n, &mut random);
    let ints: ArrayRef = Arc::new(UInt32Array::from_iter_values((0..n).map(|i| i as u32)));
    let dense: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..n).map(|_| random.below(70_000) as i32),
    ));
    let scattered: ArrayRef =
        Arc::new(UInt64Array::from_iter_values((0..n).map(|_| {
            random.below(70_000).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        })));
    for keys in [&dense, &scattered] {
        for folds in [
            vec![(Fold::Sum, Some(&values[0]))],
            vec![(Fold::Or, Some(&ints)), (Fold::Sum, Some(&values[2]))],
            vec![(Fold::Sum, Some(&values[0])), (Fold::Sum, Some(&values[3]))],
            vec![(Fold::Count, None)],
            vec![(Fold::Sum, Some(&values[1])), (Fold::Max, Some(&ints))],
        ] {
            same_aggregates(&host, &gpu, n, &[keys], &folds, &ALL, "parts");
        }
    }
}

/// So many ids that rows of a partition come in any order, and that accumulators are in global memory alone.
#[test]
fn partitions_in_no_order() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let n = 540_011;
    let mut random = Random(15);
    let values = values(n, &mut random);
    let ints: ArrayRef = Arc::new(UInt32Array::from_iter_values((0..n).map(|i| i as u32)));
    let key: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..n).map(|_| random.below(1_070_000) as i32 - 3),
    ));
    for folds in [
        vec![(Fold::Sum, Some(&values[0]))],
        vec![(Fold::Sum, Some(&values[4]))],
        vec![(Fold::Sum, Some(&values[5])), (Fold::Or, Some(&ints))],
        vec![(Fold::Sum, Some(&values[2])), (Fold::Count, None)],
        vec![(Fold::Count, None)],
    ] {
        same_aggregates(&host, &gpu, n, &[&key], &folds, &ALL[2..4], "wide");
    }
}

/// Clusters of blocks, with accumulators so wide that few ids fit shared memory: ids of which one block holds most, and
/// ids of which each block holds few; with a heavy key, and with keys outside the sample.
#[test]
fn clusters_of_few_places() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(16);
    for (n, ids, kind, strategy) in [
        (340_011, 1_500, 0, GroupStrategy::HashShared),
        (200_003, 6_000, 1, GroupStrategy::HashGlobal),
        (340_001, 30_000, 2, GroupStrategy::HashGlobal),
    ] {
        let values = values(n, &mut random);
        let words = random.words(n, 0).into_iter();
        let widest: ArrayRef = Arc::new(Decimal256Array::from_iter_values(words.map(|word| {
            arrow::datatypes::i256::from_parts(u128::from(word) << 64, i128::from(word as i64))
        })));
        let key: ArrayRef = Arc::new(Int32Array::from_iter_values((0..n).map(|i| match kind {
            1 if i % 3 == 0 => 1_717,
            2 if i == n / 2 => 40_000,
            _ => random.below(ids) as i32 - 700,
        })));
        let most = [
            (Fold::Sum, Some(&widest)),
            (Fold::Sum, Some(&widest)),
            (Fold::Sum, Some(&widest)),
            (Fold::Sum, Some(&widest)),
            (Fold::Sum, Some(&values[1])),
            (Fold::Sum, Some(&values[0])),
            (Fold::Sum, Some(&values[3])),
            (Fold::Sum, Some(&values[5])),
            (Fold::And, Some(&values[4])),
            (Fold::Or, Some(&values[0])),
            (Fold::Xor, Some(&values[3])),
            (Fold::Min, Some(&values[0])),
            (Fold::Max, Some(&widest)),
            (Fold::Count, None),
        ];
        let wide = [(Fold::And, Some(&values[4])); 16].into_iter();
        let wide: Vec<_> = wide.chain([(Fold::Sum, Some(&widest)); 9]).collect();
        for folds in [&most[..], &most[..9], &wide] {
            let what = format!("{ids} ids, {strategy}");
            same_aggregates(&host, &gpu, n, &[&key], folds, &[Some(strategy)], &what);
        }
    }
}

/// The same with one or two sums of many rows, for which the clusters of a GPU have many accumulators: with gaps, and
/// with a key outside the sample.
#[test]
fn clusters_of_many_places() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(17);
    let n = (12 << 20) + 77;
    let values = values(n, &mut random);
    let one = vec![(Fold::Sum, Some(&values[0]))];
    let two = vec![(Fold::Sum, Some(&values[4])), (Fold::Count, None)];
    // Only the first row of a group tells that it has rows.
    let with_nulls = vec![(Fold::Sum, Some(&values[3]))];
    for (ids, kind, folds, strategies) in [
        (50_000, 0, &one, &ALL[..2]),
        (100_000, 0, &with_nulls, &ALL[1..2]),
        (1 << 20, 1, &one, &ALL[..1]),
        // Last: after a wrong assumption the device does not assume a range again.
        (200_000, 2, &two, &ALL[2..3]),
    ] {
        let key: ArrayRef = Arc::new(Int32Array::from_iter_values((0..n).map(|i| match kind {
            1 => random.below(ids / 2) as i32 * 2 - 5,
            2 if i == n / 3 => -60_000,
            _ => random.below(ids) as i32 - 700,
        })));
        let what = format!("{ids} ids, {kind}");
        same_aggregates(&host, &gpu, n, &[&key], folds, strategies, &what);
    }
}
