//! Every primitive beside its twin: the same words, bit by bit. They need a GPU; without one they say so and pass, unless
//! BOWTIE_REQUIRE_CUDA is set.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::*;

use super::CudaDevice;
use crate::device::buffer::{Bits, Buffer, Column, Keys, Sorted};
use crate::device::host::HostDevice;
use crate::device::{Bound, Budget, Device, Matches, NO_GROUP, Test};
use crate::spec::Comparison;

const OPS: [Comparison; 6] = [
    Comparison::Lt,
    Comparison::LtEq,
    Comparison::Gt,
    Comparison::GtEq,
    Comparison::Eq,
    Comparison::NotEq,
];

/// Around the sizes at which kernels change what they do.
const SIZES: [usize; 14] = [
    0, 1, 2, 31, 32, 33, 255, 257, 1000, 1023, 1025, 8193, 65_537, 300_001,
];

/// The host and the GPU; `None` where there is none.
fn twins() -> Option<(HostDevice, CudaDevice)> {
    let host = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    match CudaDevice::open(0, None) {
        Ok(gpu) => Some((host, gpu)),
        Err(reason) if std::env::var_os("BOWTIE_REQUIRE_CUDA").is_some() => {
            panic!("BOWTIE_REQUIRE_CUDA is set, but {reason}")
        }
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}

/// A small generator, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// Words that are hard in one way or another.
    fn words(&mut self, n: usize, kind: usize) -> Vec<u64> {
        (0..n as u64)
            .map(|i| match kind % 6 {
                0 => self.next(),
                1 => 7,
                2 => i,
                3 => n as u64 - i,
                4 => [0, u64::MAX, 1 << 63, (1 << 63) - 1][self.below(4) as usize],
                _ => self.below(n as u64 / 10 + 2) << 20,
            })
            .collect()
    }

    /// Validity: none, all NULL, one in seven.
    fn nulls(&mut self, n: usize, kind: usize) -> Option<NullBuffer> {
        match kind % 3 {
            0 => None,
            1 => Some(NullBuffer::new_null(n)),
            _ => Some(NullBuffer::new(BooleanBuffer::collect_bool(n, |_| {
                self.below(7) != 0
            }))),
        }
    }

    fn rows(&mut self, n: usize, below: usize) -> Vec<u32> {
        (0..n).map(|_| self.below(below as u64) as u32).collect()
    }
}

fn on_gpu(gpu: &CudaDevice, words: &[u32]) -> Buffer<u32> {
    let host = Buffer::host(words.to_vec(), gpu.twin.budget().lease(0, "test").unwrap());
    gpu.words_from_host(&host, "test").unwrap()
}

fn on_host(host: &HostDevice, words: &[u32]) -> Buffer<u32> {
    Buffer::host(words.to_vec(), host.budget().lease(0, "test").unwrap())
}

fn down<T: ArrowNativeType>(gpu: &CudaDevice, words: &Buffer<T>) -> ScalarBuffer<T> {
    gpu.words_to_host(words).unwrap()
}

/// Keys of a column on both devices.
fn keys_of(host: &HostDevice, gpu: &CudaDevice, array: &ArrayRef) -> (Keys, Keys) {
    let (here, _) = host.order_keys(&host.upload(array).unwrap()).unwrap();
    let (there, _) = gpu.order_keys(&gpu.upload(array).unwrap()).unwrap();
    (here, there)
}

fn u64_column(words: Vec<u64>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(UInt64Array::new(words.into(), nulls))
}

fn same_keys(gpu: &CudaDevice, here: &Keys, there: &Keys, what: &str) {
    let valid: Option<BooleanBuffer> = here.valid.as_ref().map(|bits| bits.on_host().clone());
    let theirs =
        there
            .valid
            .as_ref()
            .map(|bits| match gpu.bits_to_host(bits, there.rows()).unwrap() {
                Bits::Host(bits) => bits,
                Bits::Cuda(_) => unreachable!(),
            });
    let all = BooleanBuffer::new_set(here.rows());
    assert_eq!(
        valid.as_ref().unwrap_or(&all),
        theirs.as_ref().unwrap_or(&all),
        "{what}"
    );
    let words = down(gpu, &there.values);
    for row in valid.as_ref().unwrap_or(&all).set_indices() {
        assert_eq!(here.values.on_host()[row], words[row], "{what}: row {row}");
    }
}

