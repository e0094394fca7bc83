//! One small query for each bug that was found by a larger test.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::MemTable;

use crate::support::session::{Rule, session_by};
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

/// Ranked keys of the two sides of a rewritten difference have one type.
#[tokio::test]
async fn a_difference_of_far_numbers() {
    let context = session("force").await;
    let query = "SELECT count(*) FROM (VALUES (-9223372036854775808), (9223372036854775807)) l(a)
                 JOIN (VALUES (-1), (-1)) r(b) ON l.a - r.b < 5";
    offloaded(&context, query, &["BowtieJoinAggregateExec"]).await;
    let query = "SELECT count(*) FROM (VALUES (-1e20), (1e20)) l(x) JOIN (VALUES (-1e20), (1e20)) r(x)
                 ON abs(CAST(l.x AS DECIMAL(30, 2)) - CAST(r.x AS DECIMAL(30, 2))) <= CAST(1 AS DECIMAL(3, 2))";
    let given = offloaded(&context, query, &["BowtieJoinAggregateExec"]).await;
    assert_eq!(given, "2");
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

/// A lambda's variables are numbered behind the columns of the input that it was planned for, so it stays over the filter's.
#[tokio::test]
async fn lambdas_of_one_side() {
    for dialect in ["DuckDB"] {
        let context = session("force").await;
        for sql in [
            format!("SET datafusion.sql_parser.dialect = '{dialect}'").as_str(),
            "CREATE TABLE l(id INT, x INT, v INT[]) AS VALUES (1, 5, [0]), (2, 0, [7])",
            "CREATE TABLE m(id INT) AS VALUES (1), (2)",
        ] {
            run(&context, sql).await.unwrap();
        }
        for (sql, expected) in [
            (
                "SELECT l.id, l.x, m.id AS j FROM l LEFT JOIN m ON l.id = m.id AND array_any_match(l.v, x -> x > 1)",
                "1 5 NULL\n2 0 2",
            ),
            (
                "SELECT l.id, m.id AS j FROM l JOIN m ON array_length(array_filter(l.v, x -> x > 1)) >= m.id",
                "2 1",
            ),
        ] {
            let given = offloaded(&context, sql, &["BowtieJoinExec"]).await;
            assert_eq!(given, expected, "{sql}");
        }
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

/// Of a cross join the right side's metadata wins, of others the left side's.
#[tokio::test]
async fn metadata_of_both_sides() {
    let context = session("force").await;
    for name in ["l", "m"] {
        let fields = vec![Field::new("a", DataType::Int64, true)];
        let metadata = [("origin".to_string(), name.to_string())];
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata.into()));
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values]).unwrap();
        let table = MemTable::try_new(schema, vec![vec![batch]]).unwrap();
        context.register_table(name, Arc::new(table)).unwrap();
    }
    for (query, winner) in [
        ("SELECT * FROM l CROSS JOIN m", "m"),
        ("SELECT * FROM l JOIN m ON l.a > m.a", "l"),
        ("SELECT * FROM l JOIN m ON l.a = m.a", "l"),
    ] {
        let plan = context.sql(query).await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        assert_eq!(plan.schema().metadata()["origin"], winner, "{query}");
        offloaded(&context, query, &["BowtieJoinExec"]).await;
    }
}

