//! Expressions that have no program: evaluated by the distinct values of their column, they give the rows of DataFusion.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;

use crate::support::answer::{Answer, forced, stock};
use crate::support::compare::same_rows;
use crate::support::session::session;
use crate::support::tables::register;
use crate::support::tuning::Tuning;

/// Among them the empty text, letters of several bytes, spaces, and what is too long for a view.
const WORDS: [&str; 20] = [
    "",
    "a",
    "b",
    "ab",
    "Ab",
    "aB",
    "  ab ",
    "é",
    "É😀",
    "a_b",
    "a%b",
    "12",
    "-7",
    "straße",
    "abcabcabcabcabcabc",
    "ABCABCABCABCABCABCABC",
    "x,y,z",
    "ı",
    "b\na",
    "00012",
];

fn types() -> Vec<DataType> {
    let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int32), Box::new(values));
    vec![
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary(DataType::Utf8),
    ]
}

/// Text `t` of few values, or of as many as rows; text `u`; integers `a` and `b`; dates `d` and times `z` of a zone; floats `f`. Each but `id` and
/// `a` may be NULL.
fn table(data_type: &DataType, rows: usize, many: bool) -> RecordBatch {
    let text = |step: usize| -> ArrayRef {
        let texts = (0..rows).map(|i| {
            let word = WORDS[i * step % WORDS.len()];
            (i * step % 23 != 5).then(|| match many {
                true => format!("{word}{i}"),
                false => word.to_string(),
            })
        });
        cast(&StringArray::from_iter(texts), data_type).unwrap()
    };
    let floats = [
        0.0,
        -0.0,
        1.25,
        -3.5,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        1e300,
    ];
    let number = |step: usize, of: usize| {
        (0..rows).map(move |i| (i * step % 19 != 3).then_some((i * step % of) as i64))
    };
    let times = number(11, 400).map(|n| n.map(|n| 1_600_000_000_000 + n * 86_399_977));
    let times = TimestampMillisecondArray::from_iter(times).with_timezone("Europe/Berlin");
    let days = number(3, 900).map(|n| n.map(|n| 11_000 + n as i32));
    RecordBatch::try_from_iter_with_nullable([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..rows as i64)) as ArrayRef,
            false,
        ),
        (
            "a",
            Arc::new(Int64Array::from_iter_values(
                (0..rows).map(|i| i as i64 % 10),
            )),
            false,
        ),
        ("b", Arc::new(Int64Array::from_iter(number(7, 5))), true),
        ("t", text(7), true),
        ("u", text(3), true),
        ("d", Arc::new(Date32Array::from_iter(days)), true),
        ("z", Arc::new(times), true),
        (
            "f",
            Arc::new(Float64Array::from_iter(
                number(5, 8).map(|n| n.map(|n| floats[n as usize])),
            )),
            true,
        ),
    ])
    .unwrap()
}

/// `r` of `rows` rows, and `s` of one row for each value of `a`.
fn tables(data_type: &DataType, rows: usize, many: bool) -> SessionContext {
    let ctx = session();
    register(&ctx, "r", &table(data_type, rows, many));
    register(&ctx, "s", &table(data_type, 10, many));
    ctx
}

/// A projection of the rows of a join, below an aggregation.
fn projected(expression: &str) -> String {
    format!(
        "SELECT x.i, x.k, count(*) FROM (SELECT r.id AS i, {expression} AS k FROM r JOIN s ON r.a = s.a) AS x GROUP BY x.i, x.k"
    )
}

/// A filter of groups, below a join.
fn filtered(condition: &str) -> String {
    format!(
        "SELECT y.id, x.t FROM s AS y JOIN (SELECT a, b, max(t) AS t, min(u) AS u, max(z) AS z, max(id) AS c FROM r GROUP BY a, b) AS x \
         ON y.a = x.a WHERE {condition}"
    )
}

