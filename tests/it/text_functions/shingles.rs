//! `shingles`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::answer::answer;
use crate::support::session::{session, set};
use crate::support::tables::register;
use crate::text_functions::{TEXTS, column_of, error, ids, lists, random_text, text_types, value};

/// All windows of `n` parts, or all parts where there are fewer.
fn windows(parts: &[String], n: usize, separator: &str) -> Vec<String> {
    match parts.len() {
        0 => vec![],
        count => {
            let windows = parts.windows(n.min(count));
            windows.map(|window| window.join(separator)).collect()
        }
    }
}

fn of_characters(text: &str, n: usize) -> Vec<String> {
    let characters: Vec<String> = text.chars().map(String::from).collect();
    windows(&characters, n, "")
}

#[tokio::test]
async fn characters_of_every_script_and_type_of_text() {
    let texts = TEXTS.map(str::to_string);
    for data_type in text_types() {
        let ctx = session();
        let columns = [
            ("id", ids(texts.len() + 1)),
            ("t", column_of(&texts, &data_type)),
        ];
        register(&ctx, "r", &RecordBatch::try_from_iter(columns).unwrap());
        for n in [1, 2, 3, 4, 5, 6, 7, 11, 1_000] {
            let texts = texts.iter().map(|text| Some(of_characters(text, n)));
            let expected: Vec<_> = texts.chain([None]).collect();
            for unit in ["", ", 'char'", ", 'CHAR'"] {
                let sql = format!("SELECT id, shingles(t, {n}{unit}) FROM r");
                assert_eq!(lists(&ctx, &sql).await, expected, "{data_type} {sql}");
            }
        }
    }
}

/// Words are compared with those of `tokens`, which has a test of its own.
#[tokio::test]
async fn words_of_every_script() {
    let rng = &mut StdRng::seed_from_u64(2);
    let random = (0..200).map(|_| random_text(rng));
    let texts: Vec<String> = TEXTS
        .map(str::to_string)
        .into_iter()
        .chain(random)
        .collect();
    let ctx = session();
    let columns = [
        ("id", ids(texts.len() + 1)),
        ("t", column_of(&texts, &DataType::Utf8)),
    ];
    register(&ctx, "r", &RecordBatch::try_from_iter(columns).unwrap());
    let words = lists(&ctx, "SELECT id, tokens(t) FROM r").await;
    for n in [1, 2, 3, 100] {
        let of_words = |words: &Option<Vec<String>>| Some(windows(words.as_ref()?, n, " "));
        let expected: Vec<_> = words.iter().map(of_words).collect();
        let sql = format!("SELECT id, shingles(t, {n}, 'word') FROM r");
        assert_eq!(lists(&ctx, &sql).await, expected, "{sql}");
    }
}

/// Every argument may be a column or a constant, and NULL.
#[tokio::test]
async fn lengths_and_units_by_row() {
    let rng = &mut StdRng::seed_from_u64(3);
    let rows = 300;
    let texts: Vec<String> = (1..rows).map(|_| random_text(rng)).collect();
    let lengths: Vec<Option<i64>> = (0..rows)
        .map(|_| rng.random_bool(0.9).then(|| rng.random_range(1..7)))
        .collect();
    let units: Vec<Option<&str>> = (0..rows)
        .map(|_| {
            let unit = ["char", "word", "Word"][rng.random_range(0..3)];
            rng.random_bool(0.9).then_some(unit)
        })
        .collect();
    let text = |row: usize| texts.get(row).map(String::as_str);
    let naive = |text: Option<&str>, n: Option<i64>, unit: Option<&str>| {
        let (text, n, unit) = (text?, n? as usize, unit?);
        if unit == "char" {
            return Some(of_characters(text, n));
        }
        let words = text.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(str::to_string).collect();
        Some(windows(&words, n, " "))
    };
    for integer in [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
    ] {
        let ctx = session();
        let n: ArrayRef = Arc::new(Int64Array::from(lengths.clone()));
        let columns = [
            ("id", ids(rows)),
            ("t", column_of(&texts, &DataType::Utf8View)),
            ("n", cast(&n, &integer).unwrap()),
            ("unit", Arc::new(StringArray::from(units.clone()))),
        ];
        register(&ctx, "r", &RecordBatch::try_from_iter(columns).unwrap());
        let by_row = |of: &dyn Fn(usize) -> Option<Vec<String>>| -> Vec<Option<Vec<String>>> {
            (0..rows).map(of).collect()
        };
        let cases: [(&str, Vec<_>); 5] = [
            (
                "shingles(t, n, unit)",
                by_row(&|row| naive(text(row), lengths[row], units[row])),
            ),
            (
                "shingles(t, n)",
                by_row(&|row| naive(text(row), lengths[row], Some("char"))),
            ),
            (
                "shingles(t, 2, unit)",
                by_row(&|row| naive(text(row), Some(2), units[row])),
            ),
            (
                "shingles('wörter, a b!', n, unit)",
                by_row(&|row| naive(Some("wörter, a b!"), lengths[row], units[row])),
            ),
            ("shingles(t, n, NULL)", by_row(&|_| None)),
        ];
        for (call, expected) in cases {
            let given = lists(&ctx, &format!("SELECT id, {call} FROM r")).await;
            assert_eq!(given, expected, "{integer} {call}");
        }
    }
}

