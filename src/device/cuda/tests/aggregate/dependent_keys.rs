//! Groups by numbers on which the other keys depend, or do not: because of one row, of a NULL, or of equal values at
//! other addresses.

use crate::device::cuda::aggregate::dependent_keys;
use crate::device::cuda::tests::aggregate::fold::{ALL, same_aggregates};
use crate::device::cuda::tests::*;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::fold::Fold;

/// The number of each customer, and columns that depend on it: `customers` rows, some NULL.
fn customers(random: &mut Random, customers: usize, length: usize) -> Vec<ArrayRef> {
    let nulls = random.nulls(customers, 2);
    let text = (0..customers).map(|i| {
        let some = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
        some.then(|| format!("{i} {}", "n".repeat(length + i % 3)))
    });
    let text: ArrayRef = Arc::new(text.collect::<StringArray>());
    let of = |data_type: DataType| cast(&text, &data_type).unwrap();
    let mut bytes = FixedSizeBinaryBuilder::with_capacity(customers, 3);
    for i in 0..customers {
        bytes.append_value([i as u8, 0, (i >> 8) as u8]).unwrap();
    }
    let balances = Decimal128Array::new(
        (0..customers as i128).map(|i| (i - 7) << 70).collect(),
        random.nulls(customers, 2),
    );
    let wide = Decimal256Array::from_iter_values(
        (0..customers)
            .map(|i| arrow::datatypes::i256::from_parts(u128::MAX - i as u128, i as i128)),
    );
    vec![
        Arc::clone(&text),
        of(DataType::LargeBinary),
        of(DataType::Utf8View),
        of(DataType::BinaryView),
        of(DataType::Dictionary(
            Box::new(DataType::Int16),
            Box::new(DataType::Utf8),
        )),
        Arc::new(bytes.finish()),
        Arc::new(balances),
        Arc::new(wide),
        Arc::new(Float64Array::from_iter_values(
            (0..customers).map(|i| i as f64 - 3.0),
        )),
    ]
}

/// Whether keys are grouped by the numbers among them, and whether a sample permits to try that.
fn dependent_keys_tried(gpu: &CudaDevice, n: usize, keys: &[&ArrayRef]) -> (bool, bool) {
    let keys: Vec<_> = keys
        .iter()
        .map(|key| gpu.upload(from_ref(*key)).unwrap())
        .collect();
    let keys: Vec<&Column> = keys.iter().map(AsRef::as_ref).collect();
    let aggregate_by_integer_keys = dependent_keys::ids_by_integer_keys(gpu, &keys, n)
        .unwrap()
        .is_some();
    (
        aggregate_by_integer_keys,
        dependent_keys::may_depend(gpu, &keys, n).unwrap(),
    )
}

fn aggregate_by_integer_keys(gpu: &CudaDevice, n: usize, keys: &[&ArrayRef]) -> bool {
    let (aggregate_by_integer_keys, tried) = dependent_keys_tried(gpu, n, keys);
    assert!(
        tried || !aggregate_by_integer_keys,
        "a sample of keys that follow"
    );
    aggregate_by_integer_keys
}

/// `n` rows of `many` customers, whose text has `length` characters.
pub(crate) fn check(n: usize, many: usize, length: usize) {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random((n ^ length << 40) as u64 + 71);
    let rows = UInt32Array::from(random.rows(n, many));
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(
        rows.values().iter().map(|row| i64::from(*row) << 20),
    ));
    let others: Vec<ArrayRef> = customers(&mut random, many, length)
        .iter()
        .map(|column| take(column, &rows, None).unwrap())
        .collect();
    let values: ArrayRef = Arc::new(Int64Array::new(
        (0..n).map(|_| random.below(9) as i64).collect(),
        random.nulls(n, 2),
    ));
    let folds = [(Fold::Sum, Some(&values)), (Fold::Count, None)];
    for other in &others {
        let keys = [other, &number];
        let what = format!("{} of {length}, {n} rows", other.data_type());
        let fixed = other.data_type().is_numeric()
            || matches!(other.data_type(), DataType::FixedSizeBinary(_));
        assert_eq!(aggregate_by_integer_keys(&gpu, n, &keys), !fixed, "{what}");
        same_aggregates(&host, &gpu, n, &keys, &folds, &ALL, &what);
    }
    let keys: Vec<&ArrayRef> = [&number].into_iter().chain(&others).collect();
    assert!(aggregate_by_integer_keys(&gpu, n, &keys), "{n} rows");
    same_aggregates(&host, &gpu, n, &keys, &folds, &ALL, "all keys");
    same_aggregates(&host, &gpu, n, &keys, &[], &ALL[..1], "all keys");
    let moments = [(Fold::Mean, Some(&others[8])), (Fold::Count, None)];
    same_aggregates(&host, &gpu, n, &keys, &moments, &ALL[..1], "all keys");
}

