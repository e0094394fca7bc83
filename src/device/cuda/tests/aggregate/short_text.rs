//! Groups by short text, encoded as integers: each type and length, beside numbers and longer text, with NULLs and
//! zeros.

use crate::device::cuda::tests::aggregate::fold::{ALL, same_aggregates};
use crate::device::cuda::tests::*;
use crate::device::primitives::aggregate::AggregatePrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::fold::Fold;
use crate::ir::strategies::Grouping;

/// One of few values of at most `most` bytes, among them prefixes of one another, and values that end with zeros.
fn value(random: &mut Random, most: usize) -> Vec<u8> {
    let length = random.below(most as u64 + 1) as usize;
    let mut value = vec![b'k'; length];
    if let Some(last) = value.last_mut() {
        *last = [0, 1, b'k', b'z', 0x7F][random.below(5) as usize];
    }
    value
}

fn texts(random: &mut Random, n: usize, most: usize, nulls: usize) -> ArrayRef {
    let nulls = random.nulls(n, nulls);
    let values = (0..n).map(|i| {
        let value = String::from_utf8(value(random, most)).unwrap();
        nulls
            .as_ref()
            .is_none_or(|nulls| nulls.is_valid(i))
            .then_some(value)
    });
    Arc::new(values.collect::<StringArray>())
}

fn types() -> Vec<DataType> {
    let dictionary = |keys, values| DataType::Dictionary(Box::new(keys), Box::new(values));
    vec![
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::Utf8View,
        DataType::BinaryView,
        dictionary(DataType::Int16, DataType::Utf8),
        dictionary(DataType::UInt8, DataType::LargeBinary),
        dictionary(DataType::Int32, DataType::Utf8View),
    ]
}

fn sums(random: &mut Random, n: usize) -> ArrayRef {
    Arc::new(Int64Array::new(
        (0..n).map(|_| random.below(3) as i64 - 1).collect(),
        random.nulls(n, 2),
    ))
}

/// Text of at most `most` bytes, of each type.
pub(crate) fn check(n: usize, most: usize) {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random((n ^ most << 40) as u64 + 61);
    let text = texts(&mut random, n, most, 2 * (n % 2));
    let values = sums(&mut random, n);
    for data_type in types() {
        let key = cast(&text, &data_type).unwrap();
        let what = format!("{data_type} of {most} bytes, {n} rows");
        let folds = [(Fold::Sum, Some(&values)), (Fold::Count, None)];
        same_aggregates(&host, &gpu, n, &[&key], &folds, &ALL, &what);
        same_aggregates(&host, &gpu, n, &[&key], &[], &ALL, &what);
    }
}

#[test]
fn text_around_the_lengths_that_numbers_have_digits_for() {
    for most in [0, 1, 2, 3, 4, 7, 8, 11, 12, 13] {
        for n in [1, 34, 1024, 8193] {
            check(n, most);
        }
    }
}

/// Columns whose codes fit 32 or 64 bits, that are too long for one word, and that have no code.
#[test]
fn text_beside_other_keys() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(62);
    for n in [1, 700, 20_011, 300_007] {
        let [one, flag] = [2, 0].map(|nulls| texts(&mut random, n, 1, nulls));
        let three = texts(&mut random, n, 3, 2);
        let seven = texts(&mut random, n, 7, 2);
        let long = texts(&mut random, n, 30, 2);
        let whole: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..n).map(|_| format!("{:07}", random.below(1 << 20))),
        ));
        let all_null: ArrayRef = Arc::new(StringArray::new_null(n));
        let number = u64_column(
            (0..n).map(|_| random.below(1 << 40)).collect(),
            random.nulls(n, 2),
        );
        let bit: ArrayRef = Arc::new(BooleanArray::new(
            BooleanBuffer::collect_bool(n, |i| i % 3 == 0),
            random.nulls(n, 2),
        ));
        let float: ArrayRef = Arc::new(Float64Array::from_iter_values(
            (0..n).map(|i| (i % 7) as f64 - 3.0),
        ));
        let values = sums(&mut random, n);
        let sets: [&[&ArrayRef]; 10] = [
            &[&flag, &one],
            &[&flag, &three, &bit],
            &[&seven, &bit],
            &[&seven, &three],
            &[&whole, &seven],
            &[&number, &flag],
            &[&number, &three, &bit],
            &[&long, &one, &number],
            &[&float, &seven],
            &[&all_null, &flag],
        ];
        for (turn, keys) in sets.into_iter().enumerate() {
            let views =
                keys.iter().map(
                    |key| match turn % 2 == 0 && key.data_type() == &DataType::Utf8 {
                        true => cast(key, &DataType::Utf8View).unwrap(),
                        false => Arc::clone(key),
                    },
                );
            let views: Vec<ArrayRef> = views.collect();
            let keys: Vec<&ArrayRef> = views.iter().collect();
            let what = format!("keys {turn} of {n} rows");
            let folds = [
                (Fold::Count, Some(&values)),
                (Fold::Sum, Some(&values)),
                (Fold::Max, Some(&number)),
            ];
            same_aggregates(&host, &gpu, n, &keys, &folds, &ALL, &what);
            same_aggregates(&host, &gpu, n, &keys, &[], &ALL[..1], &what);
            let moments = [
                (Fold::Mean, Some(&float)),
                (Fold::SquaredDeviations, Some(&float)),
            ];
            same_aggregates(&host, &gpu, n, &keys, &moments, &ALL[..1], &what);
        }
    }
}

