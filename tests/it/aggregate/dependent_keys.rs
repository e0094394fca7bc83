//! Groups by keys that are functionally dependent on an integer key.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{cast, take};

use crate::aggregate::check::{check, tunings};
use crate::aggregate::short_text::types;
use crate::support::session::session;
use crate::support::tables::register;

/// Keys that depend on an integer key, as columns of a joined dimension table do, and keys that do so in all rows but one.
#[tokio::test]
async fn keys_that_follow_from_a_number() {
    const CUSTOMERS: u32 = 40;
    let ctx = session();
    let rows: UInt32Array = (0..500).map(|row| Some(row * 7919 % CUSTOMERS)).collect();
    let of_rows = |column: &ArrayRef| take(column, &rows, None).unwrap();
    let numbers: Int64Array = (0..CUSTOMERS)
        .map(|i| Some(i64::from(i) * 1_000_003))
        .collect();
    let numbers: ArrayRef = Arc::new(numbers);
    let text = |length: usize| {
        let value = |i: u32| (!i.is_multiple_of(9)).then(|| format!("{i} {}", "n".repeat(length)));
        (0..CUSTOMERS).map(value).collect::<StringArray>()
    };
    for data_type in types() {
        // The rows that share a value share its view.
        let text = |length| of_rows(&cast(&text(length), &data_type).unwrap());
        let nearly = (0..500).map(|row| match row == 333 {
            true => "another name".to_owned(),
            false => format!("the name of {}", row * 7919 % CUSTOMERS),
        });
        let nearly = StringArray::from_iter_values(nearly);
        let columns: [(&str, ArrayRef); 6] = [
            ("k", of_rows(&numbers)),
            ("phone", text(9)),
            ("name", text(20)),
            ("comment", text(90)),
            ("nearly", cast(&nearly, &data_type).unwrap()),
            ("v", Arc::new((0..500).map(Some).collect::<Int64Array>())),
        ];
        let columns = columns.map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        register(&ctx, "c", &batch);
        for (turn, keys) in [
            "k, name, phone, comment",
            "comment, k, nearly",
            "k % 7, comment",
            "k, CAST(k AS DOUBLE) * 0, phone",
        ]
        .into_iter()
        .enumerate()
        {
            println!("{data_type}: {keys}");
            let sql = format!("SELECT {keys}, count(*), sum(v), var_pop(v) FROM c GROUP BY {keys}");
            check(&ctx, &sql, tunings(turn * 3, 3)).await;
            let sql = format!("SELECT DISTINCT {keys} FROM c");
            check(&ctx, &sql, tunings(turn * 3 + 1, 2)).await;
        }
    }
}
