//! The SQL functions of lists as sets, compared with their definitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::support::answer::answer;
use crate::support::key_types::orderable_types;
use crate::support::lists::{Shape, typed_table, with_lists};
use crate::support::session::{session, set};
use crate::support::tables::register;

/// The value of each function for two sets, by its definition.
fn naive(function: &str, a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    let shared = a.intersection(b).count() as f64;
    let (size_a, size_b) = (a.len() as f64, b.len() as f64);
    let ratio = |part: f64, whole: f64| match (part, whole) {
        (_, 0.0) if a == b || function == "containment" => 1.0,
        (_, 0.0) => 0.0,
        _ => part / whole,
    };
    match function {
        "overlap" => shared,
        "jaccard" => ratio(shared, a.union(b).count() as f64),
        "dice" => ratio(2.0 * shared, size_a + size_b),
        "cosine" => ratio(shared, (size_a * size_b).sqrt()),
        "containment" => ratio(shared, size_a.min(size_b)),
        other => panic!("{other}"),
    }
}

/// The elements of a list as text; different elements have different texts.
fn elements(list: &ArrayRef, row: usize) -> Option<BTreeSet<String>> {
    let list = list.as_list::<i32>();
    if list.is_null(row) {
        return None;
    }
    let values = list.value(row);
    let options = FormatOptions::default().with_null("NULL");
    let text = |i: usize| match values.as_any().downcast_ref::<Float64Array>() {
        Some(floats) if floats.is_valid(i) => format!("{:x}", floats.value(i).to_bits()),
        _ => {
            let format = ArrayFormatter::try_new(&values, &options).unwrap();
            format!("{}{}", values.is_null(i), format.value(i))
        }
    };
    Some((0..values.len()).map(text).collect())
}

const FUNCTIONS: [&str; 5] = ["overlap", "jaccard", "dice", "cosine", "containment"];

#[tokio::test]
async fn functions_say_what_they_are_defined_to() {
    let shape = |seed| Shape {
        rows: 40,
        longest: 7,
        nulls: 0.15,
        seed,
    };
    for data_type in [
        DataType::Int32,
        DataType::Float64,
        DataType::Utf8,
        DataType::Boolean,
        DataType::Decimal128(20, 3),
        DataType::Date32,
    ] {
        let ctx = session();
        set(&ctx, "bowtie.offload", "off");
        let (r, s) = (
            typed_table(&data_type, shape(3)),
            typed_table(&data_type, shape(4)),
        );
        register(&ctx, "r", &r);
        register(&ctx, "s", &s);
        for function in FUNCTIONS {
            let sql = format!(
                "SELECT r.id AS i, s.id AS j, array_{function}(r.v, s.v) AS d, list_{function}(s.v, r.v) AS e FROM r CROSS JOIN s"
            );
            let answer = answer(&ctx, &sql).await.unwrap();
            let rows = concat_batches(&answer.schema, &answer.batches).unwrap();
            let id = |column: usize, row: usize| {
                rows.column(column)
                    .as_any()
                    .downcast_ref::<Int64Array>()
                    .unwrap()
                    .value(row) as usize
            };
            for row in 0..rows.num_rows() {
                let sets = (
                    elements(r.column(5), id(0, row)),
                    elements(s.column(5), id(1, row)),
                );
                let expected = match &sets {
                    (Some(a), Some(b)) => Some(naive(function, a, b)),
                    _ => None,
                };
                for column in [2, 3] {
                    let column = rows.column(column);
                    let value = match column.data_type() {
                        _ if column.is_null(row) => None,
                        DataType::Int64 => Some(
                            column
                                .as_primitive::<arrow::datatypes::Int64Type>()
                                .value(row) as f64,
                        ),
                        _ => Some(
                            column
                                .as_primitive::<arrow::datatypes::Float64Type>()
                                .value(row),
                        ),
                    };
                    assert_eq!(value, expected, "{data_type} {function} {sets:?}");
                }
            }
        }
    }
}

