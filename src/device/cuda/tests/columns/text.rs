//! Text, binary, views, dictionaries and fixed-size binary: transferred, gathered, and as keys.

use arrow::buffer::{Buffer as Bytes, OffsetBuffer};
use arrow::compute::{cast, concat};

use crate::device::cuda::tests::keys::group_ids;
use crate::device::cuda::tests::*;
use crate::device::primitives::keys::KeyPrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;

/// Difficult values: empty, prefixes of one another, zeros inside and at the end, characters of several bytes, lengths
/// around 12 bytes (which views hold) and around whole words.
fn values(random: &mut Random, n: usize, kind: usize) -> Vec<String> {
    let alphabet = ["a", "\0", "ß", "語", "𝄞", "b", "z"];
    (0..n)
        .map(|i| match kind % 6 {
            0 => String::new(),
            1 => "ab\0\0\0\0\0\0\0\0"[..random.below(11) as usize].to_owned(),
            2 => (0..random.below(6))
                .map(|_| alphabet[random.below(7) as usize])
                .collect(),
            3 => "0123456789abcdefghijklmnopqrstuvwxyz"[..random.below(37) as usize].to_owned(),
            4 => format!("{:>1$}", random.below(40), 5 + random.below(10) as usize),
            // One long value among short ones.
            _ if i == n / 2 => "long ".repeat(20_001),
            _ => format!("{}", random.below(9)),
        })
        .collect()
}

/// Text with bytes beneath its NULLs, and a first offset above 0.
fn text_with(values: &[String], nulls: Option<NullBuffer>) -> StringArray {
    let mut bytes = b"before".to_vec();
    let mut offsets = vec![bytes.len() as i32];
    for value in values {
        bytes.extend_from_slice(value.as_bytes());
        offsets.push(bytes.len() as i32);
    }
    let offsets = OffsetBuffer::new(offsets.into());
    StringArray::new(offsets, Bytes::from_vec(bytes), nulls)
}

/// The same values in every type of text, and numbers in some other types.
pub(crate) fn text_columns(random: &mut Random, n: usize, kind: usize) -> Vec<ArrayRef> {
    let nulls = random.nulls(n, kind);
    let text: ArrayRef = Arc::new(text_with(&values(random, n, kind), nulls.clone()));
    let of = |data_type: DataType| cast(&text, &data_type).unwrap();
    let mut columns: Vec<ArrayRef> = vec![
        Arc::clone(&text),
        of(DataType::LargeUtf8),
        of(DataType::Binary),
        of(DataType::LargeBinary),
        of(DataType::Utf8View),
        of(DataType::BinaryView),
        of(DataType::Dictionary(
            Box::new(DataType::Int32),
            Box::new(DataType::Utf8),
        )),
    ];
    for width in [1, 3, 7, 8, 16, 20, 32, 80] {
        let mut values = FixedSizeBinaryBuilder::with_capacity(n, width);
        for i in 0..n {
            match nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i)) {
                true => {
                    let byte = random.below(3) as u8;
                    let value: Vec<u8> = (0..width)
                        .map(|j| if j % 5 == 0 { byte } else { 0 })
                        .collect();
                    values.append_value(value).unwrap();
                }
                false => values.append_null(),
            }
        }
        columns.push(Arc::new(values.finish()));
    }
    // Dictionaries with NULLs among their values, and with unused values.
    let few = n.min(5);
    let of_values = |random: &mut Random, values: ArrayRef| -> ArrayRef {
        let keys = (0..n).map(|_| random.below(values.len().max(1) as u64) as u8);
        let nulls = match values.is_empty() {
            true => Some(NullBuffer::new_null(n)),
            false => nulls.clone(),
        };
        let keys = UInt8Array::new(keys.collect::<Vec<_>>().into(), nulls);
        Arc::new(DictionaryArray::new(keys, values))
    };
    let numbers = u64_column(random.words(few + 1, 5), random.nulls(few + 1, 2));
    columns.push(of_values(random, numbers.slice(0, few + 1)));
    columns.push(of_values(random, numbers.slice(0, 0)));
    columns.push(of_values(random, text.slice(0, few)));
    columns.push(of_values(
        random,
        of(DataType::LargeBinary).slice(n - few, few),
    ));
    columns
}

