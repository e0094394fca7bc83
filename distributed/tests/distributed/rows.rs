//! Answers that can be compared.

use std::cmp::Ordering;
use std::fmt;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;

/// Relative difference that two orders of adding floats may show.
const TOLERANCE: f64 = 1e-9;

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Null,
    Text(String),
    Float(f64),
}

/// A row of an answer. As text its values are between `|`, and NULL is empty.
#[derive(Clone)]
pub(crate) struct Row(Vec<Value>);

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, value) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("|")?;
            }
            match value {
                Value::Null => {}
                Value::Text(text) => f.write_str(text)?,
                Value::Float(float) => write!(f, "{float}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl PartialEq<&str> for Row {
    fn eq(&self, text: &&str) -> bool {
        let shown = self.to_string();
        shown == *text
    }
}

impl PartialEq<String> for Row {
    fn eq(&self, text: &String) -> bool {
        *self == text.as_str()
    }
}

impl Row {
    /// Floats come last, so that those that differ by rounding do not part rows that are equal but for them.
    fn order(&self, other: &Self) -> Ordering {
        let exact = |row: &Self| -> Vec<Option<String>> {
            let values = row.0.iter();
            let exact = values.filter(|value| !matches!(value, Value::Float(_)));
            exact
                .map(|value| match value {
                    Value::Text(text) => Some(text.clone()),
                    _ => None,
                })
                .collect()
        };
        let floats = |row: &Self| -> Vec<f64> {
            let floats = row.0.iter().filter_map(|value| match value {
                Value::Float(float) => Some(*float),
                _ => None,
            });
            floats.collect()
        };
        let by_floats = || {
            let (ours, theirs) = (floats(self), floats(other));
            let mut pairs = ours.iter().zip(&theirs);
            pairs
                .find_map(|(a, b)| Some(a.total_cmp(b)).filter(|order| order.is_ne()))
                .unwrap_or(Ordering::Equal)
        };
        exact(self).cmp(&exact(other)).then_with(by_floats)
    }

    /// Whether the rows are equal, but for the rounding of floats.
    fn is_similar(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        let similar = |(ours, theirs): (&Value, &Value)| match (ours, theirs) {
            (Value::Float(a), Value::Float(b)) => {
                a == b
                    || (a.is_nan() && b.is_nan())
                    || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
            }
            _ => ours == theirs,
        };
        self.0.len() == other.0.len() && pairs.all(similar)
    }
}

/// The rows of a query, sorted.
pub(crate) async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<Row>> {
    let mut rows = ordered_rows(context, sql).await?;
    rows.sort_by(Row::order);
    Ok(rows)
}

/// As [`rows`], in the order in which they come.
pub(crate) async fn ordered_rows(context: &SessionContext, sql: &str) -> Result<Vec<Row>> {
    let mut rows = vec![];
    for batch in context.sql(sql).await?.collect().await? {
        rows.extend(rows_of(&batch));
    }
    Ok(rows)
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let columns = batch.columns().iter();
    // Sums of floats are added in another order.
    let columns: Vec<ArrayRef> = columns
        .map(|column| {
            if column.data_type().is_floating() {
                cast(column, &DataType::Float64).unwrap()
            } else {
                column.clone()
            }
        })
        .collect();
    let value = |column: &ArrayRef, row: usize| match column.data_type() {
        _ if column.is_null(row) => Value::Null,
        DataType::Float64 => Value::Float(column.as_primitive::<Float64Type>().value(row)),
        _ => Value::Text(array_value_to_string(column, row).unwrap()),
    };
    let row = |row| Row(columns.iter().map(|column| value(column, row)).collect());
    (0..batch.num_rows()).map(row).collect()
}

/// Checks that two answers have the same rows, in the same order.
pub(crate) fn assert_same(sql: &str, expected: &[Row], given: &[Row]) {
    let mut pairs = expected.iter().zip(given);
    if expected.len() == given.len() && pairs.all(|(a, b)| a.is_similar(b)) {
        return;
    }
    let are_in = |row: &Row, rows: &[Row]| rows.iter().any(|other| other.is_similar(row));
    let missing = expected.iter().filter(|row| !are_in(row, given));
    let surplus = given.iter().filter(|row| !are_in(row, expected));
    panic!(
        "{sql}\n{} rows {:?} …, not {} {:?} …; missing {:#?}, surplus {:#?}",
        given.len(),
        &given[..given.len().min(5)],
        expected.len(),
        &expected[..expected.len().min(5)],
        missing.take(5).collect::<Vec<_>>(),
        surplus.take(5).collect::<Vec<_>>(),
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
