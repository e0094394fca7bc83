//! Columns that outlive their arrays, as other streams read them.

use crate::device::cuda::tests::*;
use crate::device::host::columns::values::concat_arrays;
use crate::device::primitives::rows::RowPrimitives;

/// A handle of the same card, with a stream and a budget of its own.
fn another_handle(gpu: &CudaDevice) -> Arc<dyn Device> {
    let budget = Budget::new(gpu.budget().limit());
    gpu.attach(budget, Arc::default()).unwrap()
}

/// Columns of every type that is kept.
fn kept_columns(random: &mut Random, n: usize, kind: usize) -> Vec<ArrayRef> {
    let text: Vec<Option<String>> = (0..n)
        .map(|i| match random.below(5) {
            0 if kind > 0 => None,
            1 => Some(String::new()),
            2 => Some(format!("{i}")),
            _ => Some(format!("é, and a text that no view holds inline {i}")),
        })
        .collect();
    let text: ArrayRef = Arc::new(StringArray::from(text));
    let types = [
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::LargeUtf8,
        DataType::Binary,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    ];
    let others = types.map(|to| cast(&text, &to).unwrap());
    let fixed = columns(random, n, kind);
    fixed.into_iter().chain([text]).chain(others).collect()
}

#[test]
fn kept_columns_are_read_on_other_streams() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let reader = another_handle(&gpu);
    let mut random = Random(29);
    for (kind, n) in [0, 1, 33, 1000, 8193, 65_537].into_iter().enumerate() {
        for array in kept_columns(&mut random, n, kind) {
            let data_type = array.data_type().clone();
            assert!(gpu.keeps(&data_type), "{data_type}");
            let (third, half) = (n / 3, n / 2);
            let parts = [
                array.slice(third, half - third),
                array.slice(0, third),
                array.slice(half, n - half),
            ];
            let expected = concat_arrays(&parts).unwrap();
            let kept = Arc::new(gpu.upload_kept(&parts).unwrap());
            gpu.settle().unwrap();
            let weak = Arc::downgrade(&array);
            drop((parts, array));
            assert_eq!(weak.strong_count(), 0, "{data_type} keeps its array");
            let borrowed = reader.borrow(vec![Arc::clone(&kept)]).unwrap();
            assert_eq!(borrowed[0].bytes(), kept.bytes());
            // The owner may give it up while the reader's kernels are under way.
            let rows = random.rows(if n == 0 { 0 } else { 70_000 }, n);
            let on_gpu: ArrayRef = Arc::new(UInt32Array::from(rows.clone()));
            let on_gpu = reader.upload(&[on_gpu]).unwrap();
            let on_gpu = Arc::into_inner(on_gpu).unwrap().into_row_ids().unwrap();
            let gathered = reader.gather(&borrowed[0], &on_gpu).unwrap();
            assert_eq!(
                &reader.download(&borrowed[0]).unwrap(),
                &expected,
                "{data_type} of {n}"
            );
            drop((borrowed, kept));
            let taken = take(&expected, &UInt32Array::from(rows), None).unwrap();
            assert_eq!(
                &reader.download(&gathered).unwrap(),
                &taken,
                "{data_type} of {n}"
            );
        }
    }
}

/// Views that are kept as text, beside views that a query uploads.
#[test]
fn kept_views_and_others_are_put_together() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let array: ArrayRef = Arc::new(StringViewArray::from_iter(
        (0..500).map(|i| (i % 9 != 0).then(|| "x".repeat(i % 31))),
    ));
    let kept = gpu.upload_kept(&[array.slice(0, 200)]).unwrap();
    let other = gpu.upload(&[array.slice(200, 300)]).unwrap();
    let together = gpu.concat(&[&kept, &other]).unwrap();
    assert_eq!(&gpu.download(&together).unwrap(), &array);
}