fn same_sorted(gpu: &CudaDevice, here: &Sorted, there: &Sorted, what: &str) {
    assert_eq!(here.rows.on_host(), &down(gpu, &there.rows), "{what}: rows");
    match (&here.keys, &there.keys) {
        (Some(here), Some(there)) => assert_eq!(here.on_host(), &down(gpu, there), "{what}: keys"),
        (None, None) => {}
        _ => panic!("{what}: keys on one device only"),
    }
    match (&here.segments, &there.segments) {
        (Some(here), Some(there)) => {
            assert_eq!(here.on_host(), &down(gpu, there), "{what}: segments");
        }
        (None, None) => {}
        _ => panic!("{what}: segments on one device only"),
    }
}

/// Columns of every type that lies on the GPU, and some that do not.
fn columns(random: &mut Random, n: usize, kind: usize) -> Vec<ArrayRef> {
    let words = random.words(n, kind);
    let nulls = random.nulls(n, kind);
    macro_rules! primitive {
        ($t:ty, $value:expr) => {
            Arc::new(PrimitiveArray::<$t>::new(
                words.iter().map(|w| $value(*w)).collect::<Vec<_>>().into(),
                nulls.clone(),
            )) as ArrayRef
        };
    }
    vec![
        primitive!(Int8Type, |w| w as i8),
        primitive!(Int16Type, |w| w as i16),
        primitive!(Int32Type, |w| w as i32),
        primitive!(Int64Type, |w| w as i64),
        primitive!(UInt8Type, |w| w as u8),
        primitive!(UInt16Type, |w| w as u16),
        primitive!(UInt32Type, |w| w as u32),
        primitive!(UInt64Type, |w| w),
        primitive!(Float16Type, |w| half::f16::from_bits(w as u16)),
        primitive!(Float32Type, |w| f32::from_bits(w as u32)),
        primitive!(Float64Type, f64::from_bits),
        primitive!(Decimal32Type, |w| w as i32),
        primitive!(Decimal64Type, |w| w as i64),
        primitive!(Decimal128Type, |w| i128::from(w as i64)),
        primitive!(Decimal256Type, |w| arrow::datatypes::i256::from_i128(
            i128::from(w as i64)
        )),
        primitive!(Date32Type, |w| w as i32),
        primitive!(Date64Type, |w| w as i64),
        primitive!(Time32SecondType, |w| w as i32),
        primitive!(Time64NanosecondType, |w| w as i64),
        primitive!(TimestampMicrosecondType, |w| w as i64),
        primitive!(DurationMillisecondType, |w| w as i64),
        primitive!(IntervalYearMonthType, |w| w as i32),
        primitive!(IntervalDayTimeType, |w| IntervalDayTime::new(
            w as i32,
            (w >> 32) as i32
        )),
        Arc::new(BooleanArray::new(
            BooleanBuffer::collect_bool(n, |i| words[i] & 1 != 0),
            nulls.clone(),
        )),
        Arc::new(
            (0..n)
                .map(|i| {
                    nulls
                        .as_ref()
                        .is_none_or(|nulls| nulls.is_valid(i))
                        .then(|| format!("{:x}", words[i] % 997))
                })
                .collect::<StringArray>(),
        ),
    ]
}

