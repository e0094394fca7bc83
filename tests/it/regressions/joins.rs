//! Conditions of joins, and the schema of their rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;

use crate::support::snapshot::{answer, offloaded, run, session_on_test_device as session};

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

/// Groups that are none are no rows of a left side: the right one is not read, as by DataFusion, so that nothing can fail in it.
#[tokio::test]
async fn a_right_side_beside_no_groups() {
    let context = session("off").await;
    for sql in [
        "CREATE TABLE t(i INT, j INT) AS VALUES (0, 2)",
        "CREATE TABLE nothing AS SELECT * FROM t WHERE i > 7",
    ] {
        run(&context, sql).await.unwrap();
    }
    let sql = "SELECT * FROM nothing WHERE i > 3 INTERSECT
               (SELECT * FROM t WHERE i / (j - 2) > 1 ORDER BY i, j LIMIT 7)";
    assert_eq!(answer(&context, sql).await, "");
    run(&context, "SET bowtie.offload = 'force'").await.unwrap();
    let nodes = ["BowtieJoinExec", "BowtieAggregateExec"];
    assert_eq!(offloaded(&context, sql, &nodes).await, "");
    let fails =
        "SELECT * FROM t INTERSECT (SELECT * FROM t WHERE i / (j - 2) > 1 ORDER BY i, j LIMIT 7)";
    let error = run(&context, fails).await.unwrap_err();
    assert!(error.to_string().contains("Divide by zero"), "{error}");
}
