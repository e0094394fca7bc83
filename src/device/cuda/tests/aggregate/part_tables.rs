//! Tables of partitions (PGB), against the reference: few and many groups of a partition, columns that move and others, and keys that were made to share
//! a partition.

use crate::device::cuda::tests::aggregate::fold::{same_aggregates, same_by};
use crate::device::cuda::tests::*;
use crate::ir::fold::Fold;
use crate::ir::strategies::{GroupStrategy, Grouping, Materialization};

const PARTITION: [Option<GroupStrategy>; 1] = [Some(GroupStrategy::Partition)];

/// Keys without pattern, so that they have no ids by direct address; of 32 bits or of 64, with the keys at the ends of their range.
fn scattered(random: &mut Random, n: usize, groups: u64, wide: bool) -> ArrayRef {
    let keys = (0..n).map(|_| match random.below(groups) {
        0 => 0,
        1 => u64::MAX,
        group => (group << 1 | 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    });
    match wide {
        true => u64_column(keys.collect(), None),
        false => Arc::new(UInt32Array::from_iter_values(
            keys.map(|key| (key >> 32) as u32),
        )),
    }
}

/// Columns that move with the keys, or one that does not.
fn values(random: &mut Random, n: usize, moves: bool) -> Vec<ArrayRef> {
    let words = random.words(n, 0);
    let shorts = words.iter().map(|w| *w as i16);
    let longs = words.iter().map(|w| *w as i64);
    let wide: Vec<i128> = words.iter().map(|w| i128::from(*w) << 30).collect();
    let wide = Decimal128Array::from(wide).with_precision_and_scale(38, 3);
    let ints = words.iter().map(|w| *w as i32);
    let floats = words.iter().map(|w| (*w % 4000) as f64 / 4.0);
    let moving: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(longs)),
        Arc::new(wide.unwrap()),
        Arc::new(Int32Array::from_iter_values(ints)),
        Arc::new(Float64Array::from_iter_values(floats)),
    ];
    match moves {
        true => moving,
        false => vec![
            Arc::new(Int64Array::new(
                words.iter().map(|w| *w as i64).collect(),
                random.nulls(n, 2),
            )),
            Arc::new(Int16Array::from_iter_values(shorts)),
        ],
    }
}

/// As many folds as one launch takes.
fn folds(values: &[ArrayRef]) -> Vec<(Fold, Option<&ArrayRef>)> {
    let each = values.iter().flat_map(|array| {
        let folds: &[Fold] = match array.data_type() {
            DataType::Int16 | DataType::Int32 => &[Fold::And, Fold::Xor, Fold::Max],
            DataType::Int64 => &[Fold::Sum, Fold::Or, Fold::Count, Fold::Min],
            _ => &[Fold::Sum, Fold::Count, Fold::Min, Fold::Max],
        };
        folds.iter().map(move |fold| (*fold, Some(array)))
    });
    each.take(15).chain([(Fold::Count, None)]).collect()
}

/// Whether tables of partitions were made.
fn has_tables(gpu: &CudaDevice) -> bool {
    let mut launched = gpu.stream.launched.lock();
    let tables = launched
        .iter()
        .any(|name| name.starts_with("group_part_table"));
    launched.clear();
    tables
}

#[test]
fn tables_of_partitions_group_as_the_host() {
    use Materialization::{Gftr, Gfur};
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(31);
    for (turn, (n, groups)) in [
        (40_000, 130),
        (40_000, 3000),
        (60_000, 50_000),
        // As many groups as rows: more than a block has accumulators for.
        (30_011, 1 << 40),
        (300, 200),
    ]
    .into_iter()
    .enumerate()
    {
        for wide in [false, true] {
            let keys = scattered(&mut random, n, groups, wide);
            let values = values(&mut random, n, (turn + usize::from(wide)) % 2 == 0);
            let (all, one) = (folds(&values), folds(&values[..1]));
            let sums = [(Fold::Sum, Some(&values[0])), (Fold::Count, None)];
            let more = vec![(Fold::Sum, Some(&values[0])); 17];
            for (folds, by_tables) in [
                (&all[..], true),
                (&one, true),
                (&sums, true),
                (&[], true),
                // A launch does not take as many.
                (&more, false),
            ] {
                let count = folds.len();
                let what = format!("{n} rows, {groups} groups, wide {wide}, {count} folds");
                for materialization in [None, Some(Gftr), Some(Gfur)] {
                    let wanted = Grouping {
                        strategy: PARTITION[0],
                        materialization,
                    };
                    has_tables(&gpu);
                    same_by(&host, &gpu, n, &[&keys], folds, &[wanted], &what);
                    assert_eq!(has_tables(&gpu), by_tables, "{what}, {wanted:?}");
                }
            }
        }
    }
}

/// Two columns in one word.
#[test]
fn packed_keys_have_tables_too() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(32);
    let n = 50_000;
    let numbers = |random: &mut Random, below: u64| -> ArrayRef {
        let values = (0..n).map(|_| random.below(below) as i64 * 1_000_003 - 7);
        Arc::new(Int64Array::from_iter_values(values))
    };
    let (a, b) = (numbers(&mut random, 300), numbers(&mut random, 50));
    let values = values(&mut random, n, true);
    let folds = folds(&values[..1]);
    has_tables(&gpu);
    same_aggregates(&host, &gpu, n, &[&a, &b], &folds, &PARTITION, "two columns");
    assert!(has_tables(&gpu));
}

/// `unmix` of `kernels/equi/equi_hash.cuh`.
fn unmixed(mut mixed: u64) -> u64 {
    for _ in 0..2 {
        mixed = (mixed ^ mixed >> 32).wrapping_mul(0xCFEE_444D_8B59_A89B);
    }
    mixed ^ mixed >> 32
}

/// All keys are in one partition, and their slots are neighbours: the table is full, and another way is taken.
#[test]
fn keys_that_were_made_for_one_partition_are_grouped() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let n = 100_000u64;
    let keys = u64_column((0..n).map(|i| unmixed(i % 50_000)).collect(), None);
    let counts = [(Fold::Count, None)];
    same_aggregates(
        &host,
        &gpu,
        n as usize,
        &[&keys],
        &counts,
        &PARTITION,
        "made",
    );
}
