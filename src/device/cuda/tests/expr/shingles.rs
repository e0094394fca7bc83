//! Lists of the windows of texts against the reference: downloaded, gathered, concatenated, and as the sides of a set join.

use crate::device::cuda::tests::columns::text::text_columns;
use crate::device::cuda::tests::sets::compare::{Sides, compare};
use crate::device::cuda::tests::*;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::set_predicate::{SetMeasure, SetPredicate, SetTechnique};
use crate::ir::side::Side;

fn is_plain_text(array: &ArrayRef) -> bool {
    use DataType::*;
    matches!(array.data_type(), Utf8 | LargeUtf8 | Utf8View)
}

#[test]
fn windows_of_characters() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(94);
    for (i, n) in SIZES.into_iter().enumerate() {
        for kind in [i % 6, 5] {
            let columns = text_columns(&mut random, n, kind);
            for array in columns.iter().filter(|array| is_plain_text(array)) {
                windows_of(&host, &gpu, array, &format!("{n}, kind {kind}"));
            }
        }
    }
}

fn windows_of(host: &HostDevice, gpu: &CudaDevice, array: &ArrayRef, what: &str) {
    let of_host = host.upload(from_ref(array)).unwrap();
    let of_gpu = gpu.upload(from_ref(array)).unwrap();
    let back: Vec<u32> = (0..array.len() as u32).rev().collect();
    for length in [1, 2, 5, u32::MAX] {
        let what = format!("{length} of {} of {what}", array.data_type());
        let expected = host.shingle_text(&of_host, length).unwrap();
        let expected = expected.on_host().unwrap();
        let shingled = gpu.shingle_text(&of_gpu, length).unwrap();
        let came = gpu.download(&shingled).unwrap();
        came.to_data().validate_full().unwrap();
        assert_eq!(expected, &came, "{what}");
        let gathered = gpu.gather(&shingled, &on_gpu(gpu, &back)).unwrap();
        let taken = take(expected, &UInt32Array::from(back.clone()), None).unwrap();
        assert_eq!(&gpu.download(&gathered).unwrap(), &taken, "{what}");
        let both = gpu.concat(&[&shingled, &gathered]).unwrap();
        let joined = arrow::compute::concat(&[expected, &taken]).unwrap();
        assert_eq!(&gpu.download(&both).unwrap(), &joined, "{what}");
    }
}

/// Texts that share windows, of one-byte characters or of more; some are NULL, empty, short or equal.
fn texts(random: &mut Random, n: usize, wide: bool) -> ArrayRef {
    let rows = (0..n).map(|_| {
        let length = random.below(30);
        let character = |random: &mut Random| match (wide, random.below(6)) {
            (true, 0) => 'é',
            (true, 1) => '→',
            (_, letter) => (b'a' + letter as u8) as char,
        };
        let text: String = (0..length).map(|_| character(random)).collect();
        (random.below(12) != 0).then_some(text)
    });
    Arc::new(rows.collect::<StringArray>())
}

#[test]
fn windows_as_sets() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(95);
    for (n, wide) in [(1, false), (40, true), (700, false), (600, true)] {
        sets_of(&host, &gpu, &mut random, n, wide);
    }
}

/// Joins of `n` texts with themselves, with others, and with views of these.
fn sets_of(host: &HostDevice, gpu: &CudaDevice, random: &mut Random, n: usize, wide: bool) {
    let indexed = texts(random, n, wide);
    let others = texts(random, n + 9, wide);
    let views = cast(&others, &DataType::Utf8View).unwrap();
    for probe in [&indexed, &others, &views] {
        for grouped in [false, true] {
            for length in [2, 3] {
                join_windows(host, gpu, random, [&indexed, probe], grouped, length);
            }
        }
    }
}

/// Joins of a few texts with views of others, for `few`.
pub(crate) fn few_sets(host: &HostDevice, gpu: &CudaDevice, random: &mut Random) {
    let indexed = texts(random, 60, true);
    let views = cast(&texts(random, 69, true), &DataType::Utf8View).unwrap();
    join_windows(host, gpu, random, [&indexed, &views], true, 2);
}

/// Joins of the texts of an indexed and a probe side as sets of their windows of `length` characters.
fn join_windows(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    [indexed, probe]: [&ArrayRef; 2],
    grouped: bool,
    length: u32,
) {
    let mut ids = |n: usize| (0..n).map(|_| random.below(3) as u32).collect();
    let sides = Sides {
        indexed: Arc::clone(indexed),
        probe: Arc::clone(probe),
        groups: grouped.then(|| (ids(indexed.len()), ids(probe.len()), 3)),
        shingles: Some(length),
    };
    let jaccard = SetPredicate::degree(SetMeasure::Jaccard, 0.3, false).unwrap();
    for (predicate, by) in [
        (jaccard, SetTechnique::Prefix),
        (SetPredicate::Overlap(4), SetTechnique::InvertedIndex),
        (SetPredicate::Contains(Side::Right), SetTechnique::Rarest),
    ] {
        let test = predicate.seen_from(Side::Left);
        compare(host, gpu, &sides, test, &[Some(by), None]);
    }
}