/// A scan may have no partition at all.
#[tokio::test]
async fn inputs_without_partitions() {
    let context = session("force").await;
    let fields = vec![Field::new("a", DataType::Int64, true)];
    let table = StreamingTable::try_new(Arc::new(Schema::new(fields)), vec![]).unwrap();
    context.register_table("nothing", Arc::new(table)).unwrap();
    for (query, node, expected) in [
        (
            "SELECT r.a FROM r JOIN nothing ON r.a > nothing.a",
            "BowtieJoinExec",
            "",
        ),
        (
            "SELECT count(*), sum(a) FROM nothing",
            "BowtieAggregateExec",
            "0 NULL",
        ),
        (
            "SELECT count(*) FROM r LEFT JOIN nothing ON r.a = nothing.a",
            "BowtieJoinAggregateExec",
            "6",
        ),
    ] {
        let given = offloaded(&context, query, &[node]).await;
        assert_eq!(given, expected, "{query}");
    }
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

/// A NULL on the right side of NOT IN decides, whatever its condition raises on other rows: of its chunk, of those before it, and of
/// those after it. Without a NULL the error stays, and a key that fails is one in any case.
#[tokio::test]
async fn a_null_decides_where_a_condition_fails() {
    let conditions = [
        ("abs(a.i - b.i) <= 0", "overflow on abs"),
        ("CAST(a.f AS DECIMAL(9, 2)) < b.m", "Cannot cast to"),
    ];
    let failing = "(1, 0, 1.5), (2, 5, 1.5)";
    let right = [
        (format!("{failing}, (NULL, 7, 1.5)"), true),
        (format!("(NULL, 7, 1.5), {failing}"), true),
        ("(1, 0, 1.5), (NULL, 7, 1.5), (2, 5, 1.5)".into(), true),
        (failing.to_string(), false),
    ];
    let left = "(1, -2147483648, CAST('NaN' AS DOUBLE)), (2, 5, 0.5), (3, 6, 0.5), (NULL, 7, 0.5)";
    for (rows, decides) in right {
        let mut contexts = vec![];
        for offload in ["off", "force"] {
            let context = session(offload).await;
            for sql in [
                format!("CREATE TABLE a(d INT, i INT, f DOUBLE) AS VALUES {left}"),
                format!("CREATE TABLE b(d INT, i INT, m DECIMAL(9, 2)) AS VALUES {rows}"),
            ] {
                run(&context, &sql).await.unwrap();
            }
            contexts.push(context);
        }
        let [off, force] = &contexts[..] else {
            unreachable!()
        };
        for chunk_rows in ["auto", "1", "2"] {
            let short = format!("SET bowtie.chunk_rows = '{chunk_rows}'");
            run(force, &short).await.unwrap();
            for (condition, message) in conditions {
                let sql = format!(
                    "SELECT a.d FROM a WHERE a.d NOT IN (SELECT b.d FROM b WHERE {condition})"
                );
                let plan = answer(force, &format!("EXPLAIN {sql}")).await;
                assert!(plan.contains("null_aware"), "{plan}");
                if decides {
                    assert_eq!(answer(off, &sql).await, "", "{sql}");
                    assert_eq!(answer(force, &sql).await, "", "{sql}, {chunk_rows}: {rows}");
                    continue;
                }
                for context in [off, force] {
                    let refused = refusal(context, &sql).await;
                    assert!(refused.contains(message), "{sql}: {refused}");
                }
            }
            for (left, right) in [("a.d", "b.d / (b.i - 5)"), ("a.d / (a.i - 5)", "b.d")] {
                let sql = format!(
                    "SELECT a.i FROM a WHERE {left} NOT IN (SELECT {right} FROM b WHERE a.i <> b.i)"
                );
                for context in [off, force] {
                    let refused = refusal(context, &sql).await;
                    assert!(refused.contains("Divide by zero"), "{sql}: {refused}");
                }
            }
        }
    }
}

/// The same where both sides are hash-partitioned: the NULL may be in any partition, and come after those whose condition fails.
#[tokio::test]
async fn a_null_of_another_partition_decides_where_a_condition_fails() {
    for (rows, device_memory, chunk_rows) in [(60, "auto", "7"), (7000, "1MB", "auto")] {
        // Rows with a NULL go to the partitions in turn: some of these come after the one whose condition fails.
        let last = (rows - 6..=rows).map(|null| (null, 1));
        let others = [(1, rows), (rows / 2, 1), (0, 1), (0, rows), (1, 0)];
        for (null, failing) in last.chain(others) {
            let mut contexts = vec![];
            for offload in ["off", "force"] {
                let context = session(offload).await;
                let series = format!("FROM generate_series(1, {rows})");
                for sql in [
                    format!(
                        "CREATE TABLE a AS SELECT CAST(value % 50 AS INT) AS d, value AS n,
                         CAST(CASE WHEN value = {failing} THEN -2147483648 ELSE value END AS INT) AS i {series}"
                    ),
                    format!(
                        "CREATE TABLE b AS SELECT CAST(nullif(value, {null}) % 50 AS INT) AS d,
                         CAST(0 AS INT) AS i {series}"
                    ),
                    format!("SET bowtie.device_memory = '{device_memory}'"),
                    format!("SET bowtie.chunk_rows = '{chunk_rows}'"),
                ] {
                    run(&context, &sql).await.unwrap();
                }
                contexts.push(context);
            }
            let [off, force] = &contexts[..] else {
                unreachable!()
            };
            let sql =
                "SELECT a.n FROM a WHERE a.d NOT IN (SELECT b.d FROM b WHERE abs(a.i - b.i) <= 9)";
            let of = format!("{rows} rows, a NULL at {null}, a failure at {failing}");
            if null == 0 {
                for context in [off, force] {
                    let refused = refusal(context, sql).await;
                    assert!(refused.contains("overflow on abs"), "{of}: {refused}");
                }
                continue;
            }
            let expected = answer(off, sql).await;
            assert_eq!(expected, "", "{of}");
            assert_eq!(answer(force, sql).await, expected, "{of}");
            let analyzed = answer(force, &format!("EXPLAIN ANALYZE {sql}")).await;
            assert!(analyzed.contains("partitions="), "{of}: {analyzed}");
        }
    }
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

/// No tile is joined after a NULL of a NOT IN.
#[tokio::test]
async fn a_null_ends_the_matching_of_not_in() {
    let context = session("force").await;
    for sql in [
        "CREATE TABLE a(d INT, i INT) AS VALUES (1, 3), (2, 3)",
        "CREATE TABLE b(d INT, i INT) AS VALUES (1, 2), (NULL, 2), (2, 2), (1, 2)",
        "SET bowtie.chunk_rows = '1'",
    ] {
        run(&context, sql).await.unwrap();
    }
    let sql = "EXPLAIN ANALYZE SELECT a.d FROM a WHERE a.d NOT IN (SELECT b.d FROM b WHERE a.i * b.i > 100)";
    let analyzed = answer(&context, sql).await;
    assert!(analyzed.contains("null_aware"), "{analyzed}");
    // The first right row meets both left ones. With the others there would be eight tiles.
    assert!(analyzed.contains("chunks=2,"), "{analyzed}");
}

/// The rows below a limit stay in their order where a stage is planned again: nothing but the limit needs it.
#[tokio::test]
async fn stages_keep_the_order_below_an_offset() {
    for rule in [Rule::Early, Rule::Stages, Rule::CutStages] {
        let context = session_by(rule);
        for sql in [
            "SET datafusion.execution.target_partitions = 4",
            "SET datafusion.execution.batch_size = 10",
            "CREATE TABLE t AS SELECT value AS id, value % 13 AS k FROM generate_series(1, 900) WHERE value % 5 <> 1",
        ] {
            run(&context, sql).await.unwrap();
        }
        for limit in ["OFFSET 500", "LIMIT 90 OFFSET 500", "LIMIT 90"] {
            let of_t = format!("SELECT k * 1000 + id AS x, id FROM t ORDER BY x, id {limit}");
            for sql in [
                format!("SELECT count(*), sum(a.x) FROM ({of_t}) a LEFT JOIN t ON a.x = t.id"),
                format!(
                    "SELECT a.x % 5 AS g, count(*), sum(a.x) FROM ({of_t}) a GROUP BY g ORDER BY g"
                ),
            ] {
                let mut answers = vec![];
                for offload in ["off", "force"] {
                    run(&context, &format!("SET bowtie.offload = '{offload}'"))
                        .await
                        .unwrap();
                    answers.push(answer(&context, &sql).await);
                }
                let explained = answer(&context, &format!("EXPLAIN {sql}")).await;
                assert!(explained.contains("Bowtie"), "{rule:?}: {explained}");
                assert_eq!(answers[0], answers[1], "{rule:?}: {sql}");
            }
        }
    }
}
