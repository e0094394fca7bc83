//! Folds under one inequality, and those over covers that are made of them.

use crate::device::cuda::tests::theta::wavelet_tree::{
    INEQUALITIES, Searched, matches, ranges_like, test,
};
use crate::device::cuda::tests::*;
use crate::device::primitives::folds::FoldPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::fold::RangeFold;

const FOLDS: [RangeFold; 4] = [
    RangeFold::Count,
    RangeFold::Sum,
    RangeFold::Min,
    RangeFold::Max,
];

/// Columns of every type that is summed, and of others, with and without NULLs.
fn columns(random: &mut Random, n: usize) -> Vec<ArrayRef> {
    let words = random.words(n, 0);
    let nulls = random.nulls(n, 2);
    let longs = || words.iter().map(|w| *w as i64).collect::<Vec<_>>();
    let halves = || words.iter().map(|w| (*w % 4001) as f64 / 4.0 - 500.0);
    let wide = |w: &u64| (i128::from(*w) << 40) - (i128::from(*w) << 20);
    let small = |w: &u64| (*w % 1000) as i32 - 500;
    vec![
        Arc::new(Int64Array::new(longs().into(), nulls.clone())),
        Arc::new(Int64Array::from_iter_values(longs())),
        u64_column(words.clone(), nulls.clone()),
        Arc::new(
            Decimal128Array::new(
                words.iter().map(wide).collect::<Vec<_>>().into(),
                nulls.clone(),
            )
            .with_precision_and_scale(38, 2)
            .unwrap(),
        ),
        Arc::new(
            Decimal32Array::new(
                words.iter().map(small).collect::<Vec<_>>().into(),
                nulls.clone(),
            )
            .with_precision_and_scale(9, 2)
            .unwrap(),
        ),
        Arc::new(Float64Array::new(
            halves().collect::<Vec<_>>().into(),
            nulls.clone(),
        )),
        Arc::new(Float64Array::from_iter_values(halves())),
        Arc::new(Int16Array::from_iter_values(
            words.iter().map(|w| *w as i16),
        )),
        Arc::new(Int64Array::new_null(n)),
        Arc::new(
            words
                .iter()
                .map(|w| (w % 3 > 0).then(|| format!("{}", w % 77)))
                .collect::<StringArray>(),
        ),
    ]
}

fn is_summed(array: &ArrayRef) -> bool {
    !matches!(array.data_type(), DataType::Utf8 | DataType::Int16)
}

/// Compares folds under each inequality. Floats are multiples of a quarter, so that any order of additions gives the same sum.
fn folds_are_the_hosts(
    (host, gpu): (&HostDevice, &CudaDevice),
    random: &mut Random,
    (n, m): (usize, usize),
    (kind, of_ranges): (usize, usize),
    columns: &[ArrayRef],
) {
    let (keys, mut words) = (random.words(n, kind), random.words(m, kind));
    for word in words.iter_mut().step_by(3) {
        *word = keys[random.below(n as u64) as usize];
    }
    let ranges = ranges_like(random, of_ranges, n, m);
    let searched = Searched::of(host, gpu, keys, words, ranges);
    for op in INEQUALITIES {
        let (of_host, of_gpu) = ([test(&searched.host, op)], [test(&searched.gpu, op)]);
        let of_host = matches(&searched.host, &of_host);
        let of_gpu = matches(&searched.gpu, &of_gpu);
        let what = format!("{n} x {m}, kind {kind}, ranges {of_ranges}, {op}");
        same_folds_of_matches((host, gpu), (of_host, of_gpu), (columns, &FOLDS), m, &what);
    }
}

/// Compares all folds of these columns of the build side over the same matches, of `m` probe rows.
fn same_folds_of_matches(
    (host, gpu): (&HostDevice, &CudaDevice),
    (of_host, of_gpu): (Matches<'_>, Matches<'_>),
    (columns, folds): (&[ArrayRef], &[RangeFold]),
    m: usize,
    what: &str,
) {
    for array in columns {
        let column = host.upload(from_ref(array)).unwrap();
        let column_on_gpu = gpu.upload(from_ref(array)).unwrap();
        for fold in folds.iter().copied() {
            if fold == RangeFold::Sum && !is_summed(array) {
                continue;
            }
            let of_host = host.fold_tested(fold, &column, of_host, m).unwrap();
            let of_gpu = gpu.fold_tested(fold, &column_on_gpu, of_gpu, m).unwrap();
            assert_eq!(
                of_host.on_host().unwrap(),
                &gpu.download(&of_gpu).unwrap(),
                "{what}: {fold:?} of {}",
                array.data_type()
            );
        }
    }
}

