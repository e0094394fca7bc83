//! Group ids: the reference's partition of the rows. The ids themselves may differ.

use std::collections::HashMap;

use crate::device::cuda::tests::*;
use crate::device::data::structures::GroupDomain;

/// Groups the columns on a device.
fn group(device: &dyn Device, base: &[ArrayRef], null_equal: bool) -> (Buffer<u32>, GroupDomain) {
    let base = upload(device, base);
    let base: Vec<&Column> = base.iter().map(AsRef::as_ref).collect();
    device.group_keys(&base, null_equal).unwrap()
}

fn group_in(device: &dyn Device, domain: &GroupDomain, other: &[ArrayRef]) -> Buffer<u32> {
    let other = upload(device, other);
    let other: Vec<&Column> = other.iter().map(AsRef::as_ref).collect();
    device.group_keys_in(domain, &other).unwrap()
}

/// Groups `base` and looks up the rows of `other`, with NULLs equal and not equal.
pub(crate) fn compare(host: &HostDevice, gpu: &CudaDevice, base: &[ArrayRef], other: &[ArrayRef]) {
    for null_equal in [false, true] {
        let types: Vec<_> = base.iter().map(|array| array.data_type()).collect();
        let what = format!("{types:?} of {} rows, {null_equal}", base[0].len());
        let (ids, domain) = group(host, base, null_equal);
        let (ids_on_gpu, domain_on_gpu) = group(gpu, base, null_equal);
        assert_eq!(domain.groups, domain_on_gpu.groups, "{what}");

        let mut there_of = HashMap::from([(NO_GROUP, NO_GROUP)]);
        let ids_on_gpu = down(&ids_on_gpu);
        assert_eq!(ids.len(), ids_on_gpu.len(), "{what}");
        for (row, (of_host, of_gpu)) in ids
            .on_host()
            .unwrap()
            .iter()
            .zip(ids_on_gpu.iter())
            .enumerate()
        {
            assert!(
                *of_host == NO_GROUP || *of_gpu < domain.groups,
                "{what}: row {row}"
            );
            assert_eq!(
                there_of.entry(*of_host).or_insert(*of_gpu),
                of_gpu,
                "{what}: row {row}"
            );
        }
        // There is one id for each group, and no other: ids are dense.
        let mut numbers: Vec<u32> = there_of.values().copied().collect();
        numbers.sort();
        numbers.dedup();
        assert_eq!(numbers.len(), domain.groups as usize + 1, "{what}");

        let found = group_in(host, &domain, other);
        let found_on_gpu = down(&group_in(gpu, &domain_on_gpu, other));
        assert_eq!(found.len(), found_on_gpu.len(), "{what}");
        for (row, (of_host, of_gpu)) in found
            .on_host()
            .unwrap()
            .iter()
            .zip(found_on_gpu.iter())
            .enumerate()
        {
            assert_eq!(
                there_of[of_host], *of_gpu,
                "{what}: row {row} of the other side"
            );
        }
    }
}

#[test]
fn one_column_of_every_type() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(8);
    for (i, n) in [0, 1, 2, 31, 32, 33, 255, 257, 1025, 8191, 8193, 20_000]
        .into_iter()
        .enumerate()
    {
        for kind in [i, i + 1, 5] {
            let base = columns(&mut random, n, kind);
            // Mostly values of the base, if these are few; NULLs where the base has none, and vice versa.
            let other = columns(&mut random, n / 2 + 3, if kind == 4 { 4 } else { 5 });
            for (base, other) in base.into_iter().zip(other) {
                let (part, of_other) = (base.slice(n / 3, n / 5), other.slice(1, n / 4));
                compare(&host, &gpu, &[part], &[of_other]);
                compare(&host, &gpu, &[base], &[other]);
            }
        }
    }
}

#[test]
fn several_columns() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(9);
    for n in [1, 33, 1000, 8192, 65_537] {
        for (first, second) in [(5, 5), (4, 2), (0, 5), (3, 4)] {
            let base = (
                columns(&mut random, n, first),
                columns(&mut random, n, second),
            );
            let m = n / 2 + 1;
            let other = (
                columns(&mut random, m, first),
                columns(&mut random, m, second),
            );
            let count = base.0.len();
            for _ in 0..6 {
                let pick: Vec<usize> = (0..4)
                    .map(|_| random.below(count as u64) as usize)
                    .collect();
                let of = |side: &(Vec<ArrayRef>, Vec<ArrayRef>)| -> Vec<ArrayRef> {
                    [&side.0, &side.1, &side.0, &side.1]
                        .iter()
                        .zip(&pick)
                        .map(|(columns, i)| Arc::clone(&columns[*i]))
                        .collect()
                };
                let (base, other) = (of(&base), of(&other));
                for columns in 2..=4 {
                    compare(&host, &gpu, &base[..columns], &other[..columns]);
                }
            }
        }
    }
}

