//! Compares answers as multisets of rows.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::row::{RowConverter, SortField};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::support::answer::Answer;

/// Relative difference that two orders of adding floats may show.
const TOLERANCE: f64 = 1e-9;

/// How the values of a column are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// As arrow's row format has them: NULL differs from every value, and neighbouring columns do not run together.
    Bytes,
    /// As text: of floats, nested ones too, all NaNs are equal.
    Text,
    /// As numbers that may differ by rounding.
    Tolerance,
}

/// A row of an answer.
#[derive(Debug)]
struct Row {
    bytes: Vec<u8>,
    text: Vec<Option<String>>,
    computed: Vec<Option<f64>>,
    /// The batch, and the row in it.
    at: (usize, usize),
}

/// Whether two answers are the same multiset of rows, with floats exact.
pub(crate) fn same_rows(expected: &Answer, given: &Answer) -> Result<(), String> {
    compare(expected, given, |_| false)
}

/// As [`same_rows`], but floats may differ by rounding.
pub(crate) fn similar_rows(expected: &Answer, given: &Answer) -> Result<(), String> {
    compare(expected, given, DataType::is_floating)
}

fn compare(
    expected: &Answer,
    given: &Answer,
    is_computed: impl Fn(&DataType) -> bool,
) -> Result<(), String> {
    let types = |answer: &Answer| -> Vec<(String, DataType)> {
        let fields = answer.schema.fields().iter();
        fields
            .map(|f| (f.name().clone(), f.data_type().clone()))
            .collect()
    };
    if types(expected) != types(given) {
        return Err(format!(
            "schemas differ\nexpected {:?}\n   given {:?}",
            expected.schema, given.schema
        ));
    }
    keeps_its_promise(expected)?;
    keeps_its_promise(given)?;
    let (want, have) = (rows(expected, &is_computed), rows(given, &is_computed));
    if want.len() != have.len() || !want.iter().zip(&have).all(|(a, b)| is_similar(a, b)) {
        let missing = want
            .iter()
            .filter(|a| !have.iter().any(|b| is_similar(a, b)));
        let surplus = have
            .iter()
            .filter(|a| !want.iter().any(|b| is_similar(a, b)));
        return Err(format!(
            "expected {} rows, given {}\nmissing {:#?}\nsurplus {:#?}",
            want.len(),
            have.len(),
            missing
                .take(5)
                .map(|row| shown(expected, row))
                .collect::<Vec<_>>(),
            surplus
                .take(5)
                .map(|row| shown(given, row))
                .collect::<Vec<_>>(),
        ));
    }
    Ok(())
}

/// Whether no column has a NULL that the plan says has none.
fn keeps_its_promise(answer: &Answer) -> Result<(), String> {
    for (i, field) in answer.schema.fields().iter().enumerate() {
        let columns = answer.batches.iter().map(|batch| batch.column(i));
        let nulls: usize = columns.map(|column| column.logical_null_count()).sum();
        if nulls > 0 && !field.is_nullable() {
            return Err(format!(
                "{} has {nulls} NULLs, but is not nullable\n{}",
                field.name(),
                answer.plan
            ));
        }
    }
    Ok(())
}

/// Whether values of a type are floats, or contain some.
fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_floats(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Union(fields, _) => fields
            .iter()
            .any(|(_, field)| has_floats(field.data_type())),
        DataType::Dictionary(_, values) => has_floats(values),
        DataType::RunEndEncoded(_, values) => has_floats(values.data_type()),
        other => other.is_floating(),
    }
}

