//! Groups by short text of each type, alone and with other keys. A GPU encodes such text as integers.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::aggregate::check::{check, tunings};
use crate::support::session::session;
use crate::support::tables::register;

pub(crate) fn types() -> Vec<DataType> {
    let dictionary = |keys, values| DataType::Dictionary(Box::new(keys), Box::new(values));
    vec![
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        dictionary(DataType::Int16, DataType::Utf8),
        dictionary(DataType::Int32, DataType::Utf8View),
    ]
}

/// Few distinct values of at most `most` characters, longer from row to row: empty ones, NULLs, trailing zero bytes, and characters of
/// several bytes.
fn growing(rows: usize, most: usize, random: &mut StdRng) -> ArrayRef {
    const ALPHABET: [&str; 5] = ["a", "\0", "b", "ß", "z"];
    let value = |row: usize, random: &mut StdRng| {
        let length = random.random_range(0..=(row * (most + 1) / rows).min(most));
        let end = ALPHABET[random.random_range(0..ALPHABET.len())];
        let begin = "a".repeat(length.saturating_sub(1));
        match length {
            0 => String::new(),
            _ => begin + end,
        }
    };
    let values = (0..rows).map(|row| {
        let value = value(row, random);
        (!random.random_bool(0.1)).then_some(value)
    });
    Arc::new(values.collect::<StringArray>())
}

/// Columns `c1`, `c3`, `c7` and `c9` of at most 1, 3, 7 and 9 characters, `flag` of one character and without NULLs, all of `data_type`;
/// and an integer `v`.
fn register_text(ctx: &SessionContext, rows: usize, data_type: &DataType) {
    let random = &mut StdRng::seed_from_u64(rows as u64);
    let mut columns: Vec<(&str, ArrayRef)> = ["c1", "c3", "c7", "c9"]
        .into_iter()
        .zip([1, 3, 7, 9])
        .map(|(name, most)| (name, growing(rows, most, random)))
        .collect();
    let flags = (0..rows).map(|_| ["N", "R", "A"][random.random_range(0..3)]);
    columns.push(("flag", Arc::new(StringArray::from_iter_values(flags))));
    for (_, column) in &mut columns {
        *column = cast(column, data_type).unwrap();
    }
    let numbers = (0..rows as i64).map(|row| (row % 13 > 0).then_some(row * 7919 % 1009));
    columns.push(("v", Arc::new(numbers.collect::<Int64Array>())));
    let nullable = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(nullable).unwrap();
    register(ctx, "r", &batch);
}

#[tokio::test]
async fn short_text_of_each_type() {
    let ctx = session();
    for (turn, data_type) in types().iter().enumerate() {
        register_text(&ctx, 400, data_type);
        for (i, keys) in ["c1", "c3", "c7", "c9", "flag", "flag, c1", "c7, c3, v % 5"]
            .into_iter()
            .enumerate()
        {
            println!("{data_type}: {keys}");
            let sql =
                format!("SELECT {keys}, count(*), sum(v), min(v), avg(v) FROM r GROUP BY {keys}");
            check(&ctx, &sql, tunings(turn * 5 + i * 3, 4)).await;
        }
    }
}

#[tokio::test]
async fn short_text_beside_other_keys_and_in_other_aggregates() {
    let ctx = session();
    for (turn, data_type) in [DataType::Utf8, DataType::Utf8View, DataType::Binary]
        .iter()
        .enumerate()
    {
        register_text(&ctx, 300, data_type);
        for (i, sql) in [
            "SELECT DISTINCT c1 FROM r",
            "SELECT DISTINCT c7, flag, c9 FROM r",
            "SELECT c1, flag, v % 3, count(v), max(c7) FROM r GROUP BY c1, flag, v % 3",
            "SELECT c9, c1, CAST(v AS DOUBLE) / 2, count(*) FROM r GROUP BY c9, c1, CAST(v AS DOUBLE) / 2",
            "SELECT flag, count(DISTINCT c3), count(DISTINCT c9) FROM r GROUP BY flag",
            "SELECT count(DISTINCT c1) FROM r",
            "SELECT c1, c3, grouping(c1), sum(v) FROM r GROUP BY ROLLUP (c1, c3)",
            "SELECT flag, c7, count(*) FROM r GROUP BY GROUPING SETS ((flag, c7), (c7), ())",
            "SELECT c3, var_samp(v), stddev_pop(v) FROM r GROUP BY c3",
            "SELECT c3, c1, var_samp(v), count(*) FROM r GROUP BY c3, c1",
            "SELECT c1, median(v), first_value(v ORDER BY v DESC) FROM r GROUP BY c1",
            "SELECT c1, count(*) FROM (SELECT c1, c7, count(*) FROM r GROUP BY c1, c7) GROUP BY c1",
        ]
        .into_iter()
        .enumerate()
        {
            println!("{data_type}: {sql}");
            check(&ctx, sql, tunings(turn * 5 + i * 3, 4)).await;
        }
    }
}

/// No row, one row, and NULLs alone.
#[tokio::test]
async fn no_text_at_all() {
    let ctx = session();
    for data_type in types() {
        for rows in [0, 1, 40] {
            let nulls: ArrayRef = arrow::array::new_null_array(&data_type, rows);
            let batch = RecordBatch::try_from_iter_with_nullable([("c", nulls, true)]).unwrap();
            register(&ctx, "r", &batch);
            check(
                &ctx,
                "SELECT c, count(*) FROM r GROUP BY c",
                tunings(rows, 4),
            )
            .await;
        }
    }
}
