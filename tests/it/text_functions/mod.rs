//! The SQL functions that make sets of text, compared with plain implementations: `words`, `shingles` and `minhash`.

mod minhash;
mod shingles;
mod words;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use rand::Rng;
use rand::rngs::StdRng;

use crate::support::answer::answer;

/// Texts with marks, scripts and symbols of all kinds.
const TEXTS: [&str; 23] = [
    "",
    " ",
    " \t\n ",
    "a",
    "ab",
    "abc",
    "The quick (\"brown\") fox can't jump 32.3 feet, right?",
    "to be, or not to be",
    "!?… – —",
    "cafe\u{301} noe\u{308}l",
    "\u{301}",
    "統計数字 カタカナ",
    "👨\u{200d}👩\u{200d}👧 family 👍🏽",
    "🇩🇪🇫🇷",
    "Iğdır ısı İstanbul",
    "Straße STRASSE ẞ",
    "שלום עולם",
    "مرحبا بالعالم",
    "x\u{202e}y z",
    "\u{d7ff}\u{e000}x\u{10ffff}",
    "a\u{0}b",
    "line\r\nline",
    "nine and ninety words, and then some more of them: éèê",
];

/// The types of text.
fn text_types() -> Vec<DataType> {
    let dictionary = |key, value| DataType::Dictionary(Box::new(key), Box::new(value));
    vec![
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary(DataType::Int32, DataType::Utf8),
        dictionary(DataType::UInt8, DataType::LargeUtf8),
    ]
}

/// The texts as a column of a type, with a NULL behind them.
fn column_of(texts: &[String], data_type: &DataType) -> ArrayRef {
    let texts = texts.iter().map(|text| Some(text.as_str())).chain([None]);
    let plain: ArrayRef = Arc::new(StringArray::from_iter(texts));
    cast(&plain, data_type).unwrap()
}

fn ids(rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..rows as i64))
}

/// Words, some with letters outside ASCII, between spaces and punctuation that joins no words.
fn random_text(rng: &mut StdRng) -> String {
    let plain = ["a", "b", "C", "3", "7", " ", "  ", "-", "!"];
    let wide = ["é", "ß", "ı", "д", "…"];
    let letters = match rng.random_bool(0.5) {
        true => plain.to_vec(),
        false => [&plain[..], &wide[..]].concat(),
    };
    let length = rng.random_range(0..30);
    let pick = |_| letters[rng.random_range(0..letters.len())];
    (0..length).map(pick).collect()
}

/// The lists of text in column 1, in the order of the numbers in column 0.
async fn lists(ctx: &SessionContext, sql: &str) -> Vec<Option<Vec<String>>> {
    let answer = answer(ctx, sql).await;
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = concat_batches(&answer.schema, &answer.batches).unwrap();
    let order = rows.column(0).as_primitive::<Int64Type>();
    let lists = rows.column(1).as_list::<i32>();
    assert_eq!(lists.value_type(), DataType::Utf8, "{sql}");
    let mut of_rows = vec![None; rows.num_rows()];
    for (row, id) in order.values().iter().enumerate() {
        if lists.is_valid(row) {
            let list = lists.value(row);
            let list = list.as_string::<i32>();
            let elements = (0..list.len()).map(|i| list.value(i).to_string());
            of_rows[*id as usize] = Some(elements.collect());
        }
    }
    of_rows
}

/// The one value of a query.
async fn value(ctx: &SessionContext, sql: &str) -> String {
    let answer = answer(ctx, sql).await;
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let options = FormatOptions::default().with_null("NULL");
    let column = answer.batches[0].column(0);
    let format = ArrayFormatter::try_new(column, &options).unwrap();
    format.value(0).to_string()
}

/// The error with which a query fails, in planning or when it runs.
async fn error(ctx: &SessionContext, sql: &str) -> String {
    let error = answer(ctx, sql).await.expect_err(sql);
    error.strip_backtrace()
}
