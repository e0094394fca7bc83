//! The most similar rows of each row: `LATERAL` with a limit, `row_number()`, `bowtie_similar`, against a plain computation.

use std::collections::BTreeMap;

use datafusion::prelude::SessionContext;

use crate::support::answer::{check, forced, stock};
use crate::support::lists::{Shape, TECHNIQUES, table};
use crate::support::session::{session, set};
use crate::support::tables::register;
use crate::support::tuning::Tuning;

const MEASURES: [&str; 5] = ["jaccard", "overlap", "dice", "cosine", "containment"];

fn tables(nulls: f64) -> SessionContext {
    let ctx = session();
    let shape = |rows, seed| Shape::short(rows, nulls, seed);
    register(&ctx, "r", &table(shape(70, 15)));
    register(&ctx, "s", &table(shape(55, 16)));
    ctx
}

/// The values of each id's rows in descending order, `most` at most, as text; one that is empty if it has none.
async fn expected(ctx: &SessionContext, value: &str, condition: &str, most: usize) -> Vec<String> {
    let sql = format!("SELECT r.id, {value} AS x FROM r LEFT JOIN s ON {condition}");
    let answer = stock(ctx, &sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}\n{e}"));
    let mut of_id: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in answer.rows() {
        let (id, value) = row.split_once('|').unwrap();
        of_id.entry(id.into()).or_default().push(value.into());
    }
    let mut rows = vec![];
    for (id, mut values) in of_id {
        let number = |value: &String| value.parse::<f64>().unwrap_or(-1.0);
        values.sort_by(|a, b| number(b).total_cmp(&number(a)));
        rows.extend(
            values
                .iter()
                .take(most)
                .map(|value| format!("{id}|{value}")),
        );
    }
    rows.sort();
    rows
}

/// Ties make the rows ambiguous, so that their values are compared.
#[tokio::test]
async fn values_are_those_of_a_plain_computation() {
    let mut at = 0;
    for nulls in [0.0, 0.2] {
        let ctx = tables(nulls);
        for measure in MEASURES {
            let value = format!("array_{measure}(r.v, s.v)");
            let least = if measure == "overlap" { "2" } else { "0.25" };
            for (other, by, except) in [
                ("", "NULL", "NULL"),
                (" AND r.g = s.g", "'g'", "NULL"),
                (" AND r.id <> s.id", "NULL", "'id'"),
            ] {
                for most in [1, 3] {
                    at += 1;
                    set(
                        &ctx,
                        "bowtie.set_strategy",
                        TECHNIQUES[at % TECHNIQUES.len()],
                    );
                    let condition = format!("{value} >= {least}{other}");
                    let expected = expected(&ctx, &value, &condition, most).await;
                    let lateral = format!(
                        "SELECT r.id, array_{measure}(r.v, l.v) AS x FROM r LEFT JOIN LATERAL \
                         (SELECT * FROM s WHERE {condition} ORDER BY {value} DESC LIMIT {most}) l ON true"
                    );
                    let function = format!(
                        "SELECT id, similarity FROM bowtie_similar('r', 's', 'v', {most}, '{measure}', {least}, {by}, {except})"
                    );
                    for sql in [lateral, function] {
                        let given = forced(&ctx, &sql, &Tuning::nth(at))
                            .await
                            .unwrap_or_else(|e| panic!("{sql}\n{e}"));
                        let kept = format!("partners=first {most} by array_{measure}(");
                        assert!(given.plan.contains(&kept), "{sql}\n{}", given.plan);
                        assert!(given.plan.contains("strategy=set"), "{sql}\n{}", given.plan);
                        assert_eq!(given.rows(), expected, "{sql}\n{}", given.plan);
                        let off = stock(&ctx, &sql).await.unwrap();
                        assert_eq!(off.rows(), expected, "{sql}\n{}", off.plan);
                    }
                }
            }
        }
    }
}

/// With an order that decides, the rows are the same.
#[tokio::test]
async fn rows_in_an_order_that_decides() {
    let ctx = tables(0.1);
    let value = "array_jaccard(r.v, s.v)";
    for (at, (kind, condition, order, kept)) in [
        (
            "",
            "array_jaccard(r.v, s.v) >= 0.2",
            "array_jaccard(r.v, s.v) DESC, s.id",
            "first 2 by",
        ),
        (
            "LEFT ",
            "array_overlap(r.v, s.v) >= 1",
            "array_jaccard(r.v, s.v) DESC, s.id DESC",
            "first 2 by",
        ),
        // Of comparisons of two columns no range tells them either.
        (
            "LEFT ",
            "s.a <= r.a AND s.id > r.id",
            "s.a DESC, s.id",
            "first 2 by",
        ),
        (
            "",
            "r.g = s.g AND s.a <= r.a AND s.id > r.id",
            "s.a DESC, s.id",
            "first 2 by",
        ),
        (
            "",
            "s.a <= r.a AND concat(r.t, s.t) < 'f'",
            "s.a DESC, s.id",
            "first 2 by",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let lateral = format!(
            "SELECT r.id, l.id AS other FROM r {kind}JOIN LATERAL (SELECT * FROM s WHERE {condition} ORDER BY {order} LIMIT 2) l ON true"
        );
        let numbered = format!(
            "SELECT id, other, n FROM (SELECT r.id, s.id AS other, row_number() OVER (PARTITION BY r.id ORDER BY {order}) AS n FROM r {kind}JOIN s ON {condition}) WHERE n <= 2"
        );
        let ranked = format!(
            "SELECT id, other FROM (SELECT r.id, s.id AS other, rank() OVER (PARTITION BY r.id ORDER BY {value} DESC) AS n FROM r {kind}JOIN s ON {condition}) WHERE n <= 2"
        );
        for (sql, kept) in [
            (lateral, kept.to_string()),
            (numbered, kept.replace("2 by", "2 with ties by")),
            (ranked, "first 2 with ties by".into()),
        ] {
            let stock = stock(&ctx, &sql)
                .await
                .unwrap_or_else(|e| panic!("{sql}\n{e}"));
            for n in [at, at + 4, at + 7] {
                let plan = check(&ctx, &sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
                assert!(plan.contains(&kept), "{sql}\n{plan}");
            }
        }
    }
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let ctx = tables(0.0);
    for (call, said) in [
        (
            "'r', 's', 't'",
            "no list: make sets of text by tokens() or shingles()",
        ),
        (
            "'r', 's', 'v', 0",
            "k is a whole number from 1 to 4294967295, not 0",
        ),
        (
            "'r', 's', 'v', 1, 'hamming'",
            "measure is one of 'overlap', 'jaccard'",
        ),
        (
            "'r', 's', 'v', 1, 'jaccard', 0",
            "at_least is a similarity above 0, and 1 at most, not 0",
        ),
        (
            "'r', 's', 'v', 1, 'jaccard', 1.5",
            "at_least is a similarity above 0",
        ),
        (
            "'r', 's', 'v', 1, 'overlap', 0.5",
            "at_least is a number of common elements",
        ),
        ("'r', 's', 'v, v'", "on is one column of lists"),
        ("'r', 's', 'w'", "left has no column 'w'"),
        (
            "'r', 's', 'v', 1, 'jaccard', 0.5, NULL, NULL, 3",
            "it has 9 arguments",
        ),
    ] {
        let sql = format!("SELECT * FROM bowtie_similar({call})");
        let error = ctx.sql(&sql).await.unwrap_err().to_string();
        assert!(error.contains(said), "{sql}\n{error}");
        assert!(
            error.contains("bowtie_similar(left, right, on"),
            "{sql}\n{error}"
        );
    }
}
