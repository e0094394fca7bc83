//! Grouped aggregation by every fold. Groups are in any order: they are compared in the order of their keys.

use arrow::row::{RowConverter, Rows, SortField};

use crate::device::cuda::tests::*;
use crate::device::data::results::Aggregated;
use crate::device::primitives::aggregate::AggregatePrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::fold::Fold;
use crate::ir::strategies::{GroupStrategy, Grouping};

/// The device's choice, and another strategy in each turn.
fn some(turn: usize) -> [Option<GroupStrategy>; 2] {
    [None, Some(GroupStrategy::ALL[turn % 6])]
}

/// The device's choice, and all strategies.
pub(crate) const ALL: [Option<GroupStrategy>; 7] = [
    None,
    Some(GroupStrategy::HashShared),
    Some(GroupStrategy::HashGlobal),
    Some(GroupStrategy::Partition),
    Some(GroupStrategy::Sort),
    Some(GroupStrategy::SortDictionary),
    Some(GroupStrategy::Runs),
];

/// The keys in row format, and their order.
fn in_order(keys: &[ArrayRef]) -> Option<(Rows, UInt32Array)> {
    if keys.is_empty() {
        return None;
    }
    let fields = keys
        .iter()
        .map(|key| SortField::new(key.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).unwrap();
    let rows = converter.convert_columns(keys).unwrap();
    let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
    order.sort_unstable_by_key(|group| rows.row(*group as usize));
    Some((rows, order.into()))
}

/// The order by keys of the groups of both devices, whose keys must be equal.
fn orders(of_host: &[ArrayRef], of_gpu: &[ArrayRef], what: &str) -> (UInt32Array, UInt32Array) {
    let (Some((rows_on_host, of_host)), Some((rows_on_gpu, of_gpu))) =
        (in_order(of_host), in_order(of_gpu))
    else {
        let one = UInt32Array::from(vec![0]);
        return (one.clone(), one);
    };
    let mut both = of_host.values().iter().zip(of_gpu.values());
    let same = both.all(|(h, t)| rows_on_host.row(*h as usize) == rows_on_gpu.row(*t as usize));
    assert!(same, "{what}: keys");
    (of_host, of_gpu)
}

pub(crate) fn same_aggregates(
    host: &HostDevice,
    gpu: &CudaDevice,
    rows: usize,
    keys: &[&ArrayRef],
    folds: &[(Fold, Option<&ArrayRef>)],
    strategies: &[Option<GroupStrategy>],
    what: &str,
) {
    let wanted: Vec<Grouping> = strategies.iter().map(|of| (*of).into()).collect();
    same_by(host, gpu, rows, keys, folds, &wanted, what);
}

/// The same by strategies with materialisations.
pub(crate) fn same_by(
    host: &HostDevice,
    gpu: &CudaDevice,
    rows: usize,
    keys: &[&ArrayRef],
    folds: &[(Fold, Option<&ArrayRef>)],
    wanted: &[Grouping],
    what: &str,
) {
    let on_both = |array: &ArrayRef| {
        (
            host.upload(from_ref(array)).unwrap(),
            gpu.upload(from_ref(array)).unwrap(),
        )
    };
    let keys: Vec<_> = keys.iter().map(|array| on_both(array)).collect();
    let values: Vec<_> = folds.iter().map(|(_, array)| array.map(on_both)).collect();
    let of_host: Vec<&Column> = keys.iter().map(|(of_host, _)| of_host.as_ref()).collect();
    let of_gpu: Vec<&Column> = keys.iter().map(|(_, of_gpu)| of_gpu.as_ref()).collect();
    let folds_on_host: Vec<_> = folds
        .iter()
        .zip(&values)
        .map(|((fold, _), values)| (*fold, values.as_ref().map(|(of_host, _)| of_host.as_ref())))
        .collect();
    let folds_on_gpu: Vec<_> = folds
        .iter()
        .zip(&values)
        .map(|((fold, _), values)| (*fold, values.as_ref().map(|(_, of_gpu)| of_gpu.as_ref())))
        .collect();
    let of_host = host
        .aggregate(rows, &of_host, &folds_on_host, Grouping::AUTO)
        .unwrap();
    for wanted in wanted {
        let of_gpu = gpu
            .aggregate(rows, &of_gpu, &folds_on_gpu, *wanted)
            .unwrap();
        let what = format!("{what}, {wanted:?}, by {:?}", of_gpu.by);
        same_groups(gpu, &of_host, &of_gpu, folds, &what);
    }
}

/// Compares groups in any order.
fn same_groups(
    gpu: &CudaDevice,
    of_host: &Aggregated,
    of_gpu: &Aggregated,
    folds: &[(Fold, Option<&ArrayRef>)],
    what: &str,
) {
    assert_eq!(of_host.groups, of_gpu.groups, "{what}: groups");
    let keys_on_host: Vec<ArrayRef> = of_host
        .keys
        .iter()
        .map(|key| key.on_host().unwrap().clone())
        .collect();
    let keys_on_gpu = of_gpu.keys.iter().map(|key| gpu.download(key).unwrap());
    let keys_on_gpu: Vec<ArrayRef> = keys_on_gpu.collect();
    let (order_on_host, order_on_gpu) = orders(&keys_on_host, &keys_on_gpu, what);
    for ((of_host, of_gpu), (fold, _)) in of_host.states.iter().zip(&of_gpu.states).zip(folds) {
        let expected = take(of_host.on_host().unwrap(), &order_on_host, None).unwrap();
        let given = take(&gpu.download(of_gpu).unwrap(), &order_on_gpu, None).unwrap();
        let what = format!("{what}: {fold:?} of {}", expected.data_type());
        match fold {
            Fold::SquaredDeviations => close(&given, &expected, &what),
            _ => assert_eq!(&given, &expected, "{what}"),
        }
    }
}

/// Compares floats up to rounding.
fn close(given: &ArrayRef, expected: &ArrayRef, what: &str) {
    let [given, expected] = [given, expected].map(|array| array.as_primitive::<Float64Type>());
    for (given, expected) in given.iter().zip(expected) {
        let same = match (given, expected) {
            (Some(given), Some(expected)) => {
                (given - expected).abs() <= 1e-9 * expected.abs() + 1e-9
            }
            (given, expected) => given.is_none() && expected.is_none(),
        };
        assert!(same, "{what}: {given:?}, not {expected:?}");
    }
}

/// Every fold of a column's type. Floats to sum are small integers, which have the same sum in any order.
fn folds_of(array: &ArrayRef) -> Vec<Fold> {
    use DataType::*;
    let mut folds = vec![Fold::Count, Fold::Min, Fold::Max];
    match array.data_type() {
        Int64 | UInt64 | Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..)
        | Duration(_) => folds.push(Fold::Sum),
        _ => {}
    }
    if array.data_type().is_integer() || *array.data_type() == Boolean {
        folds.extend([Fold::And, Fold::Or, Fold::Xor]);
    }
    folds
}

