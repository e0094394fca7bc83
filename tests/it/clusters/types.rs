//! Random pairs of every type.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, TimeUnit};
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{clusters, expected};
use crate::support::key_types::orderable_types;
use crate::support::session::{session, set};
use crate::support::tables::{keyed_table, register};

fn pairs_of(left: ArrayRef, right: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter([("k", left), ("l", right)]).unwrap()
}

/// Checks the clusters of the pairs of `k` and `l`.
async fn check(ctx: &SessionContext, pairs: &RecordBatch, what: &str) {
    register(ctx, "pairs", pairs);
    let sql = "SELECT * FROM bowtie_clusters('SELECT k, l FROM pairs')";
    let (batch, given) = clusters(ctx, sql).await;
    let schema = pairs.schema();
    let of_pairs = schema.field_with_name("k").unwrap().data_type();
    let data_type = match of_pairs {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let column = |name: &str| Field::new(name, data_type.clone(), false);
    let schema = batch.schema();
    let fields: Vec<&Field> = schema.fields().iter().map(|field| field.as_ref()).collect();
    assert_eq!(fields, [&column("id"), &column("cluster")]);
    let [k, l] = ["k", "l"].map(|name| pairs.column_by_name(name).unwrap());
    assert_eq!(given, expected(k, l), "{what}");
}

/// Few pairs of few values, so that there are clusters of all sizes.
#[tokio::test]
async fn every_type() {
    let ctx = session();
    // DataFusion declares the cast of a dictionary as non-nullable where no key is NULL, and fails where a value is. Others are in `many_ids`.
    let is_plain = |data_type: &DataType| !matches!(data_type, DataType::Dictionary(..));
    for data_type in orderable_types().into_iter().filter(is_plain) {
        for (seed, rows) in [0, 1, 2, 3, 3, 4, 4, 5, 40].into_iter().enumerate() {
            let nulls = [0.0, 0.3][seed % 2];
            let pairs = keyed_table(&data_type, rows, nulls, seed as u64);
            check(&ctx, &pairs, &format!("{data_type}, seed {seed}")).await;
        }
    }
}

/// `rows` pairs of numbers from 0 to `most`, some NULL.
fn numbers(rows: usize, most: i64, seed: u64) -> [ArrayRef; 2] {
    let rng = &mut StdRng::seed_from_u64(seed);
    [(); 2].map(|()| {
        let numbers = (0..rows).map(|_| {
            let number = rng.random_range(0..=most);
            (!rng.random_bool(0.05)).then_some(number)
        });
        Arc::new(numbers.collect::<Int64Array>()) as ArrayRef
    })
}

/// Many pairs, in batches of several sizes.
#[tokio::test]
async fn many_ids() {
    use DataType::*;
    let ctx = session();
    let dictionary = |values| Dictionary(Box::new(Int32), Box::new(values));
    let types = [
        Int32,
        Int64,
        UInt16,
        UInt64,
        Float32,
        Float64,
        Decimal128(20, 2),
        Date32,
        Time32(TimeUnit::Second),
        Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Utf8,
        LargeUtf8,
        Utf8View,
        dictionary(Utf8),
        dictionary(Int64),
    ];
    for (seed, data_type) in types.into_iter().enumerate() {
        for (rows, most) in [(3_000, 4_000), (3_000, 12_000), (12_000, 9_000)] {
            let numbers = numbers(rows, most, seed as u64);
            let [k, l] = numbers.map(|column| {
                let narrow = match data_type {
                    Time32(_) => cast(&column, &Int32).unwrap(),
                    _ => column,
                };
                cast(&narrow, &data_type).unwrap()
            });
            for (partitions, batch_size) in [("1", "8192"), ("8", "100")] {
                set(&ctx, "datafusion.execution.target_partitions", partitions);
                set(&ctx, "datafusion.execution.batch_size", batch_size);
                let pairs = pairs_of(k.clone(), l.clone());
                check(&ctx, &pairs, &format!("{data_type}, {rows} rows")).await;
            }
        }
    }
}

/// Structs are compared field by field.
#[tokio::test]
async fn nested_ids() {
    let ctx = session();
    for seed in 0..3 {
        let [k, l] = numbers(400, 300, seed).map(|column| {
            let of_digit = |digit: &dyn Fn(i64) -> i64| -> Vec<Option<i64>> {
                let numbers = column.as_primitive::<arrow::datatypes::Int64Type>().iter();
                numbers.map(|number| number.map(digit)).collect()
            };
            let tens = Int64Array::from(of_digit(&|number| number / 10));
            let ones: StringArray = of_digit(&|number| number % 10)
                .into_iter()
                .map(|number| number.map(|number| format!("{number}")))
                .collect();
            let fields = vec![
                Field::new("tens", DataType::Int64, true),
                Field::new("ones", DataType::Utf8, true),
            ];
            let nulls = column.nulls().cloned();
            let columns: Vec<ArrayRef> = vec![Arc::new(tens), Arc::new(ones)];
            Arc::new(StructArray::new(fields.into(), columns, nulls)) as ArrayRef
        });
        check(&ctx, &pairs_of(k, l), &format!("seed {seed}")).await;
    }
}

/// The zeros are one id, as for GROUP BY; NaN is the last in order.
#[tokio::test]
async fn floats() {
    let ctx = session();
    let k: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, f64::NAN, f64::NAN, 7.0]));
    let l: ArrayRef = Arc::new(Float64Array::from(vec![1.5, 0.0, f64::NAN, f64::NAN]));
    let pairs = pairs_of(k, l);
    check(&ctx, &pairs, "zeros").await;
    let sql = "SELECT * FROM bowtie_clusters('pairs') ORDER BY id";
    let (batch, _) = clusters(&ctx, sql).await;
    let bits = |column: usize| -> Vec<u64> {
        let values = batch.column(column).as_primitive::<Float64Type>().values();
        values.iter().map(|value| value.to_bits()).collect()
    };
    let ids = [0.0, 1.5, 7.0, f64::NAN].map(f64::to_bits);
    assert_eq!(bits(0), ids);
    assert_eq!(bits(1), [0; 4]);
}

/// Columns of two types have their common type in comparisons.
#[tokio::test]
async fn two_types() {
    let ctx = session();
    for (query, data_type) in [
        ("SELECT arrow_cast(1, 'Int8'), 2", DataType::Int64),
        ("SELECT 1, 2.5", DataType::Float64),
        (
            "SELECT arrow_cast('a', 'Utf8View'), 'b'",
            DataType::Utf8View,
        ),
        (
            "SELECT arrow_cast('a', 'Dictionary(Int8, Utf8)'), 'b'",
            DataType::Utf8,
        ),
        ("SELECT 1, NULL", DataType::Int64),
        ("SELECT NULL, 1", DataType::Int64),
    ] {
        let sql = format!("SELECT * FROM bowtie_clusters($${query}$$)");
        let (batch, rows) = clusters(&ctx, &sql).await;
        assert_eq!(*batch.schema().field(0).data_type(), data_type, "{query}");
        assert_eq!(*batch.schema().field(1).data_type(), data_type, "{query}");
        let has_null = query.contains("NULL");
        assert_eq!(rows.len(), if has_null { 1 } else { 2 }, "{query}");
    }
}