#[test]
fn keys_that_follow_from_numbers() {
    for (n, many) in [
        (1, 1),
        (33, 5),
        (1025, 300),
        (20_011, 4_000),
        (300_007, 9_000),
    ] {
        for length in [0, 6, 13, 80] {
            check(n, many, length);
        }
    }
}

#[test]
fn keys_that_do_not_follow() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(72);
    let n = 20_011;
    let number: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..n).map(|_| random.below(700) as i32),
    ));
    let numbers = number.as_primitive::<Int32Type>().values().to_vec();
    let folds = [(Fold::Count, None)];
    type Name = fn(usize, i32) -> Option<String>;
    let cases: [(&str, Name); 6] = [
        ("the first row", |row, of| {
            Some(format!("{} a customer's name", of + i32::from(row == 0)))
        }),
        ("the last row", |row, of| {
            Some(format!(
                "a customer's name {}",
                of + i32::from(row == 20_010)
            ))
        }),
        ("a NULL", |row, of| {
            (row != 7_777).then(|| format!("a customer's name {of}"))
        }),
        ("the length", |row, of| {
            Some(format!("{of:>20}{}", if row == 9_000 { "\0" } else { "" }))
        }),
        ("half of the rows", |row, of| {
            Some(format!("a customer's name {}", of + row as i32 % 2))
        }),
        ("a byte behind the sixteenth", |row, of| {
            let end = if row == 12_345 { 'b' } else { 'a' };
            Some(format!("{of:>31}{end}"))
        }),
    ];
    for (what, text) in cases {
        let text = numbers.iter().enumerate().map(|(row, of)| text(row, *of));
        let text: ArrayRef = Arc::new(text.collect::<StringArray>());
        for data_type in [
            DataType::Utf8,
            DataType::Utf8View,
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        ] {
            let text = cast(&text, &data_type).unwrap();
            let keys = [&number, &text];
            let what = format!("{what}, {data_type}");
            let (aggregate_by_integer_keys, tried) = dependent_keys_tried(&gpu, n, &keys);
            assert!(!aggregate_by_integer_keys, "{what}");
            // A sample hardly finds a single row that differs, but it finds many.
            assert!(!tried || !what.starts_with("half"), "{what}");
            same_aggregates(&host, &gpu, n, &keys, &folds, &ALL, &what);
        }
    }
    // The same values at other addresses, zeros of either sign, and text that is too long to compare.
    let name = |of: &i32| format!("a customer's name {of}");
    let own: ArrayRef = Arc::new(StringViewArray::from_iter_values(numbers.iter().map(name)));
    let zeros: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..n).map(|i| [0.0, -0.0][i % 2]),
    ));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(numbers.iter().map(name)));
    let long = (0..n).map(|i| "x".repeat(5_000 * usize::from(i % 5_000 == 3)));
    let long: ArrayRef = Arc::new(StringArray::from_iter_values(long));
    for keys in [vec![&own], vec![&text, &zeros], vec![&text, &long]] {
        let keys: Vec<&ArrayRef> = [&number].into_iter().chain(keys).collect();
        assert!(!aggregate_by_integer_keys(&gpu, n, &keys));
        same_aggregates(&host, &gpu, n, &keys, &folds, &ALL, "the same otherwise");
    }
}
