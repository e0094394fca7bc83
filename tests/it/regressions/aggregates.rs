//! Aggregations, alone and fused with a join.

use crate::support::snapshot::{
    answer, offloaded, plan, refusal, run, session_on_test_device as session,
};

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
            offloaded(&context, &query, &["BowtieJoinAggregateExec"]).await,
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
            let given = offloaded(&context, &query, &["BowtieJoinAggregateExec"]).await;
            assert_eq!(given, expected, "{query}");
        }
    }
}

/// An argument that is not NULL on NULLs counts the rows that an outer join pads.
#[tokio::test]
async fn arguments_on_padded_rows() {
    let context = session("force").await;
    let query =
        "SELECT sum(CASE WHEN r.b IS NULL THEN 1 ELSE 0 END), count(*) FILTER (WHERE r.b IS NULL),
                        count(CASE WHEN r.b > 4 THEN 1 ELSE 0 END)
                 FROM (VALUES (1), (5)) l(a) LEFT JOIN (VALUES (2)) r(b) ON l.a > r.b";
    let nodes = ["BowtieAggregateExec", "BowtieJoinExec"];
    assert_eq!(offloaded(&context, query, &nodes).await, "1 1 2");
}

/// A fused aggregation does not read the right side where the left one is empty, so errors there do not occur.
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

/// MIN and MAX of floats without groups tell −0.0 from 0.0.
#[tokio::test]
async fn extremes_of_zeros() {
    for values in ["(0.0), (-0.0)", "(-0.0), (0.0)"] {
        for data_type in ["DOUBLE", "FLOAT"] {
            let context = session("force").await;
            let create = format!(
                "CREATE TABLE z AS SELECT CAST(column1 AS {data_type}) AS x, 1 AS a FROM (VALUES {values})"
            );
            run(&context, &create).await.unwrap();
            let of = "1 / min(z.x), 1 / max(z.x)";
            for from in ["z", "z JOIN r ON z.a >= r.a", "r JOIN z ON z.a >= r.a"] {
                let query = format!("SELECT {of} FROM {from}");
                let node = match from {
                    "z" => "BowtieAggregateExec",
                    _ => "BowtieJoinAggregateExec",
                };
                let given = offloaded(&context, &query, &[node]).await;
                assert_eq!(given, "-inf inf", "{query}");
            }
        }
    }
}

/// Without groups the argument of FIRST_VALUE is not evaluated on rows that its FILTER rejects.
#[tokio::test]
async fn first_values_behind_a_filter() {
    let context = session("force").await;
    run(&context, "CREATE TABLE z(x INT) AS VALUES (0), (1), (2)")
        .await
        .unwrap();
    for nulls in ["", " IGNORE NULLS"] {
        let query =
            format!("SELECT first_value(10 / x ORDER BY x) FILTER (WHERE x <> 0){nulls} FROM z");
        let given = offloaded(&context, &query, &["BowtieAggregateExec"]).await;
        assert_eq!(given, "10", "{query}");
    }
}

/// Constants among distinct values, and arguments of COUNT behind one that is NULL.
#[tokio::test]
async fn counts_of_constants_and_of_failures() {
    let context = session("force").await;
    for (query, expected) in [
        (
            "SELECT count(DISTINCT INTERVAL '1 day') FILTER (WHERE a > 0), count(*) FROM r",
            "1 6",
        ),
        (
            "SELECT count(DISTINCT arrow_cast(0.5, 'Decimal32(1, 1)')) FILTER (WHERE a > 0), count(*) FROM r",
            "1 6",
        ),
    ] {
        let given = offloaded(&context, query, &["BowtieAggregateExec"]).await;
        assert_eq!(given, expected, "{query}");
    }
    let query = "SELECT count(a, 1 / (a - 1)) FILTER (WHERE a > 1) FROM r";
    let given = offloaded(&context, query, &["BowtieAggregateExec"]).await;
    assert_eq!(given, "5");
    let query = "SELECT count(nullif(a, a), 1 / (a - 1)) FROM r";
    let planned = plan(&context, query).await;
    assert!(planned.contains("BowtieAggregateExec"), "{planned}");
    let message = refusal(&context, query).await;
    assert!(message.contains("Divide by zero"), "{message}");
}

/// AVG of decimals adds up in a wider decimal.
#[tokio::test]
async fn averages_of_wide_decimals() {
    let mut answers = vec![];
    for offload in ["off", "force"] {
        let context = session(offload).await;
        let mut of = vec![];
        for (data_type, value) in [
            ("Decimal32(7, 2)", "a + 0.25"),
            ("Decimal64(15, 2)", "a * 1000000 + 0.25"),
            ("Decimal128(26, 2)", "a * 1000000 + 0.25"),
            ("Decimal128(38, 4)", "a * 1000000 + 0.25"),
            ("Decimal256(60, 2)", "a + 0.25"),
        ] {
            of.push(format!("avg(arrow_cast({value}, '{data_type}'))"));
        }
        let of = of.join(", ");
        for (select, from) in [
            ("", "FROM r"),
            ("k, ", "FROM r GROUP BY k"),
            (
                "b, ",
                "FROM (SELECT r.a, s.b FROM r JOIN s ON r.k = s.k) GROUP BY b",
            ),
        ] {
            let query = format!("SELECT {select}{of} {from}");
            let explain = format!(
                "SELECT decision FROM bowtie_explain('{}') WHERE node LIKE '%AggregateExec'",
                query.replace('\'', "''")
            );
            if offload == "force" {
                assert!(
                    !answer(&context, &explain).await.contains("declined"),
                    "{query}"
                );
            }
            answers.push(answer(&context, &query).await);
        }
    }
    let (off, force) = answers.split_at(3);
    assert_eq!(off, force);
}

/// The limit of a DISTINCT aggregation is a hint; the limit above it decides.
#[tokio::test]
async fn distinct_under_a_limit() {
    let context = session("force").await;
    let query = "SELECT DISTINCT k FROM r LIMIT 2";
    let explain = format!(
        "SELECT decision FROM bowtie_explain('{query}') WHERE node = 'BowtieAggregateExec'"
    );
    assert_eq!(answer(&context, &explain).await, "offloaded");
    assert_eq!(answer(&context, query).await.lines().count(), 2);
}

/// Many short pieces in many grouping sets: what groups take is not added up anew for each piece and set, which took minutes.
#[tokio::test]
async fn grouping_sets_of_many_pieces() {
    let mut answers = vec![];
    for (offload, chunk_rows) in [("off", "auto"), ("force", "50"), ("force", "auto")] {
        let context = session(offload).await;
        for sql in [
            "CREATE TABLE wide AS SELECT value AS id, value % 3 AS a, value % 5 AS b,
             concat(repeat('x', 600), CAST(value % 2 AS VARCHAR)) AS t FROM generate_series(1, 400)",
            "SET bowtie.device_memory = '1MB'",
            &format!("SET bowtie.chunk_rows = '{chunk_rows}'"),
        ] {
            run(&context, sql).await.unwrap();
        }
        let sql =
            "SELECT r.a, s.b, r.t, count(*), sum(s.id) FROM wide r JOIN wide s ON r.id <> s.id
                   GROUP BY CUBE (r.a, s.b, r.t)";
        if offload == "force" {
            let plan = answer(&context, &format!("EXPLAIN {sql}")).await;
            for node in ["BowtieAggregateExec", "BowtieJoinExec"] {
                assert!(plan.contains(node), "{plan}");
            }
        }
        answers.push(answer(&context, sql).await);
    }
    assert_eq!(answers[0].lines().count(), 72);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}
