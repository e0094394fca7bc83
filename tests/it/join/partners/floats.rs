//! As-of joins of floats with NaN, infinities and zeros of both signs, against a plain computation.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;

use crate::join::partners::tunings;
use crate::support::answer::{forced, stock};
use crate::support::session::session;
use crate::support::tables::register;

/// Values of both sides. `greatest` is that of the type.
fn values(greatest: f64) -> Vec<Option<f64>> {
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    let values = [
        0.0, -0.0, 1.5, 4.5, -4.0, greatest, -greatest, nan, infinity, -infinity,
    ];
    values.into_iter().map(Some).chain([None]).collect()
}

/// A comparison of SQL: NaN is the greatest value and equal to itself, and both zeros are equal.
fn is_at_most(a: f64, b: f64) -> bool {
    (a + 0.0).total_cmp(&(b + 0.0)).is_le()
}

/// The value of the partner of `left`. An order tells the zeros.
fn partner(
    left: f64,
    direction: &str,
    tolerance: Option<f64>,
    values: &[Option<f64>],
) -> Option<f64> {
    let values = values.iter().flatten().copied();
    let far = |value: f64| (value - left).abs();
    match direction {
        "backward" => {
            let is_near = |v: f64| tolerance.is_none_or(|by| is_at_most(left - by, v));
            let partners = values.filter(|v| is_at_most(*v, left) && is_near(*v));
            partners.max_by(f64::total_cmp)
        }
        "forward" => {
            let is_near = |v: f64| tolerance.is_none_or(|by| is_at_most(v, left + by));
            let partners = values.filter(|v| is_at_most(left, *v) && is_near(*v));
            partners.min_by(f64::total_cmp)
        }
        _ => {
            // No comparison is true of a distance that is NaN, as NaN is greater than all tolerances.
            let is_near = |v: f64| tolerance.is_none_or(|by| is_at_most(far(v), by));
            let partners = values.filter(|v| is_near(*v));
            partners.min_by(|a, b| far(*a).total_cmp(&far(*b)).then(a.total_cmp(b)))
        }
    }
}

/// Values as a type shows them.
fn shown(values: &[Option<f64>], data_type: &DataType) -> Vec<String> {
    let values: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    let values = cast(&values, data_type).unwrap();
    let texts = (0..values.len()).map(|row| array_value_to_string(&values, row).unwrap());
    texts.collect()
}

#[tokio::test]
async fn partners_of_floats_are_those_of_a_plain_computation() {
    for (data_type, greatest) in [
        (DataType::Float64, f64::MAX),
        (DataType::Float32, f64::from(f32::MAX)),
    ] {
        let ctx = session();
        let values = values(greatest);
        let ids = Int64Array::from_iter_values(0..values.len() as i64);
        let column: ArrayRef = Arc::new(Float64Array::from(values.clone()));
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(ids)),
            ("v", cast(&column, &data_type).unwrap()),
        ];
        let table = RecordBatch::try_from_iter(columns).unwrap();
        register(&ctx, "a", &table);
        register(&ctx, "b", &table);
        for direction in ["backward", "forward", "nearest"] {
            for tolerance in [None, Some(0.0), Some(-0.0), Some(3.0), Some(1e300)] {
                let argument = match tolerance {
                    Some(by) => format!("CAST('{by:e}' AS DOUBLE)"),
                    None => "NULL".to_string(),
                };
                let sql = format!(
                    "SELECT id, v_right FROM bowtie_asof('a', 'b', 'v', NULL, '{direction}', {argument})"
                );
                let partners = values
                    .iter()
                    .map(|left| partner((*left)?, direction, tolerance, &values));
                let partners = shown(&partners.collect::<Vec<_>>(), &data_type);
                let rows = partners.iter().enumerate();
                let mut expected: Vec<String> = rows.map(|(id, v)| format!("{id}|{v}")).collect();
                expected.sort();
                let given = stock(&ctx, &sql).await.unwrap();
                assert_eq!(given.rows(), expected, "{data_type} {sql}");
                for tuning in tunings(0, 3) {
                    let given = forced(&ctx, &sql, &tuning).await.unwrap();
                    assert_eq!(
                        given.rows(),
                        expected,
                        "{data_type} {sql}\n{tuning:?}\n{}",
                        given.plan
                    );
                }
            }
        }
    }
}
