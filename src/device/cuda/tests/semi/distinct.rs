//! Distinct values of ascending columns, found by runs.

use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal64Array, Int32Array, Int64Array,
    TimestampMillisecondArray, UInt32Array, UInt64Array,
};

use crate::device::cuda::codegen::filter::distinct;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::tests::{Random, reference_and_gpu};
use crate::device::primitives::aggregate::AggregatePrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::strategies::{GroupStrategy, Grouping};

/// Ascending numbers from 0 as values of a type, from its least values to great ones.
fn column(kind: usize, numbers: &[u32]) -> ArrayRef {
    // The first third is negative if the type has a sign.
    let middle = numbers[numbers.len() / 3];
    let narrow = numbers.iter().map(|n| n.wrapping_sub(middle) as i32);
    let wide = numbers
        .iter()
        .map(|n| (i64::from(*n) - i64::from(middle)) << 20);
    let above = |n: &u32| u64::MAX - (u64::from(u32::MAX - *n) << 10);
    match kind {
        0 => Arc::new(Int32Array::from_iter_values(narrow)),
        1 => Arc::new(UInt32Array::from_iter_values(
            numbers.iter().map(|n| n + (1 << 31)),
        )),
        2 => Arc::new(Int64Array::from_iter_values(wide)),
        3 => Arc::new(UInt64Array::from_iter_values(numbers.iter().map(above))),
        4 => Arc::new(Date32Array::from_iter_values(narrow)),
        5 => Arc::new(TimestampMillisecondArray::from_iter_values(wide)),
        _ => Arc::new(Decimal64Array::from_iter_values(wide)),
    }
}

/// The distinct values of a column; `None` if the device does not find them by runs.
fn distinct(gpu: &CudaDevice, array: &ArrayRef) -> Option<ArrayRef> {
    let column = gpu.upload(from_ref(array)).unwrap();
    let made = distinct::distinct_of_ascending(gpu, &column).unwrap();
    let by_runs = made.map(|made| gpu.download(&made).unwrap());
    let aggregated = gpu
        .aggregate(array.len(), &[&column], &[], Grouping::AUTO)
        .unwrap();
    assert_eq!(
        by_runs.is_some(),
        aggregated.by.strategy == Some(GroupStrategy::Sort)
    );
    let keys = gpu.download(&aggregated.keys[0]).unwrap();
    assert_eq!(keys.len(), aggregated.groups);
    match &by_runs {
        Some(by_runs) => assert_eq!(by_runs, &keys),
        // In any order; the reference is a sort of all values.
        None => assert_eq!(&sorted(&keys), &without_repeats(&sorted(array))),
    }
    by_runs
}

fn sorted(array: &ArrayRef) -> ArrayRef {
    arrow::compute::sort(array, None).unwrap()
}

fn without_repeats(array: &ArrayRef) -> ArrayRef {
    let differs = |row: &usize| array.slice(*row, 1) != array.slice(row - 1, 1);
    let firsts = (0..array.len()).filter(|row| *row == 0 || differs(row));
    let firsts: Int64Array = firsts.map(|row| row as i64).collect();
    arrow::compute::take(array, &firsts, None).unwrap()
}

/// Ascending numbers, each repeated at most `most` times.
fn ascending(random: &mut Random, rows: usize, most: u64) -> Vec<u32> {
    let (mut next, mut left) = (0, 0);
    let numbers = (0..rows).map(|_| {
        if left == 0 {
            next += 1 + random.below(3) as u32;
            left = 1 + random.below(most);
        }
        left -= 1;
        next
    });
    numbers.collect()
}

pub(crate) fn check(sizes: &[usize], kinds: &[usize], runs: &[u64]) {
    let Some((_, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.rows_before_compiling = 0;
    let mut random = Random(101);
    for (turn, rows) in sizes.iter().copied().enumerate() {
        for kind in kinds.iter().copied() {
            for run in runs.iter().copied() {
                let what = format!("{rows} rows, type {kind}, runs of {run}");
                let mut numbers = ascending(&mut random, rows, run);
                let found = distinct(&gpu, &column(kind, &numbers)).expect(&what);
                let all = column(kind, &numbers);
                let firsts = (0..rows).filter(|row| *row == 0 || numbers[*row] != numbers[row - 1]);
                let firsts: Int64Array = firsts.map(|row| row as i64).collect();
                let wanted = arrow::compute::take(&all, &firsts, None).unwrap();
                assert_eq!(&found, &wanted, "{what}");

                // One value is less than the previous one, at any position, whether the host checks it or not.
                let from = [64, 128, 512, 2048, 4096, 8192][turn % 6];
                if (from + 1..100_000).contains(&rows) && run == runs[0] {
                    let at = from + random.below((rows - from) as u64) as usize;
                    let at = if turn % 2 == 0 { from } else { at };
                    numbers[at] = numbers[at - 1] - 1;
                    let found = distinct(&gpu, &column(kind, &numbers));
                    assert!(found.is_none(), "{what}, less at {at}");
                }
            }
        }
    }
}

#[test]
fn distinct_values_of_ascending_columns() {
    let sizes = [
        1,
        2,
        31,
        33,
        127,
        129,
        500,
        2047,
        2049,
        8191,
        8192,
        8193,
        50_000,
        3 << 20,
    ];
    check(&sizes, &[0, 1, 2, 3, 4, 5, 6], &[1, 3, 1000, 1 << 30]);
}

#[test]
fn columns_that_are_for_other_ways() {
    let Some((_, mut gpu)) = reference_and_gpu() else {
        return;
    };
    let long: ArrayRef = Arc::new(Int32Array::from_iter_values(0..5000));
    gpu.rows_before_compiling = 5001;
    assert!(distinct(&gpu, &long).is_none(), "few rows");
    gpu.rows_before_compiling = 0;
    assert!(distinct(&gpu, &long).is_some());
    let with_null = Int32Array::from_iter((0..5000).map(|i| (i != 4000).then_some(i)));
    assert!(distinct(&gpu, &(Arc::new(with_null) as ArrayRef)).is_none());
    let descending = Int32Array::from_iter_values((0..5000).rev());
    assert!(distinct(&gpu, &(Arc::new(descending) as ArrayRef)).is_none());
    let floats = arrow::array::Float64Array::from_iter_values((0..5000).map(f64::from));
    assert!(distinct(&gpu, &(Arc::new(floats) as ArrayRef)).is_none());
}