fn rows(answer: &Answer, is_computed: &impl Fn(&DataType) -> bool) -> Vec<Row> {
    let how = |data_type: &DataType| match data_type {
        _ if is_computed(data_type) => By::Tolerance,
        _ if has_floats(data_type) => By::Text,
        _ if RowConverter::supports_fields(&[SortField::new(data_type.clone())]) => By::Bytes,
        _ => By::Text,
    };
    let fields = answer.schema.fields();
    let compared: Vec<By> = fields.iter().map(|field| how(field.data_type())).collect();
    let in_bytes = fields.iter().zip(&compared);
    let in_bytes = in_bytes.filter(|(_, by)| **by == By::Bytes);
    let in_bytes = in_bytes.map(|(field, _)| SortField::new(field.data_type().clone()));
    let converter = RowConverter::new(in_bytes.collect()).unwrap();
    let mut rows = vec![];
    for (number, batch) in answer.batches.iter().enumerate() {
        let columns_by = |wanted: By| -> Vec<ArrayRef> {
            let columns = batch.columns().iter().zip(&compared);
            let columns = columns.filter(|(_, by)| **by == wanted);
            columns.map(|(column, _)| Arc::clone(column)).collect()
        };
        let in_bytes = columns_by(By::Bytes);
        let bytes = (!in_bytes.is_empty()).then(|| converter.convert_columns(&in_bytes).unwrap());
        let as_text = columns_by(By::Text);
        let options = FormatOptions::default();
        let as_text: Vec<_> = as_text
            .iter()
            .map(|column| {
                let text = ArrayFormatter::try_new(column, &options).unwrap();
                (text, column.logical_nulls())
            })
            .collect();
        let computed: Vec<ArrayRef> = columns_by(By::Tolerance)
            .iter()
            .map(|column| cast(column, &DataType::Float64).unwrap())
            .collect();
        for i in 0..batch.num_rows() {
            let text = as_text.iter().map(|(text, nulls)| {
                let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(i));
                (!is_null).then(|| text.value(i).to_string())
            });
            let computed = computed.iter().map(|column| {
                let value = column.as_primitive::<Float64Type>().value(i);
                // NaNs of both signs have one place.
                let value = if value.is_nan() { f64::NAN } else { value };
                column.is_valid(i).then_some(value)
            });
            rows.push(Row {
                bytes: bytes
                    .as_ref()
                    .map_or_else(Vec::new, |bytes| bytes.row(i).as_ref().to_vec()),
                text: text.collect(),
                computed: computed.collect(),
                at: (number, i),
            });
        }
    }
    rows.sort_by(|a, b| {
        let computed = || {
            let pairs = a.computed.iter().zip(&b.computed);
            pairs
                .map(|(a, b)| match (a, b) {
                    (Some(a), Some(b)) => a.total_cmp(b),
                    _ => a.is_some().cmp(&b.is_some()),
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        let exact = (&a.bytes, &a.text).cmp(&(&b.bytes, &b.text));
        exact.then_with(computed)
    });
    rows
}

fn is_similar(a: &Row, b: &Row) -> bool {
    let close = |a: &Option<f64>, b: &Option<f64>| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) if a.is_nan() || b.is_nan() => a.is_nan() && b.is_nan(),
        (Some(a), Some(b)) => a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
        _ => false,
    };
    let mut computed = a.computed.iter().zip(&b.computed);
    a.bytes == b.bytes && a.text == b.text && computed.all(|(a, b)| close(a, b))
}

/// A row as a message has it.
fn shown(answer: &Answer, row: &Row) -> String {
    let (batch, row) = row.at;
    let options = FormatOptions::default().with_null("NULL");
    let columns = answer.batches[batch].columns().iter();
    let values = columns.map(|column| {
        let text = ArrayFormatter::try_new(column, &options).unwrap();
        text.value(row).to_string()
    });
    values.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, RecordBatch, StringArray};

    fn of(columns: Vec<(&str, ArrayRef)>) -> Answer {
        let columns = columns
            .into_iter()
            .map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        Answer {
            plan: String::new(),
            schema: batch.schema(),
            batches: vec![batch],
        }
    }

    fn texts(a: [Option<&str>; 2], b: [Option<&str>; 2]) -> Answer {
        let column =
            |values: [Option<&str>; 2]| -> ArrayRef { Arc::new(StringArray::from_iter(values)) };
        of(vec![("a", column(a)), ("b", column(b))])
    }

    #[test]
    fn rows_differ_by_their_values() {
        let one = texts([Some("a|b"), None], [Some("c"), Some("x")]);
        let swapped = texts([None, Some("a|b")], [Some("x"), Some("c")]);
        same_rows(&one, &swapped).unwrap();
        for other in [
            texts([Some("a"), None], [Some("b|c"), Some("x")]),
            texts([Some("a|b"), Some("NULL")], [Some("c"), Some("x")]),
            texts([Some("a|b"), Some("")], [Some("c"), Some("x")]),
            texts([Some("a|b"), Some("a|b")], [Some("c"), Some("c")]),
        ] {
            same_rows(&one, &other).unwrap_err();
        }
    }

    #[test]
    fn computed_floats_have_a_tolerance() {
        let floats = |values: [f64; 2]| {
            let values = Float64Array::from_iter_values(values);
            of(vec![("x", Arc::new(values) as ArrayRef)])
        };
        let sums = floats([0.1 + 0.2, f64::NAN]);
        similar_rows(&sums, &floats([-f64::NAN, 0.3])).unwrap();
        same_rows(&sums, &floats([0.3, f64::NAN])).unwrap_err();
        similar_rows(&sums, &floats([0.300001, f64::NAN])).unwrap_err();
    }
}