#[test]
fn columns_cross_the_border_and_are_gathered() {
    let Some((_, gpu)) = twins() else { return };
    let mut random = Random(1);
    for (kind, n) in SIZES.into_iter().chain([5_000_000]).enumerate() {
        for array in columns(&mut random, n, kind) {
            if n > 1_000_000 && array.len() * 8 > 1 << 27 {
                continue;
            }
            for array in [Arc::clone(&array), array.slice(n / 3, n - n / 3)] {
                let column = gpu.upload(&array).unwrap();
                assert_eq!(&gpu.download(&column).unwrap(), &array);
                let count = if array.is_empty() { 0 } else { n.min(70_000) };
                let rows = random.rows(count, array.len());
                let gathered = gpu.gather(&column, &on_gpu(&gpu, &rows)).unwrap();
                let expected = take(&array, &UInt32Array::from(rows), None).unwrap();
                assert_eq!(
                    &gpu.download(&gathered).unwrap(),
                    &expected,
                    "{} of {n}",
                    array.data_type()
                );
            }
        }
    }
}

#[test]
fn order_keys_are_the_twins() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(2);
    for (kind, n) in SIZES.into_iter().enumerate() {
        for array in columns(&mut random, n, kind + 2) {
            for array in [Arc::clone(&array), array.slice(n / 3, n / 5)] {
                let (here, there) = keys_of(&host, &gpu, &array);
                let what = format!("{} of {n}", array.data_type());
                same_keys(&gpu, &here, &there, &what);
                // Rows with a NULL are left out of every sort, and none is made up.
                let rows = array.len();
                let here = host.sort(rows, None, None, &[&here]).unwrap();
                let there = gpu.sort(rows, None, None, &[&there]).unwrap();
                same_sorted(&gpu, &here, &there, &what);
            }
        }
    }
}

#[test]
fn keys_of_another_column_in_a_domain() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(3);
    for n in [0, 1, 33, 5000] {
        for kind in [0, 3, 5] {
            let (base, other) = (
                columns(&mut random, n, kind),
                columns(&mut random, n / 2, 3),
            );
            for (base, other) in base.iter().zip(&other) {
                let (_, here) = host.order_keys(&host.upload(base).unwrap()).unwrap();
                let (_, there) = gpu.order_keys(&gpu.upload(base).unwrap()).unwrap();
                let here = host
                    .order_keys_in(&here, &host.upload(other).unwrap())
                    .unwrap();
                let there = gpu
                    .order_keys_in(&there, &gpu.upload(other).unwrap())
                    .unwrap();
                same_keys(&gpu, &here, &there, &base.data_type().to_string());
            }
        }
    }
}

/// Group ids below `groups`, one in nine of them none.
fn group_ids(random: &mut Random, n: usize, groups: u32) -> Vec<u32> {
    (0..n)
        .map(|_| match random.below(9) {
            0 => NO_GROUP,
            _ => random.below(u64::from(groups)) as u32,
        })
        .collect()
}

#[test]
fn sorting_is_the_twins() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(4);
    for n in SIZES.into_iter().chain([3_000_000]) {
        for kind in 0..6 {
            if n > 1_000_000 && kind % 3 != 0 {
                continue;
            }
            let array = u64_column(random.words(n, kind), random.nulls(n, kind));
            let (key, key_there) = keys_of(&host, &gpu, &array);
            let second = u64_column(random.words(n, 0), random.nulls(n, kind + 1));
            let (not_null, not_null_there) = keys_of(&host, &gpu, &second);
            for groups in [None, Some(1), Some(300), Some(70_000)] {
                let ids = groups.map(|groups| group_ids(&mut random, n, groups));
                let here_ids = ids.as_ref().map(|ids| on_host(&host, ids));
                let there_ids = ids.as_ref().map(|ids| on_gpu(&gpu, ids));
                for (with_key, with_other) in
                    [(true, false), (true, true), (false, true), (false, false)]
                {
                    let here = host
                        .sort(
                            n,
                            with_key.then_some(&key),
                            here_ids.as_ref().zip(groups),
                            &if with_other { vec![&not_null] } else { vec![] },
                        )
                        .unwrap();
                    let there = gpu
                        .sort(
                            n,
                            with_key.then_some(&key_there),
                            there_ids.as_ref().zip(groups),
                            &if with_other {
                                vec![&not_null_there]
                            } else {
                                vec![]
                            },
                        )
                        .unwrap();
                    let what = format!(
                        "{n} rows, kind {kind}, {groups:?} groups, {with_key} {with_other}"
                    );
                    same_sorted(&gpu, &here, &there, &what);
                }
            }
        }
    }
}

