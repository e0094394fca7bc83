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

/// An argument that has a value on NULLs counts the rows that an outer join pads.
#[tokio::test]
async fn arguments_on_padded_rows() {
    let context = session("force").await;
    let query =
        "SELECT sum(CASE WHEN r.b IS NULL THEN 1 ELSE 0 END), count(*) FILTER (WHERE r.b IS NULL),
                        count(CASE WHEN r.b > 4 THEN 1 ELSE 0 END)
                 FROM (VALUES (1), (5)) l(a) LEFT JOIN (VALUES (2)) r(b) ON l.a > r.b";
    assert_eq!(answer(&context, query).await, "1 1 2");
}

/// Ranked keys of the two sides of a rewritten difference have one type.
#[tokio::test]
async fn a_difference_of_far_numbers() {
    let context = session("force").await;
    let query = "SELECT count(*) FROM (VALUES (-9223372036854775808), (9223372036854775807)) l(a)
                 JOIN (VALUES (-1), (-1)) r(b) ON l.a - r.b < 5";
    let off = session("off").await;
    assert_eq!(answer(&context, query).await, answer(&off, query).await);
    let query = "SELECT count(*) FROM (VALUES (-1e20), (1e20)) l(x) JOIN (VALUES (-1e20), (1e20)) r(x)
                 ON abs(CAST(l.x AS DECIMAL(30, 2)) - CAST(r.x AS DECIMAL(30, 2))) <= CAST(1 AS DECIMAL(3, 2))";
    assert_eq!(answer(&context, query).await, "2");
}

/// A fused aggregation reads no right side that an empty left one makes needless, and so meets no error there.
#[tokio::test]
async fn an_empty_left_side_of_a_fused_aggregation() {
    let context = session("force").await;
    let create = "CREATE TABLE e AS SELECT a FROM r WHERE a > 100";
    run(&context, create).await.unwrap();
    for (query, expected) in [
        (
            "SELECT count(*), sum(e.a) FROM e JOIN s ON e.a = 10 / (s.a - 1)",
            "0 NULL",
        ),
        (
            "SELECT e.a, count(s.b) FROM e LEFT JOIN s ON e.a = s.k AND 10 / (s.a - 1) > 2 GROUP BY e.a",
            "",
        ),
    ] {
        let explained = answer(&context, &format!("EXPLAIN {query}")).await;
        assert!(explained.contains("BowtieJoinAggregateExec"), "{explained}");
        assert_eq!(answer(&context, query).await, expected, "{query}");
    }
}