/// Tuples that agree in their first words for most rows, so that later words decide searches.
#[test]
fn tuples_whose_first_words_are_few() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(10);
    for n in [5_000, 200_000] {
        let side = |random: &mut Random, n: usize| {
            vec![
                u64_column(random.words(n, 4), None),
                u64_column(random.words(n, 2), None),
                u64_column(random.words(n, 4), random.nulls(n, 2)),
            ]
        };
        let (base, other) = (side(&mut random, n), side(&mut random, n + n / 3));
        for columns in 1..=3 {
            compare(&host, &gpu, &base[..columns], &other[..columns]);
        }
    }
}

#[test]
fn zeros_nans_and_nulls() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let values = [
        Some(0.0),
        Some(-0.0),
        None,
        Some(f64::NAN),
        Some(-f64::NAN),
        Some(f64::from_bits(f64::NAN.to_bits() | 1)),
        Some(f64::INFINITY),
        Some(f64::NEG_INFINITY),
        Some(f64::from_bits(1)),
        Some(1.5),
    ];
    let repeated = |times: usize| values.iter().copied().cycle().take(values.len() * times);
    let doubles = |times| Arc::new(Float64Array::from_iter(repeated(times))) as ArrayRef;
    let singles = |times| {
        let values = repeated(times).map(|value| value.map(|value| value as f32));
        Arc::new(Float32Array::from_iter(values)) as ArrayRef
    };
    let halves = |times| {
        let values = repeated(times).map(|value| value.map(half::f16::from_f64));
        Arc::new(Float16Array::from_iter(values)) as ArrayRef
    };
    for times in [1, 7] {
        for make in [&doubles as &dyn Fn(usize) -> ArrayRef, &singles, &halves] {
            compare(&host, &gpu, &[make(times)], &[make(2).slice(3, 12)]);
            let (base, other) = ([make(times), doubles(times)], [make(1), doubles(1)]);
            compare(&host, &gpu, &base, &other);
        }
        let no_nulls = Arc::new(Float64Array::from(vec![0.0; 10 * times])) as ArrayRef;
        compare(&host, &gpu, &[Arc::clone(&no_nulls)], &[doubles(1)]);
        compare(&host, &gpu, &[doubles(times)], &[no_nulls]);
    }
}

/// Numbers that fit 64 or 128 bits, and their neighbours.
#[test]
fn wide_numbers_that_are_narrow() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let edges = |n: usize| {
        (0..n as i128).map(|i| {
            let near = [
                0,
                i128::from(i64::MAX),
                i128::from(i64::MIN),
                1 << 64,
                -1 << 64,
            ];
            near[i as usize % 5] + i / 5 % 7 - 3
        })
    };
    for n in [1, 5, 64, 3000] {
        let narrow: ArrayRef = Arc::new(Decimal128Array::from_iter_values(edges(n)));
        let wide: ArrayRef =
            Arc::new(Decimal256Array::from_iter_values(edges(n).map(|v| {
                arrow::datatypes::i256::from_i128(v).wrapping_mul(v.into())
            })));
        let other: ArrayRef = Arc::new(Decimal128Array::from_iter_values(edges(n + 9)));
        let wide_other = wide.slice(n / 2, n - n / 2);
        compare(&host, &gpu, &[Arc::clone(&narrow)], &[Arc::clone(&other)]);
        compare(
            &host,
            &gpu,
            &[Arc::clone(&wide)],
            &[Arc::clone(&wide_other)],
        );
        let narrow_other = other.slice(0, wide_other.len());
        compare(&host, &gpu, &[narrow, wide], &[narrow_other, wide_other]);
    }
}

#[test]
fn dictionaries_of_numbers_and_of_text() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let numbers = Int64Array::from(vec![Some(7), None, Some(-1), Some(7)]);
    let text = StringArray::from(vec![Some("a"), Some("b"), None, Some("a")]);
    let keys = |random: &mut Random, n: usize| {
        Int32Array::new(
            (0..n)
                .map(|_| random.below(4) as i32)
                .collect::<Vec<_>>()
                .into(),
            random.nulls(n, 2),
        )
    };
    let mut random = Random(12);
    let mut side = |n: usize| -> Vec<ArrayRef> {
        let of_numbers = DictionaryArray::new(keys(&mut random, n), Arc::new(numbers.clone()));
        let of_text = DictionaryArray::new(keys(&mut random, n), Arc::new(text.clone()));
        let plain = u64_column(random.words(n, 5), random.nulls(n, 2));
        vec![Arc::new(of_numbers), Arc::new(of_text), plain]
    };
    let (base, other) = (side(500), side(300));
    for columns in [0..1, 1..2, 0..2, 1..3, 0..3] {
        compare(&host, &gpu, &base[columns.clone()], &other[columns]);
    }
}

#[test]
fn a_refused_lease_of_groups_is_out_of_memory_and_leaves_none() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let array = u64_column((0..100_000).collect(), None);
    for limit in [900_000, 1_700_000, 2_600_000, 4_000_000] {
        let budget = Budget::new(limit);
        let tight = gpu.attach(Arc::clone(&budget), Arc::default()).unwrap();
        let column = tight.upload(from_ref(&array)).unwrap();
        let error = tight.group_keys(&[&column], false).unwrap_err();
        assert!(error.is_divisible(), "{limit}: {error}");
        drop(column);
        assert_eq!(budget.in_use(), 0, "{limit}");
    }
}