/// Two sides on both devices, ready to be searched.
struct Sides {
    sorted: Sorted,
    sorted_there: Sorted,
    searching: Sorted,
    searching_there: Sorted,
    /// Keys of the searching side, by row.
    keys: Keys,
    keys_there: Keys,
    groups: Option<(Buffer<u32>, Buffer<u32>)>,
    rows: usize,
    searching_rows: usize,
}

fn sides(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    (n, m): (usize, usize),
    kind: usize,
    groups: Option<u32>,
) -> Sides {
    let base = u64_column(random.words(n, kind), random.nulls(n, kind % 2 * 2));
    let other = u64_column(random.words(m, kind), random.nulls(m, (kind + 1) % 2 * 2));
    let (base, base_there) = keys_of(host, gpu, &base);
    let (keys, keys_there) = keys_of(host, gpu, &other);
    let ids = groups.map(|g| (group_ids(random, n, g), group_ids(random, m, g)));
    let up = |ids: &[u32]| (on_host(host, ids), on_gpu(gpu, ids));
    let ids = ids.map(|(base, other)| (up(&base), up(&other)));
    let base_ids = ids.as_ref().map(|(base, _)| base);
    let other_ids = ids.as_ref().map(|(_, other)| other);
    Sides {
        sorted: host
            .sort(n, Some(&base), base_ids.map(|ids| &ids.0).zip(groups), &[])
            .unwrap(),
        sorted_there: gpu
            .sort(
                n,
                Some(&base_there),
                base_ids.map(|ids| &ids.1).zip(groups),
                &[],
            )
            .unwrap(),
        searching: host
            .sort(m, Some(&keys), other_ids.map(|ids| &ids.0).zip(groups), &[])
            .unwrap(),
        searching_there: gpu
            .sort(
                m,
                Some(&keys_there),
                other_ids.map(|ids| &ids.1).zip(groups),
                &[],
            )
            .unwrap(),
        keys,
        keys_there,
        groups: ids.map(|(_, other)| other),
        rows: n,
        searching_rows: m,
    }
}