/// Keys of `groups` values, some of them NULL.
fn keys(random: &mut Random, n: usize, groups: u64, nulls: usize) -> ArrayRef {
    let nulls = random.nulls(n, nulls);
    let heavy = random.below(3) == 0;
    Arc::new(Int32Array::new(
        (0..n)
            .map(|_| match heavy && random.below(2) == 0 {
                true => 3,
                false => random.below(groups) as i32 - 5,
            })
            .collect(),
        nulls,
    ))
}

#[test]
fn every_type_is_folded_as_by_the_host() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(11);
    for (kind, n) in SIZES.into_iter().enumerate() {
        let arrays = columns(&mut random, n, kind);
        let key = keys(&mut random, n, 40, kind);
        for (turn, array) in arrays.iter().enumerate() {
            let folds: Vec<_> = folds_of(array)
                .into_iter()
                .map(|fold| (fold, Some(array)))
                .chain([(Fold::Count, None)])
                .collect();
            let what = format!("{n} rows, {kind}");
            same_aggregates(&host, &gpu, n, &[&key], &folds, &some(kind + turn), &what);
            same_aggregates(&host, &gpu, n, &[], &folds, &[None], &what);
        }
        let small: ArrayRef = Arc::new(Float64Array::new(
            (0..n).map(|_| random.below(1000) as f64 - 300.0).collect(),
            random.nulls(n, kind),
        ));
        let folds = [
            (Fold::Sum, Some(&small)),
            (Fold::Count, Some(&small)),
            (Fold::Mean, Some(&small)),
            (Fold::SquaredDeviations, Some(&small)),
        ];
        same_aggregates(&host, &gpu, n, &[&key], &folds, &some(kind), "floats");
    }
}

