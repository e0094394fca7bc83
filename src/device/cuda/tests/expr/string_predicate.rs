//! String predicates, and substrings by characters, against the reference.

use crate::device::cuda::tests::columns::text::text_columns;
use crate::device::cuda::tests::*;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::text_predicate::{LikePattern, TextPredicate, TextSlice, TextTest};

/// Kinds of values, fewer for many rows.
fn kinds(i: usize, n: usize) -> Vec<usize> {
    match n > 10_000 {
        true => vec![3, 5],
        false => vec![i, i + 1, 2, 5],
    }
}

fn is_dictionary(array: &ArrayRef) -> bool {
    matches!(array.data_type(), DataType::Dictionary(..))
}

fn values_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn is_utf8(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(values_type(data_type), Utf8 | LargeUtf8 | Utf8View)
}

fn is_tested(array: &ArrayRef) -> bool {
    use DataType::*;
    let binary = matches!(
        values_type(array.data_type()),
        Binary | LargeBinary | BinaryView
    );
    binary || is_utf8(array.data_type())
}

/// Bytes related to a column: a value, a part of it, or a value with one more byte.
fn constant(random: &mut Random, plain: &ArrayRef) -> Vec<u8> {
    let values = plain.as_binary::<i32>();
    if values.is_empty() {
        return vec![b'a'; random.below(20) as usize];
    }
    let value = values.value(random.below(values.len() as u64) as usize);
    let value = &value[..value.len().min(300)];
    match random.below(3) {
        0 => value.to_vec(),
        1 => value[..random.below(value.len() as u64 + 1) as usize].to_vec(),
        _ => [value, b"b"].concat(),
    }
}

/// Whole characters of a column.
fn characters(random: &mut Random, plain: &ArrayRef) -> String {
    let some = String::from_utf8_lossy(&constant(random, plain)).into_owned();
    let (from, count) = (random.below(4) as usize, random.below(6) as usize);
    some.chars().skip(from).take(count).collect()
}

fn pattern(random: &mut Random, plain: &ArrayRef) -> LikePattern {
    let mut pattern = String::new();
    for _ in 0..random.below(4) {
        let part = characters(random, plain).replace('\\', "");
        for piece in ["%", "_", &part, "_%", "%"] {
            if random.below(2) == 0 {
                pattern += piece;
            }
        }
    }
    LikePattern::of_like(&pattern)
}

fn slice(random: &mut Random) -> TextSlice {
    let all = random.below(4) == 0;
    TextSlice {
        skip: random.below(5) as u32,
        take: if all {
            TextSlice::ALL
        } else {
            random.below(6) as u32
        },
    }
}

fn tests(random: &mut Random, array: &ArrayRef, plain: &ArrayRef) -> Vec<TextTest> {
    let mut predicates = vec![TextPredicate::Present];
    for many in [1, 3, 40] {
        let constants = (0..many).map(|_| constant(random, plain));
        let mut constants: Vec<Vec<u8>> = constants.collect();
        constants.sort();
        constants.dedup();
        predicates.push(TextPredicate::Among(constants));
    }
    for op in OPS {
        let constant = constant(random, plain);
        predicates.push(TextPredicate::Compare(op, constant));
    }
    let whole = |predicate| TextTest {
        column: 0,
        slice: None,
        predicate,
    };
    let mut tests: Vec<TextTest> = predicates.into_iter().map(whole).collect();
    if is_utf8(array.data_type()) {
        for _ in 0..6 {
            let pattern = pattern(random, plain);
            tests.push(whole(TextPredicate::Like(pattern)));
        }
        let sliced: Vec<TextTest> = tests
            .iter()
            .map(|test| TextTest {
                slice: Some(slice(random)),
                ..test.clone()
            })
            .collect();
        tests.extend(sliced);
    }
    tests
}

fn plain(array: &ArrayRef) -> ArrayRef {
    let text = cast(array, values_type(array.data_type())).unwrap();
    cast(&text, &DataType::Binary).unwrap()
}

#[test]
fn values_are_tested() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(91);
    for (i, n) in SIZES.into_iter().enumerate() {
        for kind in kinds(i, n) {
            values_of(&host, &gpu, &mut random, n, kind);
        }
    }
}

/// Predicates on values of `kind` in columns of every type.
pub(crate) fn values_of(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    n: usize,
    kind: usize,
) {
    let columns = text_columns(random, n, kind);
    for array in columns.iter().filter(|array| is_tested(array)) {
        let plain = plain(array);
        let of_host = host.upload(from_ref(array)).unwrap();
        let of_gpu = gpu.upload(from_ref(array)).unwrap();
        for test in tests(random, array, &plain) {
            let of_host = host.test_text(&of_host, None, &test).unwrap();
            let of_gpu = gpu.test_text(&of_gpu, None, &test).unwrap();
            let what = format!("{} of {n}, kind {kind}: {test:?}", array.data_type());
            assert!(of_gpu.is_resident(), "{what}");
            assert_eq!(
                of_host.on_host().unwrap(),
                &gpu.download(&of_gpu).unwrap(),
                "{what}"
            );
        }
    }
}