#[test]
fn ranges_counts_and_coverage_are_the_twins() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(5);
    for sizes in [
        (0, 5),
        (5, 0),
        (1, 1),
        (33, 31),
        (1000, 257),
        (255, 5000),
        (40_001, 33_537),
        (300_000, 10),
    ] {
        for kind in 0..6 {
            for groups in [None, Some(40)] {
                let sides = sides(&host, &gpu, &mut random, sizes, kind, groups);
                for ops in [
                    &OPS[..1],
                    &OPS[1..2],
                    &OPS[2..3],
                    &OPS[3..4],
                    &OPS[4..5],
                    &[Comparison::GtEq, Comparison::Lt],
                ] {
                    let what = format!("{sizes:?}, kind {kind}, {groups:?} groups, {ops:?}");
                    let bounds = |searching| {
                        ops.iter()
                            .map(|op| Bound { op: *op, searching })
                            .collect::<Vec<_>>()
                    };
                    let here = host
                        .range_bounds(
                            &sides.sorted,
                            &sides.searching,
                            &bounds(&sides.keys),
                            sides.groups.as_ref().map(|ids| &ids.0),
                        )
                        .unwrap();
                    let there = gpu
                        .range_bounds(
                            &sides.sorted_there,
                            &sides.searching_there,
                            &bounds(&sides.keys_there),
                            sides.groups.as_ref().map(|ids| &ids.1),
                        )
                        .unwrap();
                    assert_eq!(here.lo.on_host(), &down(&gpu, &there.lo), "{what}: lo");
                    assert_eq!(here.hi.on_host(), &down(&gpu, &there.hi), "{what}: hi");
                    let cover = host.cover(&sides.sorted, &here, sides.rows).unwrap();
                    let cover_there = gpu.cover(&sides.sorted_there, &there, sides.rows).unwrap();
                    assert_eq!(cover.on_host(), &down(&gpu, &cover_there), "{what}: cover");
                    for exists_only in [true, false] {
                        let matches = Matches {
                            sorted: &sides.sorted,
                            searching: &sides.searching,
                            ranges: &here,
                            tests: &[],
                        };
                        let matches_there = Matches {
                            sorted: &sides.sorted_there,
                            searching: &sides.searching_there,
                            ranges: &there,
                            tests: &[],
                        };
                        let counts = host.count_matches(matches, exists_only).unwrap();
                        let counts_there = gpu.count_matches(matches_there, exists_only).unwrap();
                        assert_eq!(
                            counts.on_host(),
                            &down(&gpu, &counts_there),
                            "{what}: counts"
                        );
                        let by_row = host
                            .row_counts(&sides.searching, &counts, sides.searching_rows)
                            .unwrap();
                        let by_row_there = gpu
                            .row_counts(&sides.searching_there, &counts_there, sides.searching_rows)
                            .unwrap();
                        assert_eq!(
                            by_row.on_host(),
                            &down(&gpu, &by_row_there),
                            "{what}: by row"
                        );
                        if !exists_only {
                            same_pairs(&host, &gpu, matches, matches_there, &mut random, &what);
                        }
                        if !exists_only && kind % 5 == 0 && ops[0] != Comparison::GtEq {
                            same_folds(
                                &host,
                                &gpu,
                                &sides,
                                matches,
                                matches_there,
                                &mut random,
                                &what,
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Offsets, pieces and pairs.
fn same_pairs(
    host: &HostDevice,
    gpu: &CudaDevice,
    here: Matches<'_>,
    there: Matches<'_>,
    random: &mut Random,
    what: &str,
) {
    let counts = host.count_matches(here, false).unwrap();
    let counts_there = gpu.count_matches(there, false).unwrap();
    assert_eq!(
        counts.on_host(),
        &down(gpu, &counts_there),
        "{what}: counts"
    );
    let offsets = host.scan(&counts).unwrap();
    let offsets_there = gpu.scan(&counts_there).unwrap();
    assert_eq!(
        offsets.on_host(),
        &down(gpu, &offsets_there),
        "{what}: offsets"
    );
    let total = host.total(&offsets).unwrap();
    assert_eq!(total, gpu.total(&offsets_there).unwrap(), "{what}: total");
    let mut windows = vec![(0, total.min(100_000))];
    for _ in 0..3 {
        let from = random.below(total.max(1));
        windows.push((
            from,
            (total - from.min(total)).min(random.below(50_000) + 1),
        ));
    }
    for (from, len) in windows.into_iter().filter(|(_, len)| *len > 0) {
        for (target, most) in [(1, 1), (100, 1000), (8192, 8192)] {
            assert_eq!(
                host.piece_end(&offsets, from, target, most).unwrap(),
                gpu.piece_end(&offsets_there, from, target, most).unwrap(),
                "{what}: end of the piece from {from}, {target}, {most}"
            );
        }
        let pairs = host.expand(here, &offsets, from, len as usize).unwrap();
        let pairs_there = gpu
            .expand(there, &offsets_there, from, len as usize)
            .unwrap();
        assert_eq!(
            pairs.searching.on_host(),
            &down(gpu, &pairs_there.searching),
            "{what}: searching rows of {from}, {len}"
        );
        assert_eq!(
            pairs.sorted.on_host(),
            &down(gpu, &pairs_there.sorted),
            "{what}: sorted rows of {from}, {len}"
        );
    }
}

/// Sums, counts and extremes over ranges, and weighed values.
fn same_folds(
    host: &HostDevice,
    gpu: &CudaDevice,
    sides: &Sides,
    here: Matches<'_>,
    there: Matches<'_>,
    random: &mut Random,
    what: &str,
) {
    let nulls = random.nulls(sides.rows, 2);
    let words = random.words(sides.rows, 0);
    let values: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::new(
            words.iter().map(|w| *w as i64).collect::<Vec<_>>().into(),
            nulls.clone(),
        )),
        Arc::new(Int64Array::from_iter_values(
            words.iter().map(|w| (*w % 100) as i64),
        )),
        Arc::new(UInt64Array::new(words.clone().into(), nulls.clone())),
        Arc::new(
            Decimal128Array::new(
                words
                    .iter()
                    .map(|w| i128::from(*w) << 40)
                    .collect::<Vec<_>>()
                    .into(),
                nulls.clone(),
            )
            .with_precision_and_scale(38, 2)
            .unwrap(),
        ),
        Arc::new(Float64Array::new(
            words
                .iter()
                .map(|w| (*w % 1000) as f64 / 7.0)
                .collect::<Vec<_>>()
                .into(),
            nulls,
        )),
        Arc::new(
            words
                .iter()
                .map(|w| Some(format!("{}", w % 77)))
                .collect::<StringArray>(),
        ),
    ];
    let weights = host.cover(here.sorted, here.ranges, sides.rows).unwrap();
    let weights_there = gpu.cover(there.sorted, there.ranges, sides.rows).unwrap();
    for array in values {
        let column = host.upload(&array).unwrap();
        let column_there = gpu.upload(&array).unwrap();
        let what = format!("{what}: {}", array.data_type());
        let same = |here: Column, there: Column, of: &str| {
            let there = gpu.download(&there).unwrap();
            let floats = here.on_host().as_primitive_opt::<Float64Type>();
            match (floats, there.as_primitive_opt::<Float64Type>()) {
                // The same additions in the same order.
                (Some(here), Some(there)) => assert_eq!(here, there, "{what}: {of}"),
                _ => assert_eq!(here.on_host(), &there, "{what}: {of}"),
            }
        };
        let m = sides.searching_rows;
        same(
            host.range_count(&column, here, m).unwrap(),
            gpu.range_count(&column_there, there, m).unwrap(),
            "range_count",
        );
        for max in [false, true] {
            same(
                host.range_extreme(&column, here, m, max).unwrap(),
                gpu.range_extreme(&column_there, there, m, max).unwrap(),
                "range_extreme",
            );
        }
        same(
            host.weigh_count(Some(&column), &weights).unwrap(),
            gpu.weigh_count(Some(&column_there), &weights_there)
                .unwrap(),
            "weigh_count",
        );
        if array.data_type() != &DataType::Utf8 {
            let sum = host.sum(&column).unwrap();
            let sum_there = gpu.download(&gpu.sum(&column_there).unwrap()).unwrap();
            same_sum(sum.on_host(), &sum_there, &what);
            same(
                host.weigh(&column, &weights).unwrap(),
                gpu.weigh(&column_there, &weights_there).unwrap(),
                "weigh",
            );
            same(
                host.range_sum(&column, here, m).unwrap(),
                gpu.range_sum(&column_there, there, m).unwrap(),
                "range_sum",
            );
        }
    }
}

/// The same, but for the rounding of floats, which are added in another order.
fn same_sum(here: &ArrayRef, there: &ArrayRef, what: &str) {
    let floats = here.as_primitive_opt::<Float64Type>();
    match (floats, there.as_primitive_opt::<Float64Type>()) {
        (Some(here), Some(there)) if here.is_valid(0) && there.is_valid(0) => {
            let (here, there) = (here.value(0), there.value(0));
            let close = (here - there).abs() <= 1e-9 * here.abs().max(1.0);
            assert!(close, "{what}: sum {there} for {here}");
        }
        _ => assert_eq!(here, there, "{what}: sum"),
    }
}

#[test]
fn tested_matches_are_the_twins() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(6);
    for sizes in [
        (1, 1),
        (63, 33),
        (65, 64),
        (1000, 257),
        (4097, 3000),
        (70_001, 5_000),
        (1_000_000, 60),
    ] {
        for kind in [0, 1, 4, 5] {
            for (bound, tests) in [
                (None, vec![Comparison::Lt, Comparison::NotEq]),
                (Some(Comparison::Gt), vec![Comparison::Lt]),
                (
                    Some(Comparison::LtEq),
                    vec![Comparison::GtEq, Comparison::NotEq, Comparison::Lt],
                ),
                (Some(Comparison::GtEq), vec![Comparison::Eq]),
                (Some(Comparison::Lt), OPS.to_vec()),
            ] {
                let groups = (kind == 5).then_some(13);
                let sides = sides(&host, &gpu, &mut random, sizes, kind, groups);
                let what = format!(
                    "{sizes:?}, kind {kind}, {bound:?}, {tests:?}",
                    sizes = (sides.rows, sides.searching_rows)
                );
                let bounds = |searching| {
                    bound
                        .map(|op| Bound { op, searching })
                        .into_iter()
                        .collect::<Vec<_>>()
                };
                let ranges = host
                    .range_bounds(
                        &sides.sorted,
                        &sides.searching,
                        &bounds(&sides.keys),
                        sides.groups.as_ref().map(|g| &g.0),
                    )
                    .unwrap();
                let ranges_there = gpu
                    .range_bounds(
                        &sides.sorted_there,
                        &sides.searching_there,
                        &bounds(&sides.keys_there),
                        sides.groups.as_ref().map(|g| &g.1),
                    )
                    .unwrap();
                // Columns of their own to be tested, with order and without.
                let tested: Vec<_> = tests
                    .iter()
                    .enumerate()
                    .map(|(i, op)| {
                        let left = u64_column(random.words(sides.rows, i + kind), None);
                        let right = u64_column(random.words(sides.searching_rows, i + kind), None);
                        let (left, left_there) = keys_of(&host, &gpu, &left);
                        let (right, right_there) = keys_of(&host, &gpu, &right);
                        (
                            *op,
                            host.zone_keys(&left, &sides.sorted).unwrap(),
                            host.zone_keys(&right, &sides.searching).unwrap(),
                            gpu.zone_keys(&left_there, &sides.sorted_there).unwrap(),
                            gpu.zone_keys(&right_there, &sides.searching_there).unwrap(),
                        )
                    })
                    .collect();
                let here: Vec<Test<'_>> = tested
                    .iter()
                    .map(|(op, sorted, searching, _, _)| Test {
                        op: *op,
                        sorted,
                        searching,
                    })
                    .collect();
                let there: Vec<Test<'_>> = tested
                    .iter()
                    .map(|(op, _, _, sorted, searching)| Test {
                        op: *op,
                        sorted,
                        searching,
                    })
                    .collect();
                let matches = Matches {
                    sorted: &sides.sorted,
                    searching: &sides.searching,
                    ranges: &ranges,
                    tests: &here,
                };
                let matches_there = Matches {
                    sorted: &sides.sorted_there,
                    searching: &sides.searching_there,
                    ranges: &ranges_there,
                    tests: &there,
                };
                let exists = host.count_matches(matches, true).unwrap();
                let exists_there = gpu.count_matches(matches_there, true).unwrap();
                assert_eq!(
                    exists.on_host(),
                    &down(&gpu, &exists_there),
                    "{what}: exists"
                );
                same_pairs(&host, &gpu, matches, matches_there, &mut random, &what);
            }
        }
    }
}

#[test]
fn flags_rows_and_samples_are_the_twins() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(7);
    for n in SIZES.into_iter().filter(|n| *n > 0) {
        let (here, there) = (host.flags(n).unwrap(), gpu.flags(n).unwrap());
        let first = n / 3;
        let rows = random.rows(n / 5, n - first);
        host.set_flags(&here, first, &on_host(&host, &rows))
            .unwrap();
        gpu.set_flags(&there, first, &on_gpu(&gpu, &rows)).unwrap();
        let counts: Vec<u32> = (0..n / 2).map(|_| random.below(3) as u32 / 2).collect();
        host.set_flags_counted(&here, n / 4, &on_host(&host, &counts))
            .unwrap();
        gpu.set_flags_counted(&there, n / 4, &on_gpu(&gpu, &counts))
            .unwrap();
        for (from, len) in [(0, n), (n / 7, n / 2), (n - 1, 1)] {
            for set in [true, false] {
                let rows = host.flagged_rows(&here, from, len, set).unwrap();
                let rows_there = gpu.flagged_rows(&there, from, len, set).unwrap();
                assert_eq!(
                    rows.on_host(),
                    &down(&gpu, &rows_there),
                    "{n}: {from} {len} {set}"
                );
            }
            let column = host.flag_column(&here, from, len).unwrap();
            let column_there = gpu.flag_column(&there, from, len).unwrap();
            assert_eq!(column.on_host(), &gpu.download(&column_there).unwrap());
        }

        let rows = random.rows(n, 1 << 30);
        let keep = BooleanArray::new(
            BooleanBuffer::collect_bool(n, |_| random.below(2) == 0),
            random.nulls(n, n),
        );
        let kept = host.compact(&on_host(&host, &rows), &keep).unwrap();
        let kept_there = gpu.compact(&on_gpu(&gpu, &rows), &keep).unwrap();
        assert_eq!(kept.on_host(), &down(&gpu, &kept_there), "{n} compacted");
        assert_eq!(
            host.sequence(5, n).unwrap().on_host(),
            &down(&gpu, &gpu.sequence(5, n).unwrap())
        );

        let left = u64_column(random.words(n, 0), random.nulls(n, 2));
        let right = u64_column(random.words(n / 2 + 1, 0), None);
        let (left, left_there) = keys_of(&host, &gpu, &left);
        let (right, right_there) = keys_of(&host, &gpu, &right);
        assert_eq!(
            host.sample_selectivity(&[(&left, Comparison::Lt, &right)], 512)
                .unwrap(),
            gpu.sample_selectivity(&[(&left_there, Comparison::Lt, &right_there)], 512)
                .unwrap()
        );
    }
}

#[test]
fn groups_are_the_twins() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(8);
    for n in [0, 1, 33, 5000] {
        let base = columns(&mut random, n, 5);
        let other = columns(&mut random, n, 5);
        for (base, other) in base.iter().zip(&other) {
            let (ids, domain) = host
                .group_keys(&[&host.upload(base).unwrap()], false)
                .unwrap();
            let (ids_there, domain_there) = gpu
                .group_keys(&[&gpu.upload(base).unwrap()], false)
                .unwrap();
            assert_eq!(ids.on_host(), &down(&gpu, &ids_there));
            assert_eq!(domain.groups(), domain_there.groups());
            let ids = host
                .group_keys_in(&domain, &[&host.upload(other).unwrap()])
                .unwrap();
            let ids_there = gpu
                .group_keys_in(&domain_there, &[&gpu.upload(other).unwrap()])
                .unwrap();
            assert_eq!(ids.on_host(), &down(&gpu, &ids_there));
        }
    }
}

#[test]
fn memory_is_leased_refused_and_given_back() {
    let Some((_, _)) = twins() else { return };
    let gpu = CudaDevice::open(0, Some(1 << 20)).unwrap();
    let small: ArrayRef = Arc::new(Int64Array::from(vec![1; 1000]));
    let large: ArrayRef = Arc::new(Int64Array::from(vec![1; 1 << 20]));
    let column = gpu.upload(&small).unwrap();
    assert!(gpu.budget().in_use() >= 8000);
    assert!(gpu.upload(&large).unwrap_err().is_out_of_device_memory());
    drop(column);
    assert_eq!(gpu.budget().in_use(), 0);

    // More than any card has: the driver refuses, and the device goes on.
    let gpu = CudaDevice::open(0, Some(1 << 50)).unwrap();
    let refused = gpu.queue.alloc(1 << 46, "test").unwrap_err();
    assert!(refused.is_out_of_device_memory(), "{refused}");
    assert_eq!(&gpu.download(&gpu.upload(&small).unwrap()).unwrap(), &small);
}