/// Codes of several columns that fill the bits of a word, and that have one bit more.
#[test]
fn numbers_that_fill_a_word() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(63);
    let n = 20_011;
    let values = sums(&mut random, n);
    let column = |random: &mut Random, bits: u32, nulls: usize| {
        let most = (1u64 << bits) - 1;
        let word = |i: usize, random: &mut Random| match i {
            0 => 0,
            1 => most,
            _ => (random.below(30) << bits.saturating_sub(5)) & most,
        };
        let words = (0..n).map(|i| word(i, random)).collect();
        let nulls =
            (nulls > 0).then(|| NullBuffer::new(BooleanBuffer::collect_bool(n, |i| i != 2)));
        u64_column(words, nulls)
    };
    for (bits, others) in [
        (20, 12),
        (20, 11),
        (32, 32),
        (32, 31),
        (60, 4),
        (57, 7),
        (63, 2),
    ] {
        for nulls in [0, 1] {
            let keys = [
                column(&mut random, bits, nulls),
                column(&mut random, others, 0),
            ];
            let keys: Vec<&ArrayRef> = keys.iter().collect();
            let what = format!("{bits} and {others} bits, nulls {nulls}");
            let folds = [(Fold::Sum, Some(&values))];
            same_aggregates(&host, &gpu, n, &keys, &folds, &ALL, &what);
        }
    }
    for words in [
        vec![0, u64::MAX],
        vec![0, u64::MAX - 1],
        vec![5, u64::MAX - 9],
    ] {
        let words: Vec<u64> = (0..n).map(|i| words[i % 2]).collect();
        for nulls in [None, random.nulls(n, 2)] {
            let keys = u64_column(words.clone(), nulls);
            let folds = [(Fold::Sum, Some(&values))];
            same_aggregates(&host, &gpu, n, &[&keys], &folds, &ALL, "the widest range");
        }
    }
}

/// Enough rows that the ranges of codes are assumed from a sample: right, and with a value outside the sample.
#[test]
fn assumed_ranges_of_text() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(64);
    let n = (1 << 22) + 77;
    let values = sums(&mut random, n);
    for kind in 0..3 {
        let text = (0..n).map(|i| match (i % 1_500_000, kind) {
            (7, 1) => "\u{1}",
            (7, 2) => "zzz",
            _ => ["R", "N", "A"][random.below(3) as usize],
        });
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(text));
        let folds = [(Fold::Sum, Some(&values))];
        let what = format!("flags {kind}");
        same_aggregates(&host, &gpu, n, &[&text], &folds, &ALL[..2], &what);
    }
}

/// Groups of gathered views, which have no original array.
#[test]
fn gathered_views() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(65);
    let n = 5_003;
    for most in [1, 7, 12, 30] {
        let text = cast(&texts(&mut random, n, most, 2), &DataType::Utf8View).unwrap();
        let rows = random.rows(n, n);
        let of_host = host
            .gather(
                &host.upload(from_ref(&text)).unwrap(),
                &on_host(&host, &rows),
            )
            .unwrap();
        let of_gpu = gpu
            .gather(&gpu.upload(from_ref(&text)).unwrap(), &on_gpu(&gpu, &rows))
            .unwrap();
        let of_host = host
            .aggregate(n, &[&of_host], &[(Fold::Count, None)], Grouping::AUTO)
            .unwrap();
        let of_gpu = gpu
            .aggregate(n, &[&of_gpu], &[(Fold::Count, None)], Grouping::AUTO)
            .unwrap();
        assert_eq!(of_host.groups, of_gpu.groups, "{most}");
        let counts = |keys: &ArrayRef, counts: &ArrayRef| {
            let keys = cast(keys, &DataType::Utf8).unwrap();
            let keys = keys
                .as_string::<i32>()
                .iter()
                .map(|key| key.map(str::to_owned));
            let counts = counts.as_primitive::<Int64Type>().values().to_vec();
            let mut all: Vec<_> = keys.zip(counts).collect();
            all.sort();
            all
        };
        let expected = counts(
            of_host.keys[0].on_host().unwrap(),
            of_host.states[0].on_host().unwrap(),
        );
        let keys = gpu.download(&of_gpu.keys[0]).unwrap();
        let given = counts(&keys, &gpu.download(&of_gpu.states[0]).unwrap());
        assert_eq!(given, expected, "{most}");
    }
}

/// After a refused reservation everything is returned.
#[test]
fn a_refused_lease_of_text_leaves_none() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(66);
    let n = 100_000;
    let text = texts(&mut random, n, 7, 2);
    let bytes = gpu.upload(from_ref(&text)).unwrap().bytes();
    for more in [50_000, 500_000, 1_000_000, 1_700_000] {
        let budget = Budget::new(bytes + more);
        let tight = gpu.attach(Arc::clone(&budget), Arc::default()).unwrap();
        let column = tight.upload(from_ref(&text)).unwrap();
        match tight.aggregate(n, &[&column, &column], &[], Grouping::AUTO) {
            Err(error) => assert!(error.is_divisible(), "{more}: {error}"),
            Ok(groups) => drop(groups),
        }
        drop(column);
        assert_eq!(budget.in_use(), 0, "{more}");
    }
}