/// In each seventh turn, compares a fold of a column of a type, both as `turn` says.
pub(crate) fn same_folds_of_some(
    (host, gpu): (&HostDevice, &CudaDevice),
    (of_host, of_gpu): (Matches<'_>, Matches<'_>),
    random: &mut Random,
    (n, m): (usize, usize),
    turn: usize,
    what: &str,
) {
    if !turn.is_multiple_of(7) {
        return;
    }
    let columns = columns(random, n);
    let column = &columns[turn % columns.len()..][..1];
    let folds = &FOLDS[turn / 7 % 4..][..1];
    same_folds_of_matches((host, gpu), (of_host, of_gpu), (column, folds), m, what);
}

#[test]
fn folds_under_a_test_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(13);
    let sizes = [1, 2, 16, 17, 1000, 2048, 4096, 4097];
    for (i, n) in sizes.into_iter().enumerate() {
        let m = [1, 31, 257, 900][i % 4];
        for of_ranges in 0..6 {
            let columns = columns(&mut random, n);
            let columns = &columns[(i + of_ranges) % 3..];
            let kinds = ((i + of_ranges) % 6, of_ranges);
            let columns: Vec<_> = columns.iter().step_by(3).cloned().collect();
            folds_are_the_hosts((&host, &gpu), &mut random, (n, m), kinds, &columns);
        }
    }
}

/// Nodes that are longer than a tile, of many tiles.
#[test]
fn folds_over_long_ranges_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(14);
    let (n, m) = (20_001, 700);
    let columns = columns(&mut random, n);
    for (of_ranges, columns) in [(0, &columns[..3]), (1, &columns[3..5]), (5, &columns[5..7])] {
        folds_are_the_hosts((&host, &gpu), &mut random, (n, m), (0, of_ranges), columns);
    }
}

/// More tiles than one block adds up at a time: 2048 of 2048 values.
#[test]
#[ignore = "takes minutes on an emulated GPU"]
fn folds_over_very_long_ranges_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(15);
    let (n, m) = (9_000_001, 20_000);
    let values = random.words(n, 0).into_iter().map(|w| w as i64);
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    let (keys, words) = (random.words(n, 0), random.words(m, 0));
    let ranges = ranges_like(&mut random, 5, n, m);
    let searched = Searched::of(&host, &gpu, keys, words, ranges);
    let op = Comparison::GtEq;
    let (of_host, of_gpu) = ([test(&searched.host, op)], [test(&searched.gpu, op)]);
    let of_host = matches(&searched.host, &of_host);
    let of_gpu = matches(&searched.gpu, &of_gpu);
    let (columns, folds) = (&[column][..], &[RangeFold::Sum, RangeFold::Max][..]);
    same_folds_of_matches(
        (&host, &gpu),
        (of_host, of_gpu),
        (columns, folds),
        m,
        "long",
    );
}

/// Floats and extremes over covers are folds under a test.
#[test]
fn folds_over_covers_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(16);
    for (i, (n, m)) in [(1, 1), (5, 900), (900, 5), (5000, 4000)]
        .into_iter()
        .enumerate()
    {
        for of_ranges in 0..6 {
            let (keys, words) = (random.words(n, 0), random.words(m, 0));
            let ranges = ranges_like(&mut random, of_ranges, n, m);
            let searched = Searched::of(&host, &gpu, keys, words, ranges);
            let columns = columns(&mut random, m);
            for array in columns.iter().skip((i + of_ranges) % 2).step_by(2) {
                let column = host.upload(from_ref(array)).unwrap();
                let column_on_gpu = gpu.upload(from_ref(array)).unwrap();
                for fold in FOLDS {
                    if fold == RangeFold::Sum && !is_summed(array) {
                        continue;
                    }
                    let of_host = host
                        .fold_covers(fold, &column, matches(&searched.host, &[]), n)
                        .unwrap();
                    let of_gpu = gpu
                        .fold_covers(fold, &column_on_gpu, matches(&searched.gpu, &[]), n)
                        .unwrap();
                    assert_eq!(
                        of_host.on_host().unwrap(),
                        &gpu.download(&of_gpu).unwrap(),
                        "{n} x {m}, ranges {of_ranges}, {fold:?} of {}",
                        array.data_type()
                    );
                }
            }
        }
    }
}

/// A cancelled fold ends, and one without rows is of no value.
#[test]
fn folds_of_nothing_have_no_value() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let column = gpu.upload(from_ref(&values)).unwrap();
    let searched = Searched::of(&host, &gpu, vec![1, 2, 3], vec![], (vec![], vec![]));
    assert_eq!(searched.gpu.2.rows(), 0);
    let tests = [test(&searched.gpu, Comparison::Lt)];
    for fold in FOLDS {
        let folded = gpu
            .fold_tested(fold, &column, matches(&searched.gpu, &tests), 4)
            .unwrap();
        let folded = gpu.download(&folded).unwrap();
        assert_eq!(folded.len(), 4);
        match fold {
            RangeFold::Count => assert_eq!(folded.as_primitive::<Int64Type>().values(), &[0; 4]),
            _ => assert_eq!(folded.null_count(), 4),
        }
    }
}
