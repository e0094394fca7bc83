//! Compares answers as multisets of rows.

use std::cmp::Ordering;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::support::answer::Answer;

/// Relative difference that two orders of adding floats may show.
const TOLERANCE: f64 = 1e-9;

/// A row: its columns as text but for floats that are computed, which are compared with a tolerance.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    text: String,
    floats: Vec<Option<f64>>,
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
            missing.take(5).collect::<Vec<_>>(),
            surplus.take(5).collect::<Vec<_>>(),
        ));
    }
    Ok(())
}

fn rows(answer: &Answer, is_computed: &impl Fn(&DataType) -> bool) -> Vec<Row> {
    let mut rows = vec![];
    for batch in &answer.batches {
        let options = FormatOptions::default().with_null("NULL");
        let (computed, exact): (Vec<_>, Vec<_>) = batch
            .columns()
            .iter()
            .partition(|column| is_computed(column.data_type()));
        let exact: Vec<ArrayFormatter> = exact
            .into_iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        let computed: Vec<ArrayRef> = computed
            .into_iter()
            .map(|column| cast(column, &DataType::Float64).unwrap())
            .collect();
        for i in 0..batch.num_rows() {
            let text: Vec<String> = exact.iter().map(|f| f.value(i).to_string()).collect();
            let floats = computed
                .iter()
                .map(|c| {
                    c.is_valid(i)
                        .then(|| c.as_primitive::<Float64Type>().value(i))
                })
                .collect();
            rows.push(Row {
                text: text.join("|"),
                floats,
            });
        }
    }
    rows.sort_by(|a, b| {
        let floats = || {
            let pairs = a.floats.iter().zip(&b.floats);
            pairs
                .map(|(a, b)| match (a, b) {
                    (Some(a), Some(b)) => a.total_cmp(b),
                    _ => a.is_some().cmp(&b.is_some()),
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        a.text.cmp(&b.text).then_with(floats)
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
    a.text == b.text && a.floats.iter().zip(&b.floats).all(|(a, b)| close(a, b))
}
