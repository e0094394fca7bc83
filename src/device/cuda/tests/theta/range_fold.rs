//! Folds over ranges, and sums of columns.

use crate::device::cuda::tests::theta::range::Sides;
use crate::device::cuda::tests::*;
use crate::device::primitives::folds::FoldPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;

/// Compares sums, counts and extremes over ranges, and weighted values.
pub(crate) fn same_folds(
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
    let weights = host.cover(here.build, here.ranges, sides.rows).unwrap();
    let weights_there = gpu.cover(there.build, there.ranges, sides.rows).unwrap();
    for array in values {
        let column = host.upload(from_ref(&array)).unwrap();
        let column_there = gpu.upload(from_ref(&array)).unwrap();
        let what = format!("{what}: {}", array.data_type());
        let same = |here: Column, there: Column, of: &str| {
            let there = gpu.download(&there).unwrap();
            let floats = here.on_host().unwrap().as_primitive_opt::<Float64Type>();
            match (floats, there.as_primitive_opt::<Float64Type>()) {
                // The same additions in the same order.
                (Some(here), Some(there)) => assert_eq!(here, there, "{what}: {of}"),
                _ => assert_eq!(here.on_host().unwrap(), &there, "{what}: {of}"),
            }
        };
        let m = sides.probe_rows;
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
            same_sum(sum.on_host().unwrap(), &sum_there, &what);
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
    for array in close_floats(&words) {
        let column = host.upload(from_ref(&array)).unwrap();
        let column_there = gpu.upload(from_ref(&array)).unwrap();
        for max in [false, true] {
            let m = sides.probe_rows;
            let here = host.range_extreme(&column, here, m, max).unwrap();
            let there = gpu.range_extreme(&column_there, there, m, max).unwrap();
            let there = gpu.download(&there).unwrap();
            assert_eq!(
                here.on_host().unwrap(),
                &there,
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