#[test]
fn columns_are_compared() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(92);
    for (i, n) in SIZES.into_iter().enumerate() {
        for kind in kinds(i, n) {
            let other = if i % 2 == 0 { kind } else { 2 };
            columns_of(&host, &gpu, &mut random, n, [kind, other]);
        }
    }
}

/// Columns of `kind` compared with others, by every comparison.
pub(crate) fn columns_of(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    n: usize,
    [kind, other]: [usize; 2],
) {
    let lefts = text_columns(random, n, kind);
    let rights = text_columns(random, n, other);
    for (left, right) in lefts.iter().zip(&rights).filter(|(l, _)| is_tested(l)) {
        let rows = left.len().min(right.len());
        let arrays = [left.slice(0, rows), right.slice(0, rows)];
        let of_host = arrays.each_ref().map(|a| host.upload(from_ref(a)).unwrap());
        let of_gpu = arrays.each_ref().map(|a| gpu.upload(from_ref(a)).unwrap());
        for op in OPS {
            let test = TextTest {
                column: 0,
                slice: None,
                predicate: TextPredicate::Column(op, 1),
            };
            let of_host = host
                .test_text(&of_host[0], Some(&of_host[1]), &test)
                .unwrap();
            let of_gpu = gpu.test_text(&of_gpu[0], Some(&of_gpu[1]), &test).unwrap();
            let what = format!("{} of {n}, kind {kind}: {op}", left.data_type());
            assert_eq!(
                of_host.on_host().unwrap(),
                &gpu.download(&of_gpu).unwrap(),
                "{what}"
            );
        }
    }
}

#[test]
fn characters_are_cut_out() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(93);
    for (i, n) in SIZES.into_iter().enumerate() {
        for kind in kinds(i, n) {
            characters_of(&host, &gpu, &mut random, n, kind);
        }
    }
}

/// Substrings of columns of `kind`, which are gathered afterwards.
pub(crate) fn characters_of(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    n: usize,
    kind: usize,
) {
    let columns = text_columns(random, n, kind);
    let text = |array: &&ArrayRef| is_utf8(array.data_type()) && !is_dictionary(array);
    for array in columns.iter().filter(text) {
        let of_host = host.upload(from_ref(array)).unwrap();
        let of_gpu = gpu.upload(from_ref(array)).unwrap();
        for _ in 0..6 {
            let slice = slice(random);
            let of_host = host.slice_text(&of_host, slice).unwrap();
            let of_gpu = gpu.slice_text(&of_gpu, slice).unwrap();
            let what = format!("{} of {n}, kind {kind}: {slice:?}", array.data_type());
            let came = gpu.download(&of_gpu).unwrap();
            came.to_data().validate_full().unwrap();
            assert_eq!(of_host.on_host().unwrap(), &came, "{what}");
            // Further work on the result.
            let back: Vec<u32> = (0..array.len() as u32).rev().collect();
            let gathered = gpu.gather(&of_gpu, &on_gpu(gpu, &back)).unwrap();
            let expected =
                take(of_host.on_host().unwrap(), &UInt32Array::from(back), None).unwrap();
            assert_eq!(&gpu.download(&gathered).unwrap(), &expected, "{what}");
        }
    }
}

/// The first bytes of a view decide, or the host fallback runs.
#[test]
fn views_of_long_values() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let values = [
        "13-345-6789-00",
        "13-345",
        "",
        "a value that is long",
        "é3-long enough for it",
    ];
    let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        (0..5000).map(|i| values[i % values.len()]),
    ));
    let column = gpu.upload(from_ref(&array)).unwrap();
    let of_host = host.upload(from_ref(&array)).unwrap();
    let two = Some(TextSlice { skip: 0, take: 2 });
    let predicates = [
        (
            two,
            TextPredicate::Among(vec![b"13".to_vec(), b"31".to_vec()]),
        ),
        (None, TextPredicate::Among(vec![b"13-345".to_vec()])),
        (None, TextPredicate::Among(vec![values[3].into()])),
        (None, TextPredicate::Compare(Comparison::Lt, b"b".to_vec())),
        (
            None,
            TextPredicate::Compare(Comparison::Lt, b"a value".to_vec()),
        ),
        (None, TextPredicate::Like(LikePattern::of_like("13-%"))),
        (None, TextPredicate::Like(LikePattern::of_like("13-345%"))),
        (None, TextPredicate::Like(LikePattern::of_like("%long%"))),
    ];
    for (slice, predicate) in predicates {
        let test = TextTest {
            column: 0,
            slice,
            predicate,
        };
        let of_host = host.test_text(&of_host, None, &test).unwrap();
        let of_gpu = gpu.test_text(&column, None, &test).unwrap();
        assert_eq!(
            of_host.on_host().unwrap(),
            &gpu.download(&of_gpu).unwrap(),
            "{test:?}"
        );
    }
    for (skip, take) in [(0, 2), (1, 2), (0, 4), (2, 9), (4, TextSlice::ALL)] {
        let slice = TextSlice { skip, take };
        let of_host = host.slice_text(&of_host, slice).unwrap();
        let of_gpu = gpu.slice_text(&column, slice).unwrap();
        assert_eq!(
            of_host.on_host().unwrap(),
            &gpu.download(&of_gpu).unwrap(),
            "{slice:?}"
        );
    }
}
