//! One small query for each bug that was found by a larger test.

use crate::text::{answer, run, session};

/// The one group of an aggregation without GROUP BY has no values: its states must be NULL, not merely empty.
#[tokio::test]
async fn nothing_matches_and_nothing_is_grouped_by() {
    for join in ["JOIN", "LEFT JOIN"] {
        let query = format!(
            "SELECT sum(b), avg(b), min(b), max(b), count(b)
             FROM (VALUES (1)) l(a) {join} (VALUES (2)) r(b) ON a > b"
        );
        let context = session("force").await;
        assert_eq!(
            answer(&context, &query).await,
            "NULL NULL NULL NULL 0",
            "{join}"
        );
    }
}

/// AVG's count must be NULL, not 0, for a group all of whose arguments are NULL: DataFusion's accumulator takes a count
/// for a value that it has seen, and divides by it.
#[tokio::test]
async fn an_average_of_nulls_alone() {
    let context = session("force").await;
    for (of, cast) in [("bigint", "BIGINT"), ("decimal", "DECIMAL(9, 2)")] {
        for (table, values) in [("l", "(3, NULL)"), ("r", "(2, NULL), (1, NULL)")] {
            let sql = format!(
                "CREATE TABLE {table}_{of} AS
                 SELECT column1 AS a, CAST(column2 AS {cast}) AS n FROM (VALUES {values})"
            );
            run(&context, &sql).await.unwrap();
        }
        let from = format!("FROM l_{of} l JOIN r_{of} r ON l.a > r.a");
        for (query, expected) in [
            (
                format!("SELECT avg(l.n), sum(r.n), avg(r.n), min(r.n) {from}"),
                "NULL NULL NULL NULL",
            ),
            (
                format!("SELECT l.a, avg(l.n), avg(r.n) {from} GROUP BY l.a"),
                "3 NULL NULL",
            ),
            (
                format!("SELECT r.a, avg(l.n), avg(r.n) {from} GROUP BY r.a"),
                "1 NULL NULL\n2 NULL NULL",
            ),
        ] {
            assert_eq!(answer(&context, &query).await, expected, "{query}");
        }
    }
}