/// Checks that `sql` gives the rows of DataFusion, all of it on the device.
async fn check(ctx: &SessionContext, sql: &str, tunings: impl Iterator<Item = Tuning>) {
    let stock = stock(ctx, sql).await;
    let stock = stock.unwrap_or_else(|e| panic!("{sql}\nfails in DataFusion: {e}"));
    for tuning in tunings {
        let given = forced(ctx, sql, &tuning).await;
        let given = given.unwrap_or_else(|e| panic!("{sql}\n{tuning:?}\nfails when forced: {e}"));
        is_on_device(sql, &given);
        if let Err(difference) = same_rows(&stock, &given) {
            panic!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan);
        }
    }
}

fn is_on_device(sql: &str, given: &Answer) {
    for host in ["  ProjectionExec", "  FilterExec", "  AggregateExec"] {
        assert!(!given.plan.contains(host), "{host}: {sql}\n{}", given.plan);
    }
    let downloads = given.plan.matches("BowtieDownloadExec").count();
    assert_eq!(downloads, 1, "{sql}\n{}", given.plan);
}

/// Expressions of the text `{t}`, which has no program for any of them.
const OF_TEXT: [&str; 34] = [
    "{t} ILIKE 'a%'",
    "{t} NOT ILIKE '%B_'",
    "{t} ~ '^[a-c]+$'",
    "{t} !~* 'É'",
    "regexp_like({t}, 'a.b')",
    "regexp_replace({t}, '[aeiou]', '*', 'g')",
    "regexp_count({t}, 'a')",
    "upper({t})",
    "lower({t})",
    "btrim({t})",
    "ltrim({t}, 'a')",
    "replace({t}, 'a', 'xyz')",
    "{t} || '-x'",
    "concat('<', {t}, '>')",
    "concat({t}, NULL)",
    "substr(upper({t}), 2, 3)",
    "character_length({t})",
    "octet_length({t})",
    "reverse({t})",
    "lpad({t}, 6, '*')",
    "split_part({t}, 'b', 1)",
    "nullif({t}, '')",
    "initcap({t})",
    "strpos({t}, 'b')",
    "ascii({t})",
    "md5({t})",
    "left({t}, -1)",
    "right({t}, 2)",
    "repeat({t}, 3)",
    "TRY_CAST({t} AS INT)",
    "CASE WHEN {t} LIKE 'a%' THEN upper({t}) WHEN {t} = '' THEN NULL ELSE 'other' END",
    "{t} IN ('a', 'ab', 'É😀') AND upper({t}) <> 'AB'",
    "{t} IS NULL OR lower({t}) = 'b'",
    "CASE WHEN upper({t}) = 'AB' THEN 1.5 WHEN {t} ILIKE '%c' THEN 2.5 END",
];

#[tokio::test]
async fn text_of_all_types() {
    for (turn, data_type) in types().iter().enumerate() {
        let ctx = tables(data_type, 90, false);
        for (i, expression) in OF_TEXT.iter().enumerate() {
            let expression = expression.replace("{t}", "r.t");
            let tunings = (0..2).map(|k| Tuning::nth(turn * 35 + i * 3 + k));
            check(&ctx, &projected(&expression), tunings).await;
        }
    }
}

/// As many rows as a sample is taken of, and values of which there are few, or as many as rows.
#[tokio::test]
async fn few_and_many_values_of_many_rows() {
    for (turn, data_type) in types().iter().enumerate() {
        for many in [false, true] {
            let ctx = tables(data_type, 20_000, many);
            for expression in ["upper(r.t)", "r.t ILIKE 'a%'", "length(r.u) + s.b"] {
                let tuning = Tuning {
                    cache: Some(if turn % 2 == 0 { "1GB" } else { "off" }),
                    ..Tuning::PLAIN
                };
                check(&ctx, &projected(expression), [tuning].into_iter()).await;
            }
        }
    }
}

