//! Random tables, cut into batches of uneven size.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int64Array, PrimitiveArray, RecordBatch, StringArray, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Float64Type, Int32Type, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::key_types::domain;

/// `rows` values drawn from `domain`; NULL with probability `nulls`.
pub(crate) fn drawn(rng: &mut StdRng, domain: &ArrayRef, rows: usize, nulls: f64) -> ArrayRef {
    let picks: UInt32Array = (0..rows)
        .map(|_| {
            let pick = rng.random_range(0..domain.len() as u32);
            (!rng.random_bool(nulls)).then_some(pick)
        })
        .collect();
    take(domain, &picks, None).unwrap()
}

fn ids(rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..rows as i64))
}

/// A batch whose columns may be NULL if they have a NULL, be it among the values of a dictionary.
pub(crate) fn batch_of<N: AsRef<str>>(
    columns: impl IntoIterator<Item = (N, ArrayRef)>,
) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| {
        let is_nullable = column.logical_null_count() > 0;
        (name, column, is_nullable)
    });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// `id`, and two columns `k` and `l` of `data_type`.
pub(crate) fn keyed_table(data_type: &DataType, rows: usize, nulls: f64, seed: u64) -> RecordBatch {
    let rng = &mut StdRng::seed_from_u64(seed);
    let values = domain(data_type);
    let (k, l) = (
        drawn(rng, &values, rows, nulls),
        drawn(rng, &values, rows, nulls),
    );
    batch_of([("id", ids(rows)), ("k", k), ("l", l)])
}

/// `id`; integers `a`, `b`, `g`, `lo`, `hi`; float `c` without NaN; text `t`. All but `id` may be NULL.
pub(crate) fn mixed_table(rows: usize, nulls: f64, seed: u64) -> RecordBatch {
    let rng = &mut StdRng::seed_from_u64(seed);
    let mut integers = |most: i32| -> PrimitiveArray<Int32Type> {
        (0..rows)
            .map(|_| {
                let value = rng.random_range(0..most);
                (!rng.random_bool(nulls)).then_some(value)
            })
            .collect()
    };
    let (a, b, g, lo, length) = (
        integers(20),
        integers(10),
        integers(4),
        integers(30),
        integers(6),
    );
    let hi: PrimitiveArray<Int32Type> = lo
        .iter()
        .zip(&length)
        .map(|(lo, length)| Some(lo? + length?))
        .collect();
    let c: PrimitiveArray<Float64Type> = integers(12)
        .iter()
        .map(|v| v.map(|v| f64::from(v) / 4.0 - 1.0))
        .collect();
    let t: StringArray = integers(26)
        .iter()
        .map(|v| v.map(|v| format!("{}{}", (b'a' + v as u8) as char, v % 3)))
        .collect();
    RecordBatch::try_from_iter([
        ("id", ids(rows)),
        ("a", Arc::new(a) as ArrayRef),
        ("b", Arc::new(b)),
        ("g", Arc::new(g)),
        ("lo", Arc::new(lo)),
        ("hi", Arc::new(hi)),
        ("c", Arc::new(c)),
        ("t", Arc::new(t)),
    ])
    .unwrap()
}

/// Registers `batch` in two partitions, as slices of uneven size, empty ones among them.
pub(crate) fn register(ctx: &SessionContext, name: &str, batch: &RecordBatch) {
    let rng = &mut StdRng::seed_from_u64(batch.num_rows() as u64);
    let mut partitions = vec![vec![], vec![]];
    let mut from = 0;
    while from < batch.num_rows() {
        let rows = rng.random_range(0..=17).min(batch.num_rows() - from);
        partitions[rng.random_range(0..2)].push(batch.slice(from, rows));
        from += rows;
    }
    register_partitions(ctx, name, batch.schema(), partitions);
}

/// `id` from 0 to rows - 1, its permutation `a`, and text `t` of `width` bytes, or NULL where that is 0.
pub(crate) fn permuted_table(rows: i64, width: usize) -> RecordBatch {
    let a = Int64Array::from_iter_values((0..rows).map(|i| i * 7919 % rows));
    let t: StringArray = (0..rows)
        .map(|i| (width > 0).then(|| "0".repeat(width - 5) + &format!("{i:05}")))
        .collect();
    RecordBatch::try_from_iter_with_nullable([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef,
            false,
        ),
        ("a", Arc::new(a), false),
        ("t", Arc::new(t), true),
    ])
    .unwrap()
}

/// Registers `batch` in one partition, as it is.
pub(crate) fn register_whole(ctx: &SessionContext, name: &str, batch: RecordBatch) {
    register_batches(ctx, name, vec![batch]);
}

/// Registers `batches` in one partition, in their order.
pub(crate) fn register_batches(ctx: &SessionContext, name: &str, batches: Vec<RecordBatch>) {
    register_partitions(ctx, name, batches[0].schema(), vec![batches]);
}

/// Registers the batches of each partition; a table of that name is replaced.
pub(crate) fn register_partitions(
    ctx: &SessionContext,
    name: &str,
    schema: SchemaRef,
    partitions: Vec<Vec<RecordBatch>>,
) {
    let table = MemTable::try_new(schema, partitions).unwrap();
    ctx.deregister_table(name).unwrap();
    ctx.register_table(name, Arc::new(table)).unwrap();
}

/// Registers a permuted table as batches of `rows_each` rows.
pub(crate) fn register_in_pieces(ctx: &SessionContext, name: &str, rows: i64, rows_each: i64) {
    let schema = permuted_table(1, 0).schema();
    let batches = (0..rows / rows_each)
        .map(|piece| {
            let ids = (piece * rows_each)..((piece + 1) * rows_each);
            let a = Int64Array::from_iter_values(ids.clone().map(|i| i * 7919 % rows));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(ids)),
                Arc::new(a),
                Arc::new(StringArray::new_null(rows_each as usize)),
            ];
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        })
        .collect();
    register_batches(ctx, name, batches);
}