#[tokio::test]
async fn constants() {
    let ctx = session();
    for (sql, expected) in [
        ("SELECT shingles('joins', 3)", "[joi, oin, ins]"),
        (
            "SELECT shingles('To be, or not', 2, 'word')",
            "[To be, be or, or not]",
        ),
        ("SELECT shingles('aaaa', 2)", "[aa, aa, aa]"),
        ("SELECT shingles('', 2)", "[]"),
        ("SELECT shingles('?!', 2, 'word')", "[]"),
        ("SELECT shingles('ab', 9223372036854775807)", "[ab]"),
        ("SELECT shingles(NULL, 2)", "NULL"),
        ("SELECT shingles('ab', NULL)", "NULL"),
        ("SELECT shingles('ab', 2, NULL)", "NULL"),
        ("SELECT shingles('abc', arrow_cast(2, 'UInt8'))", "[ab, bc]"),
        ("SELECT arrow_typeof(shingles('abc', 2))", "List(Utf8)"),
        (
            "SELECT sum(cardinality(shingles('abc', 2))) FROM generate_series(1, 100)",
            "200",
        ),
    ] {
        assert_eq!(value(&ctx, sql).await, expected, "{sql}");
    }
}

/// The example of the page on functions.
#[tokio::test]
async fn near_duplicates() {
    let page = include_str!("../../../docs/reference/functions.md");
    let (_, example) = page.split_once("CREATE TABLE titles").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let (table, example) = example.split_once(';').unwrap();
    let (query, rows) = example.split_once(';').unwrap();
    let expected: Vec<&str> = rows.split("-- ").skip(1).map(str::trim).collect();
    let ctx = session();
    let made = ctx.sql(&format!("CREATE TABLE titles{table}")).await;
    made.unwrap().collect().await.unwrap();
    for offload in ["off", "force"] {
        set(&ctx, "bowtie.offload", offload);
        let answer = answer(&ctx, query).await.unwrap();
        assert_eq!(answer.plan.contains("Bowtie"), offload == "force");
        let options = FormatOptions::default();
        let mut given = vec![];
        for batch in &answer.batches {
            let columns = batch.columns().iter();
            let columns: Vec<_> = columns
                .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
                .collect();
            for row in 0..batch.num_rows() {
                let cells = columns.iter().map(|column| column.value(row).to_string());
                given.push(cells.collect::<Vec<_>>().join(", "));
            }
        }
        assert_eq!(given, expected);
    }
}

#[tokio::test]
async fn wrong_arguments_are_errors() {
    let ctx = session();
    let n = "n is how many characters or words a shingle has";
    for (sql, expected) in [
        ("SELECT shingles('a', 0)", format!("shingles takes an n of 1 or more, not 0: {n}")),
        ("SELECT shingles('a', -3, 'word')", format!("shingles takes an n of 1 or more, not -3: {n}")),
        (
            "SELECT shingles(t, 0) FROM (VALUES ('a')) r(t) WHERE false",
            format!("shingles takes an n of 1 or more, not 0: {n}"),
        ),
        (
            "SELECT shingles('a', 2, 'line')",
            "shingles takes 'char' or 'word' as its third argument, not 'line'".into(),
        ),
        ("SELECT shingles(1, 2)", "shingles takes text, not Int64: cast it to VARCHAR".into()),
        (
            "SELECT shingles('a', 2.5)",
            "shingles takes a whole number, not Float64: cast it to BIGINT".into(),
        ),
        (
            "SELECT shingles('a', '2')",
            "shingles takes a whole number, not Utf8: cast it to BIGINT".into(),
        ),
        ("SELECT shingles('a', 2, 3)", "shingles takes text, not Int64".into()),
        (
            "SELECT shingles('a')",
            "shingles takes a text, the length of a shingle, and 'char' or 'word' if need be, not 1 arguments".into(),
        ),
    ] {
        let error = error(&ctx, sql).await;
        assert!(error.contains("planning") && error.contains(&expected), "{sql}: {error}");
    }
    for (sql, expected) in [
        (
            "SELECT shingles('ab', n - 5) FROM (VALUES (6), (5)) r(n)",
            format!("shingles takes an n of 1 or more, not 0: {n}"),
        ),
        (
            "SELECT shingles('ab', 1, unit) FROM (VALUES ('word'), ('byte')) r(unit)",
            "not 'byte'".into(),
        ),
        (
            "SELECT shingles(t, 50000) FROM (SELECT repeat('a', 100000) AS t) r",
            "shingles makes more than 2147483647 bytes of text of one batch: lower datafusion.execution.batch_size".into(),
        ),
    ] {
        let error = error(&ctx, sql).await;
        assert!(error.contains(&expected), "{sql}: {error}");
    }
    // Where the result is NULL, nothing is wrong.
    let sql = "SELECT count(shingles(t, n)) FROM (VALUES (NULL, 0), ('a', NULL), ('a', 1)) r(t, n)";
    assert_eq!(value(&ctx, sql).await, "1");
}
