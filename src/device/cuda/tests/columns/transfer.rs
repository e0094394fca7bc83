//! Transfers of columns, rows and flags, and reservations of memory.

use crate::device::cuda::tests::*;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;

#[test]
fn columns_are_transferred_and_gathered() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(1);
    for (kind, n) in SIZES.into_iter().chain([5_000_000]).enumerate() {
        for array in columns(&mut random, n, kind) {
            if n > 1_000_000 && array.len() * 8 > 1 << 27 {
                continue;
            }
            for array in [Arc::clone(&array), array.slice(n / 3, n - n / 3)] {
                let column = gpu.upload(from_ref(&array)).unwrap();
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
fn a_part_behind_the_end_of_its_memory_is_an_error() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let memory = gpu.stream.alloc(10, "test").unwrap();
    let part = memory.part(4).unwrap();
    let inside = [
        (memory.part(0), 0),
        (memory.part(10), 10),
        (part.after(6), 10),
        (memory.word(1), 4),
    ];
    for (part, at) in inside {
        assert_eq!(part.unwrap().pointer(), memory.pointer() + at);
    }
    // Word 2 begins inside and ends behind the end.
    let outside = [
        memory.part(11),
        memory.part(usize::MAX),
        part.after(7),
        part.after(usize::MAX),
        memory.word(2),
        memory.word(usize::MAX),
    ];
    for part in outside {
        let error = part.unwrap_err().to_string();
        assert!(error.contains("of 10 bytes"), "{error}");
    }
}

/// Values that are hard to cast, and others.
fn numbers(random: &mut Random, n: usize) -> ArrayRef {
    let hard = [0, 1, -1, i64::MAX, i64::MIN, (1 << 53) + 1, -(1 << 53) - 1];
    let values = (0..n).map(|i| match hard.get(i) {
        Some(value) => *value,
        None => random.below(u64::MAX) as i64,
    });
    Arc::new(Int64Array::new(
        values.collect(),
        random.nulls(n, n % 2 * 2),
    ))
}

#[test]
fn narrow_columns_are_cast_on_the_gpu_as_on_the_host() {
    use DataType::*;
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(3);
    let types = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
    let mut casts = 0;
    for n in SIZES.into_iter().chain([100_000]) {
        let words = numbers(&mut random, n);
        let floats: ArrayRef = Arc::new(Float32Array::new(
            (0..n)
                .map(|_| f32::from_bits(random.below(1 << 32) as u32))
                .collect(),
            random.nulls(n, n % 2 * 2),
        ));
        let narrow = types.iter().map(|from| match from {
            Int64 => Arc::clone(&words),
            // All bit patterns, beyond the values of the words.
            from => {
                let width = from.primitive_width().unwrap();
                let bytes = words.to_data().buffers()[0].slice_with_length(0, n * width);
                let data = ArrayData::builder(from.clone()).len(n).add_buffer(bytes);
                make_array(data.nulls(words.nulls().cloned()).build().unwrap())
            }
        });
        for from in narrow.chain([floats]) {
            for wanted in [Int64, UInt64, Float64] {
                if !gpu.widens(from.data_type(), &wanted) {
                    continue;
                }
                casts += 1;
                let parts = [from.slice(0, n / 3), from.slice(n / 3, n - n / 3)];
                let column = gpu.upload_async(&parts, &wanted).unwrap();
                gpu.receive(&column).unwrap();
                let expected = cast(&from, &wanted).unwrap();
                let given = gpu.download(&column).unwrap();
                // Bit by bit: NaN is not equal to itself.
                assert_eq!(
                    bits_of(&given),
                    bits_of(&expected),
                    "{} to {wanted}, {n}",
                    from.data_type()
                );
                // A column that is never received.
                drop(gpu.upload_async(&parts, &wanted).unwrap());
            }
        }
    }
    assert_eq!(casts, (SIZES.len() + 1) * 18);
}

#[test]
fn wide_columns_of_small_values_are_what_was_sent() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(11);
    // Long enough to be uploaded in narrow form, with no value too wide, or with one outside the sample.
    let n = 131_072 + 77;
    for (least, too_wide) in [
        (1i128 << 31, None),
        (1 << 31, Some(n / 2 + 3)),
        (1 << 63, None),
        (1 << 63, Some(n - 2)),
    ] {
        let signed = |random: &mut Random| (random.below(u64::MAX) as i128 - (1 << 63)) >> 1;
        let mut values: Vec<i128> = (0..n).map(|_| signed(&mut random) % least).collect();
        values[..4].copy_from_slice(&[least - 1, -least, 0, -1]);
        if let Some(row) = too_wide {
            values[row] = least;
        }
        let nulls = random.nulls(n, 2);
        let words = values.iter().map(|value| *value as i64).collect();
        let texts = values.iter().map(|value| {
            let text = (value % 1000).unsigned_abs().to_string();
            match *value == least {
                true => format!("{text} is too long for a view of eight bytes"),
                false => text,
            }
        });
        let columns: [ArrayRef; 3] = [
            Arc::new(StringViewArray::from_iter_values(texts)),
            Arc::new(Decimal128Array::new(values.into(), nulls.clone())),
            Arc::new(Int64Array::new(words, nulls)),
        ];
        for column in columns {
            let parts = [column.slice(0, n / 3), column.slice(n / 3, n - n / 3)];
            let of_gpu = gpu.upload_async(&parts, column.data_type()).unwrap();
            gpu.receive(&of_gpu).unwrap();
            assert_eq!(&gpu.download(&of_gpu).unwrap(), &column);
            // A column that is never received.
            drop(gpu.upload_async(&parts, column.data_type()).unwrap());
        }
    }
}

/// Values of 8 bytes as words; `None` for NULL.
fn bits_of(array: &ArrayRef) -> Vec<Option<u64>> {
    let data = array.to_data();
    let words = data.buffers()[0].typed_data::<u64>();
    (0..array.len())
        .map(|i| array.is_valid(i).then(|| words[data.offset() + i]))
        .collect()
}

#[test]
fn flags_rows_and_samples_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(7);
    for n in SIZES.into_iter().filter(|n| *n > 0) {
        let (of_host, of_gpu) = (host.flags(n).unwrap(), gpu.flags(n).unwrap());
        let first = n / 3;
        let rows = random.rows(n / 5, n - first);
        host.set_flags(&of_host, first, &on_host(&host, &rows))
            .unwrap();
        gpu.set_flags(&of_gpu, first, &on_gpu(&gpu, &rows)).unwrap();
        let counts: Vec<u32> = (0..n / 2).map(|_| random.below(3) as u32 / 2).collect();
        host.set_flags_counted(&of_host, n / 4, &on_host(&host, &counts))
            .unwrap();
        gpu.set_flags_counted(&of_gpu, n / 4, &on_gpu(&gpu, &counts))
            .unwrap();
        for (from, len) in [(0, n), (n / 7, n / 2), (n - 1, 1)] {
            for set in [true, false] {
                let rows = host.flagged_rows(&of_host, from, len, set).unwrap();
                let rows_on_gpu = gpu.flagged_rows(&of_gpu, from, len, set).unwrap();
                assert_eq!(
                    rows.on_host().unwrap(),
                    &down(&rows_on_gpu),
                    "{n}: {from} {len} {set}"
                );
                let column = host.flag_column(&of_host, from, len, set).unwrap();
                let column_on_gpu = gpu.flag_column(&of_gpu, from, len, set).unwrap();
                assert_eq!(
                    column.on_host().unwrap(),
                    &gpu.download(&column_on_gpu).unwrap()
                );
            }
        }

        let rows = random.rows(n, 1 << 30);
        let keep = BooleanArray::new(
            BooleanBuffer::collect_bool(n, |_| random.below(2) == 0),
            random.nulls(n, n),
        );
        let kept = host.compact(&on_host(&host, &rows), &keep).unwrap();
        let kept_on_gpu = gpu.compact(&on_gpu(&gpu, &rows), &keep).unwrap();
        assert_eq!(
            kept.on_host().unwrap(),
            &down(&kept_on_gpu),
            "{n} compacted"
        );
        assert_eq!(
            host.sequence(5, n).unwrap().on_host().unwrap(),
            &down(&gpu.sequence(5, n).unwrap())
        );
        let numbers = gpu.row_numbers(n).unwrap();
        assert_eq!(
            host.row_numbers(n).unwrap().on_host().unwrap(),
            &gpu.download(&numbers).unwrap()
        );
        let ids = numbers.into_row_ids().unwrap();
        assert_eq!(down(&ids), down(&gpu.sequence(0, n).unwrap()));

        let left = u64_column(random.words(n, 0), random.nulls(n, 2));
        let right = u64_column(random.words(n / 2 + 1, 0), None);
        let (left, left_on_gpu) = keys_of(&host, &gpu, &left);
        let (right, right_on_gpu) = keys_of(&host, &gpu, &right);
        assert_eq!(
            host.sample_selectivity(&[(&left, Comparison::Lt, &right)], 512)
                .unwrap(),
            gpu.sample_selectivity(&[(&left_on_gpu, Comparison::Lt, &right_on_gpu)], 512)
                .unwrap()
        );
    }
}

#[test]
fn memory_is_reserved_refused_and_released() {
    let Some((_, _)) = reference_and_gpu() else {
        return;
    };
    let gpu = CudaDevice::open(0, Some(1 << 20)).unwrap();
    let small: ArrayRef = Arc::new(Int64Array::from(vec![1; 1000]));
    let large: ArrayRef = Arc::new(Int64Array::from(vec![1; 1 << 20]));
    let column = gpu.upload(from_ref(&small)).unwrap();
    assert!(gpu.budget().in_use() >= 8000);
    assert!(gpu.upload(from_ref(&large)).unwrap_err().is_divisible());
    drop(column);
    assert_eq!(gpu.budget().in_use(), 0);

    // More than any card has: the driver refuses, and the device remains usable.
    let gpu = CudaDevice::open(0, Some(1 << 50)).unwrap();
    let refused = gpu.stream.alloc(1 << 46, "test").unwrap_err();
    assert!(refused.is_divisible(), "{refused}");
    assert_eq!(
        &gpu.download(&gpu.upload(from_ref(&small)).unwrap())
            .unwrap(),
        &small
    );
}
