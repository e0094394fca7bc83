//! `tokens`.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::support::session::session;
use crate::support::tables::register;
use crate::text_functions::{TEXTS, column_of, error, ids, lists, random_text, text_types, value};

/// The words of [`TEXTS`], by the rules of UAX #29.
const WORDS: [&[&str]; TEXTS.len()] = [
    &[],
    &[],
    &[],
    &["a"],
    &["ab"],
    &["abc"],
    &[
        "The", "quick", "brown", "fox", "can't", "jump", "32.3", "feet", "right",
    ],
    &["to", "be", "or", "not", "to", "be"],
    &[],
    &["cafe\u{301}", "noe\u{308}l"],
    &[],
    &["統", "計", "数", "字", "カタカナ"],
    &["family"],
    &[],
    &["Iğdır", "ısı", "İstanbul"],
    &["Straße", "STRASSE", "ẞ"],
    &["שלום", "עולם"],
    &["مرحبا", "بالعالم"],
    // A control of the direction belongs to the word before it.
    &["x\u{202e}y", "z"],
    &["x"],
    &["a", "b"],
    &["line", "line"],
    &[
        "nine", "and", "ninety", "words", "and", "then", "some", "more", "of", "them", "éèê",
    ],
];

#[tokio::test]
async fn words_of_every_script_and_type_of_text() {
    let texts = TEXTS.map(str::to_string);
    let words = WORDS.map(|words| {
        Some(
            words
                .iter()
                .map(|word| word.to_string())
                .collect::<Vec<_>>(),
        )
    });
    let expected: Vec<Option<Vec<String>>> = words.into_iter().chain([None]).collect();
    for data_type in text_types() {
        let ctx = session();
        let columns = [
            ("id", ids(texts.len() + 1)),
            ("t", column_of(&texts, &data_type)),
        ];
        register(&ctx, "r", &RecordBatch::try_from_iter(columns).unwrap());
        let given = lists(&ctx, "SELECT id, tokens(t) FROM r").await;
        for (i, (given, expected)) in given.iter().zip(&expected).enumerate() {
            assert_eq!(given, expected, "{data_type} {:?}", texts.get(i));
        }
        assert_eq!(given.len(), expected.len());
    }
}

#[tokio::test]
async fn random_words() {
    let rng = &mut StdRng::seed_from_u64(1);
    let texts: Vec<String> = (0..500).map(|_| random_text(rng)).collect();
    let ctx = session();
    let columns = [
        ("id", ids(texts.len() + 1)),
        ("t", column_of(&texts, &DataType::Utf8View)),
    ];
    register(&ctx, "r", &RecordBatch::try_from_iter(columns).unwrap());
    let given = lists(&ctx, "SELECT id, tokens(t) FROM r").await;
    for (text, given) in texts.iter().zip(&given) {
        let words = text.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty()).map(str::to_string);
        assert_eq!(given, &Some(words.collect()), "{text:?}");
    }
    assert_eq!(given.last(), Some(&None));
}

#[tokio::test]
async fn constants() {
    let ctx = session();
    for (sql, expected) in [
        (
            "SELECT tokens('It can''t be, or can it?')",
            "[It, can't, be, or, can, it]",
        ),
        ("SELECT tokens(lower('Of MICE'))", "[of, mice]"),
        ("SELECT tokens('')", "[]"),
        ("SELECT tokens(NULL)", "NULL"),
        ("SELECT tokens(CAST(NULL AS VARCHAR))", "NULL"),
        (
            "SELECT arrow_typeof(tokens(arrow_cast('a', 'LargeUtf8')))",
            "List(Utf8)",
        ),
        (
            "SELECT count(*) FROM (SELECT 1 WHERE false) t(a) WHERE tokens('a b') IS NULL",
            "0",
        ),
        (
            "SELECT sum(cardinality(tokens('a b'))) FROM generate_series(1, 100)",
            "200",
        ),
        (
            "SELECT array_jaccard(tokens('a b c'), tokens('b, c; d'))",
            "0.5",
        ),
    ] {
        assert_eq!(value(&ctx, sql).await, expected, "{sql}");
    }
    for (sql, expected) in [
        (
            "SELECT tokens(1)",
            "tokens takes text, not Int64: cast it to VARCHAR",
        ),
        ("SELECT tokens('a', 'b')", "tokens"),
        ("SELECT tokens()", "tokens"),
    ] {
        let error = error(&ctx, sql).await;
        assert!(
            error.contains("planning") && error.contains(expected),
            "{sql}: {error}"
        );
    }
}
