//! Answers that can be compared.

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;

/// The rows of a query as text, sorted. Sums of floats are added in another order.
pub(crate) async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let mut rows = ordered_rows(context, sql).await?;
    rows.sort();
    Ok(rows)
}

/// As [`rows`], in the order in which they come.
pub(crate) async fn ordered_rows(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let mut rows = vec![];
    for batch in context.sql(sql).await?.collect().await? {
        rows.extend((0..batch.num_rows()).map(|row| shown(&batch, row)));
    }
    Ok(rows)
}

fn shown(batch: &RecordBatch, row: usize) -> String {
    let values = batch
        .columns()
        .iter()
        .map(|column| match column.data_type() {
            DataType::Float64 if column.is_valid(row) => {
                format!("{:.9e}", column.as_primitive::<Float64Type>().value(row))
            }
            _ => array_value_to_string(column, row).unwrap(),
        });
    values.collect::<Vec<_>>().join("|")
}

/// Checks that two answers have the same rows.
pub(crate) fn assert_same(sql: &str, expected: &[String], given: &[String]) {
    if expected == given {
        return;
    }
    let missing: Vec<_> = expected
        .iter()
        .filter(|row| !given.contains(row))
        .take(5)
        .collect();
    let surplus: Vec<_> = given
        .iter()
        .filter(|row| !expected.contains(row))
        .take(5)
        .collect();
    panic!(
        "{sql}\n{} rows, not {}; missing {missing:#?}, surplus {surplus:#?}",
        given.len(),
        expected.len()
    );
}

pub(crate) async fn set(context: &SessionContext, settings: &[(&str, &str)]) {
    for (key, value) in settings {
        let statement = format!("SET {key} = '{value}'");
        context.sql(&statement).await.unwrap();
    }
}

/// The plan of a query with its metrics, as EXPLAIN ANALYZE shows it.
pub(crate) async fn analyzed(context: &SessionContext, sql: &str) -> Result<String> {
    let frame = context.sql(&format!("EXPLAIN ANALYZE {sql}")).await?;
    frame.to_string().await
}
