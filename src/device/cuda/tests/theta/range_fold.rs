//! Folds over ranges, and sums of columns.

use crate::device::cuda::tests::theta::range::Sides;
use crate::device::cuda::tests::*;
use crate::device::primitives::folds::FoldPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::fold::RangeFold;

/// Compares sums, counts and extremes over ranges, and weighted values.
pub(crate) fn same_folds(
    host: &HostDevice,
    gpu: &CudaDevice,
    sides: &Sides,
    of_host: Matches<'_>,
    of_gpu: Matches<'_>,
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
    let weights = host
        .cover(of_host.build, of_host.ranges, sides.rows)
        .unwrap();
    let weights_on_gpu = gpu.cover(of_gpu.build, of_gpu.ranges, sides.rows).unwrap();
    for array in values {
        let column = host.upload(from_ref(&array)).unwrap();
        let column_on_gpu = gpu.upload(from_ref(&array)).unwrap();
        let what = format!("{what}: {}", array.data_type());
        let same = |of_host: Column, of_gpu: Column, of: &str| {
            let of_gpu = gpu.download(&of_gpu).unwrap();
            let floats = of_host.on_host().unwrap().as_primitive_opt::<Float64Type>();
            match (floats, of_gpu.as_primitive_opt::<Float64Type>()) {
                // The same additions in the same order.
                (Some(of_host), Some(of_gpu)) => assert_eq!(of_host, of_gpu, "{what}: {of}"),
                _ => assert_eq!(of_host.on_host().unwrap(), &of_gpu, "{what}: {of}"),
            }
        };
        let m = sides.probe_rows;
        let is_summed = array.data_type() != &DataType::Utf8;
        for fold in [
            RangeFold::Count,
            RangeFold::Min,
            RangeFold::Max,
            RangeFold::Sum,
        ] {
            if fold != RangeFold::Sum || is_summed {
                same(
                    host.fold_ranges(fold, &column, of_host, m).unwrap(),
                    gpu.fold_ranges(fold, &column_on_gpu, of_gpu, m).unwrap(),
                    &format!("{fold:?} of ranges"),
                );
            }
        }
        // As many values as there are probe rows.
        let rows = Vec::from_iter((0..m as u32).map(|row| row % (array.len() as u32).max(1)));
        let of_probe = match array.is_empty() {
            true => new_null_array(array.data_type(), m),
            false => take(&array, &UInt32Array::from(rows), None).unwrap(),
        };
        let probe_column = host.upload(from_ref(&of_probe)).unwrap();
        let probe_on_gpu = gpu.upload(from_ref(&of_probe)).unwrap();
        for fold in [
            RangeFold::Count,
            RangeFold::Min,
            RangeFold::Max,
            RangeFold::Sum,
        ] {
            if fold == RangeFold::Sum && !is_summed {
                continue;
            }
            let of_host = host.fold_covers(fold, &probe_column, of_host, sides.rows);
            let of_gpu = gpu.fold_covers(fold, &probe_on_gpu, of_gpu, sides.rows);
            same_sums(
                of_host.unwrap().on_host().unwrap(),
                &gpu.download(&of_gpu.unwrap()).unwrap(),
                &format!("{what}: {fold:?} of covers"),
            );
        }
        same(
            host.weigh_count(Some(&column), &weights).unwrap(),
            gpu.weigh_count(Some(&column_on_gpu), &weights_on_gpu)
                .unwrap(),
            "weigh_count",
        );
        if is_summed {
            let sum = host.sum(&column).unwrap();
            let sum_on_gpu = gpu.download(&gpu.sum(&column_on_gpu).unwrap()).unwrap();
            same_sums(sum.on_host().unwrap(), &sum_on_gpu, &what);
            same(
                host.weigh(&column, &weights).unwrap(),
                gpu.weigh(&column_on_gpu, &weights_on_gpu).unwrap(),
                "weigh",
            );
        }
    }
    for array in close_floats(&words) {
        let column = host.upload(from_ref(&array)).unwrap();
        let column_on_gpu = gpu.upload(from_ref(&array)).unwrap();
        for fold in [RangeFold::Min, RangeFold::Max] {
            let m = sides.probe_rows;
            let of_host = host.fold_ranges(fold, &column, of_host, m).unwrap();
            let of_gpu = gpu.fold_ranges(fold, &column_on_gpu, of_gpu, m).unwrap();
            let of_gpu = gpu.download(&of_gpu).unwrap();
            assert_eq!(
                of_host.on_host().unwrap(),
                &of_gpu,
                "{what}: {}",
                array.data_type()
            );
        }
    }
}

/// Floats of each width that compare equal, or are NaN, and differ in their bits.
pub(crate) fn close_floats(words: &[u64]) -> Vec<ArrayRef> {
    let values = [0.0, -0.0, 1.5, f64::NAN, -f64::NAN, -2.0];
    let drawn = words
        .iter()
        .map(|w| (w % 7 > 0).then(|| values[(w % 6) as usize]));
    let doubles: ArrayRef = Arc::new(drawn.collect::<Float64Array>());
    let narrow = |to: DataType| arrow::compute::cast(&doubles, &to).unwrap();
    vec![
        narrow(DataType::Float32),
        narrow(DataType::Float16),
        Arc::clone(&doubles),
    ]
}

/// Equal up to the rounding of floats, which are added in another order.
fn same_sums(of_host: &ArrayRef, of_gpu: &ArrayRef, what: &str) {
    let floats = of_host.as_primitive_opt::<Float64Type>();
    match (floats, of_gpu.as_primitive_opt::<Float64Type>()) {
        (Some(of_host), Some(of_gpu)) => {
            assert_eq!(of_host.len(), of_gpu.len(), "{what}");
            for (row, (of_host, of_gpu)) in of_host.iter().zip(of_gpu).enumerate() {
                let close = match (of_host, of_gpu) {
                    (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
                    (a, b) => a == b,
                };
                assert!(close, "{what}: {of_gpu:?} for {of_host:?} in row {row}");
            }
        }
        _ => assert_eq!(of_host, of_gpu, "{what}: sum"),
    }
}
