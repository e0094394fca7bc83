//! Expressions that have no value, or several, while a query is planned: subqueries, volatile functions, and what may fail. The queries of
//! `early.sql` have DataFusion's rows under all options.

use datafusion::prelude::SessionContext;

use crate::support::answer::{answer, stock};
use crate::support::compare::similar_rows;
use crate::support::session::{session, set};
use crate::support::tuning::Tuning;

/// The queries of the file, by name.
fn queries() -> Vec<(&'static str, &'static str)> {
    let queries = include_str!("early.sql").split("--## ").skip(1);
    let queries = queries.map(|query| query.split_once('\n').unwrap());
    queries.map(|(name, sql)| (name, sql.trim())).collect()
}

/// Queries in whose forced plans nothing is offloaded: DataFusion joins constants while planning, or an expression declines.
const STAYS: [&str; 0] = [];

async fn has_the_rows(context: &SessionContext, name: &str, sql: &str) -> bool {
    let stock = stock(context, sql).await;
    let stock = stock.unwrap_or_else(|error| panic!("{name}\n{sql}\nfails off: {error}"));
    let mut is_offloaded = false;
    for (offload, chunk_rows) in [("auto", "auto"), ("force", "auto"), ("force", "2")] {
        Tuning::PLAIN.apply(context);
        set(context, "bowtie.offload", offload);
        set(context, "bowtie.chunk_rows", chunk_rows);
        let given = answer(context, sql).await;
        let given = given.unwrap_or_else(|error| panic!("{name}\n{sql}\nfails: {error}"));
        if let Err(difference) = similar_rows(&stock, &given) {
            panic!("{name}, {offload}\n{sql}\n{}\n{difference}", given.plan);
        }
        is_offloaded |= given.plan.contains("Bowtie");
    }
    is_offloaded
}

#[tokio::test]
async fn queries_have_the_rows() {
    let queries = queries();
    assert!(queries.len() > 25, "{}", queries.len());
    for cache in ["off", "64MB"] {
        let context = session();
        set(&context, "bowtie.cache", cache);
        let mut stayed = vec![];
        for (name, sql) in &queries {
            if !has_the_rows(&context, name, sql).await {
                stayed.push(*name);
            }
        }
        assert_eq!(stayed, STAYS, "cache {cache}");
    }
}

/// Each row of the other side is read once for each of several joins, which must see the same rows.
#[tokio::test]
async fn sides_that_differ_when_read_again() {
    let context = session();
    let of = |right: &str| {
        format!(
            "SELECT count(*) FROM bowtie_nearest('SELECT 1 AS id, 200 AS lo, 203 AS hi', '{right}', 'lo, hi', NULL, 1000)"
        )
    };
    let rows =
        "SELECT value AS id, value * 10 AS lo, value * 10 + 3 AS hi FROM generate_series(1, 40)";
    for (right, why) in [
        (
            format!(
                "{rows} WHERE value IN (SELECT value FROM generate_series(1, 40) ORDER BY random() LIMIT 10)"
            ),
            "a volatile function",
        ),
        (
            format!("{rows} WHERE random() < 0.5"),
            "a volatile function",
        ),
        (format!("{rows} LIMIT 10"), "a LIMIT without an ORDER BY"),
        (
            format!("{rows} WHERE value IN (SELECT value FROM generate_series(1, 40) LIMIT 10)"),
            "a LIMIT without an ORDER BY",
        ),
        (
            format!("{rows} ORDER BY value % 7 LIMIT 10"),
            "a LIMIT whose ORDER BY may have ties",
        ),
        (
            "SELECT value AS lo, sum(value + 0.5) AS hi FROM generate_series(1, 40) GROUP BY value"
                .into(),
            "the aggregate sum, whose value depends on the order of rows",
        ),
        (
            "SELECT id AS lo, id AS hi FROM bowtie_clusters($q$ SELECT value, value + 1 FROM generate_series(1, 40) WHERE random() < 0.5 $q$)".into(),
            "a volatile function",
        ),
        (
            "SELECT hi AS lo, hi FROM bowtie_asof($a$ SELECT 1 AS at $a$, $b$ SELECT 1 AS at, 2 AS hi $b$, $c$at$c$)".into(),
            "a call of bowtie_asof, bowtie_nearest or bowtie_similar",
        ),
        (
            "SELECT value AS lo, value AS hi, row_number() OVER (ORDER BY value % 7) AS id FROM generate_series(1, 40)".into(),
            "the window function row_number, whose ORDER BY may have ties",
        ),
    ] {
        let error = answer(&context, &of(&right)).await.unwrap_err();
        let told = error.to_string();
        assert!(told.contains(why), "{right}: {told}");
        assert!(told.contains("make a table of it first"), "{told}");
    }
    let first = answer(&context, &of(&format!("{rows} ORDER BY value LIMIT 10"))).await;
    assert_eq!(first.unwrap().rows(), ["10"]);
    // Of the left side only the ends are read again.
    let numbered = "SELECT row_number() OVER () AS id, random() AS x, value AS lo, value AS hi FROM generate_series(200, 201)";
    let sql = format!(
        "SELECT count(*), count(DISTINCT id), count(x) FROM bowtie_nearest('{numbered}', '{rows}', 'lo, hi', NULL, 3)"
    );
    assert_eq!(answer(&context, &sql).await.unwrap().rows(), ["6|2|6"]);
}