#[test]
fn any_number_of_groups_is_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(12);
    for (turn, groups) in [1, 2, 31, 64, 65, 1000, 5000, 30_000, 90_000, 1 << 40]
        .into_iter()
        .enumerate()
    {
        for n in [1000, 300_001, 3_000_000] {
            let key = keys(&mut random, n, groups, turn * 2);
            let values: ArrayRef = Arc::new(Int64Array::new(
                random.words(n, 0).into_iter().map(|w| w as i64).collect(),
                random.nulls(n, turn),
            ));
            let wide: ArrayRef = Arc::new(Decimal128Array::from_iter_values(
                random.words(n, 0).into_iter().map(|w| i128::from(w) << 30),
            ));
            let far: ArrayRef = Arc::new(Float64Array::new(
                (0..n).map(|_| random.below(64) as f64 + 1e9).collect(),
                random.nulls(n, turn),
            ));
            let what = format!("{n} rows, {groups} keys");
            let moments = [
                (Fold::Max, Some(&values)),
                (Fold::Count, Some(&far)),
                (Fold::Mean, Some(&far)),
                (Fold::SquaredDeviations, Some(&far)),
                (Fold::Mean, Some(&far)),
                (Fold::SquaredDeviations, Some(&far)),
            ];
            same_aggregates(&host, &gpu, n, &[&key], &moments, &[None], &what);
            let folds = [
                (Fold::Count, None),
                (Fold::Sum, Some(&values)),
                (Fold::Sum, Some(&wide)),
                (Fold::Max, Some(&values)),
            ];
            same_aggregates(&host, &gpu, n, &[&key], &folds, &[None], &what);
            // More accumulators than a launch has.
            let many: Vec<_> = (0..14)
                .map(|i| ([Fold::Sum, Fold::Xor][i % 2], Some(&values)))
                .collect();
            if n < 1_000_000 {
                same_aggregates(&host, &gpu, n, &[&key], &many, &some(turn), &what);
            }
        }
    }
}

#[test]
fn keys_of_several_columns_and_types_are_grouped() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(13);
    for (kind, n) in [1, 33, 1000, 65_537].into_iter().enumerate() {
        let arrays = columns(&mut random, n, 5);
        let values: ArrayRef = Arc::new(UInt64Array::from(random.words(n, 2)));
        let folds = [(Fold::Count, None), (Fold::Sum, Some(&values))];
        for i in 0..arrays.len() {
            let what = format!("{n} rows, key {i}");
            same_aggregates(&host, &gpu, n, &[&arrays[i]], &folds, &some(i), &what);
            let second = &arrays[(i * 7 + kind) % arrays.len()];
            same_aggregates(
                &host,
                &gpu,
                n,
                &[&arrays[i], second],
                &folds,
                &some(i + 1),
                &what,
            );
        }
        let all = [&arrays[2], &arrays[27], &arrays[13], &arrays[26]];
        same_aggregates(&host, &gpu, n, &all, &folds, &ALL, "four keys");
    }
}

/// MIN and MAX of zeros and NaNs of both signs, which differ: over all rows, and over groups by each strategy.
#[test]
fn extremes_of_floats() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(23);
    for n in [3, 700, 9_001] {
        let words = random.words(n, 0);
        let floats = crate::device::cuda::tests::theta::range_fold::close_floats(&words);
        let folds: Vec<(Fold, Option<&ArrayRef>)> = floats
            .iter()
            .flat_map(|values| [(Fold::Min, Some(values)), (Fold::Max, Some(values))])
            .collect();
        let key: ArrayRef = Arc::new(Int64Array::from_iter_values(
            words.iter().map(|w| (w >> 20) as i64 % 60),
        ));
        let strategies: Vec<_> = ALL.to_vec();
        same_aggregates(&host, &gpu, n, &[], &folds, &[None], "all rows");
        same_aggregates(&host, &gpu, n, &[&key], &folds, &strategies, "groups");
    }
}