/// Parts of expressions of several columns.
#[tokio::test]
async fn parts_of_expressions() {
    for (turn, data_type) in types().iter().enumerate() {
        let ctx = tables(data_type, 80, false);
        for (i, expression) in [
            "upper(r.t) = s.t",
            "lower(r.t) < upper(s.t)",
            "(r.t ILIKE 'b%') = (s.a > 3)",
            "r.a > 5 AND upper(r.t) LIKE 'A%' OR s.t ~ 'b'",
            "character_length(r.t) + s.b * 2",
            "CASE WHEN r.t ILIKE 'a%' THEN r.b WHEN s.u ILIKE '%b' THEN s.b ELSE -1 END",
            "CAST(r.a AS VARCHAR)",
            "substr(r.t, 1, 1) = substr(s.t, 1, 1)",
            "CASE upper(r.t) WHEN 'AB' THEN r.a WHEN 'B' THEN s.b END",
        ]
        .into_iter()
        .enumerate()
        {
            let tunings = (0..2).map(|k| Tuning::nth(turn * 35 + i * 5 + k));
            check(&ctx, &projected(expression), tunings).await;
        }
        for (i, condition) in [
            "x.t ILIKE 'a%'",
            "x.c > 3 AND x.t ILIKE '%b%' AND x.u ~ 'a|b'",
            "upper(x.t) IN ('AB', 'STRASSE', '') OR x.c = 1",
            "NOT (x.t ILIKE x.u) OR x.t ILIKE 'é'",
            "date_part('month', x.z) = 10 AND x.b < x.c",
        ]
        .into_iter()
        .enumerate()
        {
            let on_device = !condition.contains("x.t ILIKE x.u");
            let tuning = Tuning::nth(turn * 35 + i * 7);
            let sql = filtered(condition);
            if on_device {
                check(&ctx, &sql, [tuning].into_iter()).await;
                continue;
            }
            let stock = stock(&ctx, &sql).await.unwrap();
            let given = forced(&ctx, &sql, &tuning).await.unwrap();
            assert!(given.plan.contains("  FilterExec"), "{}", given.plan);
            same_rows(&stock, &given).unwrap();
        }
    }
}

/// CASE and COALESCE of texts of several columns.
#[tokio::test]
async fn choices_of_text() {
    for (turn, data_type) in types().iter().take(3).enumerate() {
        let ctx = tables(data_type, 90, false);
        for (i, expression) in [
            "CASE WHEN r.a > 5 THEN r.t ELSE s.t END",
            "CASE WHEN r.a > 5 THEN r.t WHEN s.b = 1 THEN r.u END",
            "CASE WHEN r.b > 2 THEN upper(r.t) WHEN s.b = 1 THEN NULL WHEN r.u = 'a' THEN r.t ELSE s.t END",
            "CASE WHEN r.b > 2 THEN r.t WHEN r.b > 1 THEN s.t WHEN r.b > 0 THEN r.t ELSE substr(r.u, 1, 1) END",
            "coalesce(r.t, s.t, r.u)",
            "nvl(r.t, s.t)",
            "CASE r.t WHEN 'ab' THEN s.t WHEN 'b' THEN r.u ELSE lower(r.t) END",
        ]
        .into_iter()
        .enumerate()
        {
            let tunings = (0..3).map(|k| Tuning::nth(turn * 35 + i * 5 + k));
            check(&ctx, &projected(expression), tunings).await;
        }
        let constant = format!("arrow_cast('a constant of some length', '{data_type}')");
        for (i, expression) in [
            format!("CASE WHEN r.a > 5 THEN r.t WHEN r.a > 2 THEN {constant} ELSE s.t END"),
            format!("coalesce(r.t, s.t, {constant})"),
        ]
        .into_iter()
        .enumerate()
        {
            let tunings = (0..3).map(|k| Tuning::nth(turn * 35 + i * 5 + k));
            check(&ctx, &projected(&expression), tunings).await;
        }
    }
}