/// An array in parts of unequal lengths: one is empty, and one is an array of its own.
fn parts(array: &ArrayRef) -> Vec<ArrayRef> {
    let n = array.len();
    let (a, b) = (n / 7, n / 2);
    let own = concat(&[array.slice(b, n - b).as_ref(), array.slice(0, 0).as_ref()]).unwrap();
    vec![
        array.slice(0, a),
        array.slice(a, 0),
        array.slice(a, b - a),
        own,
    ]
}

#[test]
fn text_is_transferred_and_gathered() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(21);
    for (i, n) in SIZES.into_iter().enumerate() {
        let kinds = match n > 100_000 {
            true => vec![3, 5],
            false => vec![i, i + 1, 2, 5],
        };
        for kind in kinds {
            for array in text_columns(&mut random, n, kind) {
                let slice = array.slice(n / 3, n - n / 3);
                for parts in [vec![Arc::clone(&array)], vec![slice], parts(&array)] {
                    let whole: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                    let whole = concat(&whole).unwrap();
                    let what = format!("{} of {n}, kind {kind}", array.data_type());
                    let column = gpu.upload(&parts).unwrap();
                    assert_eq!(column.rows(), whole.len(), "{what}");
                    assert!(column.is_resident(), "{what}");
                    assert_eq!(&gpu.download(&column).unwrap(), &whole, "{what}");

                    let count = if whole.is_empty() { 0 } else { n.min(30_000) };
                    let some = random.rows(count, whole.len());
                    let all: Vec<u32> = (0..whole.len() as u32).collect();
                    for rows in [some, all, vec![]] {
                        let gathered = gpu.gather(&column, &on_gpu(&gpu, &rows)).unwrap();
                        let expected = take(&whole, &UInt32Array::from(rows), None).unwrap();
                        let came = gpu.download(&gathered).unwrap();
                        came.to_data().validate_full().unwrap();
                        assert_eq!(&came, &expected, "{what}, gathered");
                        // Gathered again from the gathered column.
                        let back: Vec<u32> = (0..came.len() as u32).rev().collect();
                        let again = gpu.gather(&gathered, &on_gpu(&gpu, &back)).unwrap();
                        let expected = take(&expected, &UInt32Array::from(back), None).unwrap();
                        assert_eq!(&gpu.download(&again).unwrap(), &expected, "{what}, again");
                    }
                }
            }
        }
    }
}

#[test]
fn a_huge_value_beside_empty_ones() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut values = vec![String::new(); 300_000];
    values[7] = "x".into();
    values[150_000] = "0123456789".repeat(3_000_001);
    values[299_998] = "end".into();
    let array: ArrayRef = Arc::new(StringArray::from(values));
    let column = gpu.upload(from_ref(&array)).unwrap();
    for rows in [
        (0..300_000).collect::<Vec<u32>>(),
        (0..300_000).rev().collect(),
        vec![7, 0, 150_000, 150_000, 1, 2, 299_998],
        vec![0; 5000],
    ] {
        let gathered = gpu.gather(&column, &on_gpu(&gpu, &rows)).unwrap();
        let expected = take(&array, &UInt32Array::from(rows), None).unwrap();
        assert!(gpu.download(&gathered).unwrap() == expected);
    }
    // 100 copies of the huge value exceed Arrow's offsets.
    let refused = gpu
        .gather(&column, &on_gpu(&gpu, &[150_000; 100]))
        .unwrap_err();
    assert!(refused.is_divisible(), "{refused}");
}