/// Lists of every kind and element type, one list for all rows, and constants.
#[tokio::test]
async fn kinds_of_lists_and_constants() {
    let shape = Shape {
        rows: 20,
        longest: 5,
        nulls: 0.1,
        seed: 1,
    };
    for data_type in orderable_types() {
        let ctx = session();
        let batch = typed_table(&data_type, shape);
        register(&ctx, "r", &batch);
        let sql = "SELECT count(*) FROM r WHERE array_jaccard(v, v) = 1 AND array_overlap(v, v) = cardinality(array_distinct(v))";
        let plain = format!(
            "{sql} OR v IS NULL OR (cardinality(v) IS NULL AND array_overlap(v, v) = 0) OR array_length(v) IS NULL"
        );
        // Neither bowtie's functions nor DataFusion's refuse one of these types.
        let answer = answer(&ctx, &plain).await;
        let answer = answer.unwrap_or_else(|error| panic!("{data_type}: {error}"));
        let count = answer.batches[0]
            .column(0)
            .as_primitive::<arrow::datatypes::Int64Type>()
            .value(0);
        // array_distinct counts zeros of both signs once, so it may find fewer.
        assert!(count > 10, "{data_type}: {count}");
    }
    let ctx = session();
    let batch = typed_table(&DataType::Int32, shape);
    let field = Arc::new(Field::new_list_field(DataType::Int32, true));
    let large = DataType::LargeList(field.clone());
    register(&ctx, "r", &batch);
    register(&ctx, "l", &with_lists(&batch, &large));
    for (sql, expected) in [
        ("SELECT array_overlap([1, 2, 2, 3], [2, 3, 4])", "2"),
        ("SELECT array_jaccard([1, 2, 3, 3], [2, 3, 4, 5])", "0.4"),
        ("SELECT array_dice([], [])", "1.0"),
        ("SELECT array_containment([], [1])", "1.0"),
        ("SELECT array_cosine([], [1])", "0.0"),
        ("SELECT array_overlap([1, NULL], [NULL, 2])", "1"),
        ("SELECT array_overlap([1], NULL) IS NULL", "true"),
        (
            "SELECT array_jaccard(arrow_cast([1, 2], 'FixedSizeList(2, Int64)'), [1, 2])",
            "1.0",
        ),
        (
            "SELECT array_jaccard([1, 2], [1.0, 2.5])",
            "0.3333333333333333",
        ),
        (
            "SELECT array_jaccard(arrow_cast(['a'], 'LargeList(Utf8)'), ['a', 'b'])",
            "0.5",
        ),
        (
            "SELECT count(*) FROM r JOIN l ON r.id = l.id AND array_jaccard(r.v, l.v) = 1",
            "19",
        ),
        ("SELECT max(array_overlap(v, [1, 2, 3])) FROM r", "2"),
    ] {
        let answer = answer(&ctx, sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        let column = answer.batches[0].column(0);
        let format = ArrayFormatter::try_new(column, &FormatOptions::default()).unwrap();
        assert_eq!(format.value(0).to_string(), expected, "{sql}");
    }
}

/// Before anything runs, and of tables without rows, too.
#[tokio::test]
async fn wrong_types_are_errors_of_planning() {
    let ctx = session();
    let maps = "(SELECT [named_struct('a', 1)] AS v) AS t";
    for (sql, expected) in [
        ("SELECT array_overlap(1, 2)".to_string(), "array_overlap"),
        (
            "SELECT array_overlap([[1]], [[1]])".into(),
            "array_overlap takes arrays with elements of one plain type, not List(Int64) and List(Int64)",
        ),
        (
            format!("SELECT list_jaccard(t.v, t.v) FROM {maps} WHERE false"),
            "array_jaccard takes arrays with elements of one plain type, not Struct",
        ),
        (
            format!("SELECT 1 FROM {maps} JOIN {maps}2 ON array_dice(t.v, t2.v) >= 0.5"),
            "array_dice takes arrays with elements of one plain type",
        ),
    ] {
        let planned = match ctx.sql(&sql).await {
            Ok(query) => query.create_physical_plan().await,
            Err(error) => Err(error),
        };
        let error = planned.expect_err(&sql).strip_backtrace();
        let (_, of_planning) = error
            .split_once("Error during planning: ")
            .unwrap_or_else(|| panic!("{sql}: {error}"));
        assert!(of_planning.contains(expected), "{sql}: {error}");
    }
}