#[tokio::test]
async fn times_and_numbers() {
    let ctx = tables(&DataType::Utf8, 300, false);
    for (i, expression) in [
        "date_trunc('month', r.z)",
        "date_trunc('hour', r.z)",
        "date_part('hour', r.z)",
        "extract(dow FROM r.z)",
        "r.z::DATE",
        "to_char(r.d, '%Y-%m')",
        "CAST(r.d AS VARCHAR)",
        "CAST(r.b AS VARCHAR) || 'x'",
        "date_trunc('week', r.z) < s.z",
        "power(r.b, 2) + s.a",
        "CAST(r.f AS VARCHAR)",
        "floor(r.f) = s.f",
        "signum(r.f)",
    ]
    .into_iter()
    .enumerate()
    {
        let tunings = (0..3).map(|k| Tuning::nth(i * 11 + k));
        check(&ctx, &projected(expression), tunings).await;
    }
}

/// IN compares floats bit by bit: the zeros differ, and so do the two NaN here.
#[tokio::test]
async fn sets_of_floats() {
    let ctx = tables(&DataType::Utf8, 300, false);
    let nan = "CAST('NaN' AS DOUBLE)";
    for (i, list) in [
        "(0.0, 2.0, 3.0, 4.0, 5.0)".to_string(),
        "(-0.0, 2.0, 3.0, 4.0, 5.0)".into(),
        "(CAST('-0' AS DOUBLE), 2.0, 3.0, 4.0, 5.0)".into(),
        format!("({nan}, 1.25, -3.5, 4.0, 1e300)"),
        format!("(0.0, -0.0, {nan}, -{nan}, NULL)"),
        "(CAST('Infinity' AS DOUBLE), 0.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0)".into(),
    ]
    .into_iter()
    .enumerate()
    {
        for not in ["", "NOT "] {
            for value in ["r.f", "r.f + s.f", "CAST(r.f AS REAL)"] {
                let sql = projected(&format!("{value} {not}IN {list}"));
                check(&ctx, &sql, [Tuning::nth(i * 7)].into_iter()).await;
            }
        }
    }
}

/// An error on some value is the query's, unless CASE keeps the rows of that value from the expression.
#[tokio::test]
async fn errors_on_values() {
    let ctx = tables(&DataType::Utf8, 200, false);
    let is_number = "(r.t IN ('12', '-7', '00012'))";
    for (expression, fails) in [
        ("CAST(r.t AS INT)", true),
        ("CAST(r.t AS INT) + s.b", true),
        ("CASE WHEN s.a >= 0 THEN CAST(r.t AS INT) ELSE 0 END", true),
        (
            &*format!("CASE WHEN {is_number} THEN CAST(r.t AS INT) END"),
            false,
        ),
        (
            &*format!("CASE WHEN {is_number} AND s.a > 1 THEN CAST(r.t AS INT) ELSE s.b END"),
            false,
        ),
        ("substr(r.t, 1, r.a - 10 * (s.a / 9))", true),
    ] {
        let sql = projected(expression);
        let stock = stock(&ctx, &sql).await;
        assert_eq!(stock.is_err(), fails, "{sql}");
        for n in 0..5 {
            let given = forced(&ctx, &sql, &Tuning::nth(n)).await;
            match (&stock, given) {
                (Ok(stock), Ok(given)) => {
                    is_on_device(&sql, &given);
                    same_rows(stock, &given).unwrap();
                }
                (Err(_), Err(_)) => {}
                (stock, given) => {
                    panic!("{sql}: {:?} {:?}", stock.as_ref().err(), given.err())
                }
            }
        }
    }
}

/// EXPLAIN names what is evaluated by distinct values, once.
#[tokio::test]
async fn explained() {
    let ctx = tables(&DataType::Utf8, 50, false);
    let sql = projected("upper(r.t) = s.t OR r.u ILIKE 'a%' AND s.a > 3");
    let given = forced(&ctx, &sql, &Tuning::PLAIN).await.unwrap();
    let shown = "by_distinct_values=[upper(t), u ILIKE a%]";
    assert!(given.plan.contains(shown), "{}", given.plan);
    let sql = filtered("upper(x.t) = 'AB'");
    let given = forced(&ctx, &sql, &Tuning::PLAIN).await.unwrap();
    assert!(
        given.plan.contains("by_distinct_values=["),
        "{}",
        given.plan
    );
}