#[test]
fn refused_leases_of_text_leave_none() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let array: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..100_000).map(|i| format!("value {i}")),
    ));
    for limit in [1_000, 600_000, 1_600_000, 2_500_000, 3_000_000] {
        let budget = Budget::new(limit);
        let tight = gpu.attach(Arc::clone(&budget), Arc::default()).unwrap();
        let result = tight.upload(from_ref(&array)).and_then(|column| {
            let rows = tight.sequence(0, 100_000)?;
            tight.gather(&column, &rows)
        });
        assert!(result.unwrap_err().is_divisible(), "{limit}");
        assert_eq!(budget.in_use(), 0, "{limit}");
    }
}

/// Rows of a lazy column are gathered on the host at first, on the GPU once many were read.
#[test]
fn lazy_columns_are_uploaded_when_it_pays() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(22);
    for n in [1, 33, 5000, 70_000] {
        let mut arrays = text_columns(&mut random, n, 3);
        arrays.extend(columns(&mut random, n, 0));
        for array in arrays {
            let payload = Arc::new(Payload::default());
            let parts = parts(&array);
            let whole: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            let whole = concat(&whole).unwrap();
            let before = gpu.budget().in_use();
            let column = gpu.upload_lazy(&parts, &payload).unwrap();
            gpu.receive(&column).unwrap();
            assert_eq!((column.bytes(), gpu.budget().in_use()), (0, before));
            assert_eq!(&gpu.download(&column).unwrap(), &whole);
            let mut asked = 0;
            for count in [0, n / 40, n / 40, n / 2, n, 1] {
                let rows = random.rows(count, n);
                let gathered = gpu.gather(&column, &on_gpu(&gpu, &rows)).unwrap();
                let expected = take(&whole, &UInt32Array::from(rows), None).unwrap();
                assert_eq!(&gpu.download(&gathered).unwrap(), &expected);
                asked += count;
                assert_eq!(payload.is_worthwhile(), asked * 16 > n, "{asked} of {n}");
                assert_eq!(gathered.is_resident(), payload.is_worthwhile());
            }
            assert!(payload.take_uploaded() > 0);
            assert_eq!(payload.take_uploaded(), 0);
            drop(column);
            assert_eq!(gpu.budget().in_use(), before);
        }
    }
}

#[test]
fn lazy_columns_stay_on_the_host_without_device_memory() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let payload = Arc::new(Payload::default());
    let budget = Budget::new(1_500_000);
    let tight = gpu.attach(Arc::clone(&budget), Arc::default()).unwrap();
    let column = tight.upload_lazy(from_ref(&array), &payload).unwrap();
    let rows = tight.sequence(5, 50_000).unwrap();
    let gathered = tight.gather(&column, &rows).unwrap();
    assert!(!gathered.is_resident() && !payload.is_worthwhile());
    assert_eq!(&tight.download(&gathered).unwrap(), &array.slice(5, 50_000));
    drop((column, rows, gathered));
    assert_eq!(budget.in_use(), 0);
}

/// The columns that can be keys: all except dictionaries without values.
fn key_pairs(
    random: &mut Random,
    n: usize,
    kind: usize,
    other: usize,
) -> Vec<(ArrayRef, ArrayRef)> {
    let base = text_columns(random, n, kind);
    let mut probe = text_columns(random, n / 2 + 3, other);
    // Some values of the base, and some that begin with them.
    let text = base[0].as_string::<i32>();
    let near: StringArray = (0..n / 2 + 3)
        .map(|i| {
            let row = random.below(n.max(1) as u64) as usize;
            let value = (row < n && text.is_valid(row)).then(|| text.value(row))?;
            Some(match i % 4 {
                0 => format!("{value}\0"),
                1 => format!("{value}{}", "z".repeat(90)),
                _ => value.to_owned(),
            })
        })
        .collect();
    let near: ArrayRef = Arc::new(near);
    for column in &mut probe {
        if let Ok(cast) = cast(&near, column.data_type())
            && !matches!(column.data_type(), DataType::FixedSizeBinary(_))
            && random.below(3) > 0
        {
            *column = cast;
        }
    }
    base.into_iter().zip(probe).collect()
}

