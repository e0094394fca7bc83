//! Kinds of queries against whether they have the same rows each time.

use datafusion::prelude::SessionContext;

use super::*;

/// `t` in the queries: an integer, a float, a decimal, a text.
const TABLE: &str = "(VALUES (1, 1.5::DOUBLE, 1.5::DECIMAL(9, 2), 'x'), (2, 2.5::DOUBLE, 2.5::DECIMAL(9, 2), 'y')) AS t(a, f, d, s)";

async fn why(sql: &str) -> Option<String> {
    let context = SessionContext::new();
    let sql = sql.replace("FROM t", &format!("FROM {TABLE}"));
    let plan = context.state().create_logical_plan(&sql).await;
    let plan = plan.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    differs_when_read_again(&plan).unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

#[tokio::test]
async fn queries_with_the_same_rows() {
    for sql in [
        "SELECT a FROM t WHERE a > 1",
        "SELECT a, f * 2 FROM t",
        "SELECT DISTINCT s FROM t UNION ALL SELECT s FROM t",
        "SELECT x.a, y.f FROM (SELECT * FROM t) x JOIN (SELECT * FROM t) y ON x.a = y.a",
        "SELECT (SELECT max(a) FROM t) FROM t",
        // Aggregates.
        "SELECT s, count(*), count(DISTINCT f), sum(a), min(a), max(s), bool_and(a > 1), bit_xor(a) FROM t GROUP BY s",
        "SELECT sum(d), avg(d), median(f), max(f) FROM t",
        "SELECT array_agg(s ORDER BY s), string_agg(s, ',' ORDER BY s), first_value(f ORDER BY f) FROM t",
        "SELECT array_agg(s ORDER BY a, f, d) FROM t GROUP BY s",
        "SELECT n FROM (SELECT s, count(*) AS n, sum(f) FROM t GROUP BY s)",
        // Limits.
        "SELECT a FROM t ORDER BY a LIMIT 1",
        "SELECT a + 1, a FROM t ORDER BY a LIMIT 1 OFFSET 1",
        "SELECT a AS id, a * 10 AS lo FROM t ORDER BY id LIMIT 1",
        "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY s LIMIT 1",
        "SELECT * FROM t ORDER BY s, a, d, f OFFSET 1",
        "SELECT a FROM t WHERE a IN (SELECT a FROM t ORDER BY a DESC LIMIT 1)",
        // Windows.
        "SELECT a, row_number() OVER (ORDER BY a) AS n FROM t",
        "SELECT *, rank() OVER (ORDER BY s), dense_rank() OVER (ORDER BY s), percent_rank() OVER (ORDER BY s), cume_dist() OVER (ORDER BY s) FROM t",
        "SELECT *, count(*) OVER (), sum(a) OVER (PARTITION BY s), max(f) OVER (ORDER BY s) FROM t",
        "SELECT s, a, lag(a) OVER (PARTITION BY s ORDER BY a) FROM t",
        "SELECT a FROM (SELECT a, row_number() OVER () AS n, random() AS r FROM t)",
    ] {
        assert_eq!(why(sql).await, None, "{sql}");
    }
}

#[tokio::test]
async fn queries_that_may_have_others() {
    let volatile = "a volatile function";
    let without = "a LIMIT without an ORDER BY";
    let ties = "a LIMIT whose ORDER BY may have ties";
    let aggregate = |name: &str| format!("the aggregate {name}, whose value depends on the order");
    let window = |name: &str| format!("the window function {name}, whose ORDER BY may have ties");
    for (sql, expected) in [
        ("SELECT a, random() FROM t", volatile.to_string()),
        ("SELECT a FROM t WHERE random() < 0.5", volatile.into()),
        ("SELECT a FROM t ORDER BY random() LIMIT 1", volatile.into()),
        (
            "SELECT a FROM t WHERE a IN (SELECT a FROM t ORDER BY random())",
            volatile.into(),
        ),
        (
            "SELECT (SELECT max(random()) FROM t) FROM t",
            volatile.into(),
        ),
        ("SELECT s, max(f) FROM t GROUP BY s", aggregate("max")),
        ("SELECT a FROM t LIMIT 1", without.into()),
        ("SELECT a FROM t OFFSET 1", without.into()),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t LIMIT 1)",
            without.into(),
        ),
        ("SELECT * FROM t ORDER BY s LIMIT 1", ties.into()),
        ("SELECT a, s FROM t ORDER BY s, a + 1 LIMIT 1", ties.into()),
        (
            "SELECT s, sum(a) AS n FROM t GROUP BY s ORDER BY n LIMIT 1",
            ties.into(),
        ),
        (
            "SELECT DISTINCT ON (s) s, a FROM t ORDER BY s",
            "a DISTINCT ON whose ORDER BY may have ties".into(),
        ),
        ("SELECT sum(f) FROM t", aggregate("sum")),
        ("SELECT s, avg(a) FROM t GROUP BY s", aggregate("avg")),
        ("SELECT stddev(a) FROM t", aggregate("stddev")),
        ("SELECT array_agg(a) FROM t", aggregate("array_agg")),
        (
            "SELECT string_agg(s, ',' ORDER BY a) FROM t",
            aggregate("string_agg"),
        ),
        (
            "SELECT first_value(a ORDER BY s) FROM t",
            aggregate("first_value"),
        ),
        (
            "SELECT a FROM t WHERE f > (SELECT avg(f) FROM t)",
            aggregate("avg"),
        ),
        (
            "SELECT a, row_number() OVER () AS n FROM t",
            window("row_number"),
        ),
        (
            "SELECT a, row_number() OVER (ORDER BY s) AS n FROM t",
            window("row_number"),
        ),
        (
            "SELECT a, ntile(4) OVER (ORDER BY s) FROM t",
            window("ntile"),
        ),
        (
            "SELECT a, lag(a) OVER (PARTITION BY s ORDER BY d) FROM t",
            window("lag"),
        ),
        (
            "SELECT a, sum(f) OVER (PARTITION BY s) FROM t",
            window("sum"),
        ),
        (
            "SELECT a, sum(a) OVER (ORDER BY s ROWS 1 PRECEDING) FROM t",
            window("sum"),
        ),
    ] {
        let told = why(sql).await.unwrap_or_default();
        assert!(told.contains(&expected), "{sql}\n{told}");
    }
}