#[test]
fn order_keys_of_text_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(23);
    for n in [0, 1, 31, 32, 33, 257, 1025, 20_001] {
        for kind in 0..6 {
            for (base, other) in key_pairs(&mut random, n, kind, kind + 1) {
                let what = format!("{} of {n}, kind {kind}", base.data_type());
                let ours = gpu.upload(&parts(&base)).unwrap();
                let (of_host, domain) = host
                    .order_keys(&host.upload(from_ref(&base)).unwrap())
                    .unwrap();
                let (of_gpu, domain_on_gpu) = gpu.order_keys(&ours).unwrap();
                same_keys(&of_host, &of_gpu, &what);
                let of_host = host
                    .order_keys_in(&domain, &host.upload(from_ref(&other)).unwrap())
                    .unwrap();
                let of_gpu = gpu
                    .order_keys_in(&domain_on_gpu, &gpu.upload(&parts(&other)).unwrap())
                    .unwrap();
                same_keys(&of_host, &of_gpu, &what);
            }
        }
    }
}

#[test]
fn groups_of_text_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(24);
    for n in [0, 1, 33, 1025, 20_001] {
        for kind in 0..6 {
            let pairs = key_pairs(&mut random, n, kind, kind + 1);
            let with = columns(&mut random, n, 5);
            let with_other = columns(&mut random, n / 2 + 3, 5);
            for (i, (base, other)) in pairs.iter().enumerate() {
                group_ids::compare(&host, &gpu, from_ref(base), from_ref(other));
                if n < 2000 {
                    // Beside numbers, and beside other text, which may be too long.
                    let j = random.below(with.len() as u64) as usize;
                    let (second, second_other) = &pairs[(i + 3) % pairs.len()];
                    let mixed = [&with[j], base, second].map(Arc::clone);
                    let mixed_other = [&with_other[j], other, second_other].map(Arc::clone);
                    group_ids::compare(&host, &gpu, &mixed, &mixed_other);
                    group_ids::compare(&host, &gpu, &mixed[..2], &mixed_other[..2]);
                }
            }
        }
    }
}

/// Lengths around the longest text that the GPU uses as a key.
#[test]
fn keys_of_text_around_the_longest() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let of = |lengths: &[usize], end: &str| -> ArrayRef {
        let values = lengths.iter().flat_map(|length| {
            let whole = "k".repeat(*length);
            [format!("{whole}{end}"), whole]
        });
        Arc::new(StringArray::from_iter_values(values))
    };
    let lengths: Vec<usize> = (60..75).chain([0, 1, 7, 8, 9, 200]).collect();
    for most in [0, 1, 7, 8, 63, 64, 70, 71, 72, 80] {
        let base: Vec<usize> = lengths.iter().copied().filter(|l| *l <= most).collect();
        let (base, other) = (of(&base, ""), of(&lengths, "\0"));
        for data_type in [
            DataType::Utf8,
            DataType::LargeBinary,
            DataType::Utf8View,
            DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8)),
        ] {
            let base = cast(&base, &data_type).unwrap();
            let other = cast(&other, &data_type).unwrap();
            group_ids::compare(&host, &gpu, from_ref(&base), from_ref(&other));
            let keys = |device: &dyn Device| {
                let base = device.upload(from_ref(&base)).unwrap();
                let (_, domain) = device.order_keys(&base).unwrap();
                let other = device.upload(from_ref(&other)).unwrap();
                device.order_keys_in(&domain, &other).unwrap()
            };
            same_keys(&keys(&host), &keys(&gpu), &format!("{data_type}, {most}"));
        }
    }
}
