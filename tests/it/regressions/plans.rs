//! Scans without partitions, and stages that are planned again.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::prelude::SessionContext;

use crate::support::session::{Rule, session_by};
use crate::support::snapshot::{answer, lines, offloaded, run, session_on_test_device as session};

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

/// DataFusion makes the limit of all rows one of a node that has one partition. Where a stage is planned again there may be more of them.
#[tokio::test]
async fn stages_keep_the_limits_of_one_partition() {
    for rule in [Rule::Early, Rule::Stages, Rule::CutStages] {
        let context = session_by(rule);
        for sql in [
            // The table has one partition.
            "SET datafusion.execution.target_partitions = 1",
            "CREATE TABLE t AS SELECT value AS id, value % 5 AS k FROM generate_series(1, 40)",
            "SET datafusion.execution.target_partitions = 4",
            "SET bowtie.offload = 'force'",
        ] {
            run(&context, sql).await.unwrap();
        }
        let pairs =
            "SELECT a.id, a.k, b.id AS j FROM t a JOIN t b ON a.id < b.id AND a.id + b.id < 30";
        let numbered = format!(
            "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id, j) AS r FROM ({pairs})"
        );
        for (sql, expected) in [
            (
                format!("SELECT 1 FROM ({numbered}) WHERE r % 2 = 1 LIMIT 3"),
                "1\n1\n1",
            ),
            (
                format!(
                    "SELECT count(*) FROM (SELECT 1 FROM ({numbered}) WHERE r % 2 = 1 LIMIT 3)"
                ),
                "3",
            ),
            (
                format!(
                    "SELECT count(*) FROM (SELECT id FROM ({numbered}) JOIN t USING (id) LIMIT 3)"
                ),
                "3",
            ),
            (
                format!(
                    "SELECT count(*) FROM (SELECT 1 FROM ({pairs}) WHERE (id + j) % 3 <> 1 LIMIT 3)"
                ),
                "3",
            ),
            (
                "SELECT count(*) FROM (SELECT * FROM t LIMIT 3) a JOIN t b ON a.id < b.id + 100"
                    .into(),
                "120",
            ),
        ] {
            assert_eq!(answer(&context, &sql).await, expected, "{rule:?}: {sql}");
            let explained = answer(&context, &format!("EXPLAIN {sql}")).await;
            assert!(explained.contains("Bowtie"), "{rule:?}: {explained}");
        }
    }
}

/// Rules, each with its target partitions.
const PLANNERS: [(Rule, usize); 5] = [
    (Rule::Early, 4),
    (Rule::Stages, 1),
    (Rule::Stages, 4),
    (Rule::CutStages, 1),
    (Rule::CutStages, 4),
];

/// A session in which these statements ran.
async fn prepared(rule: Rule, partitions: usize, statements: &[&str]) -> SessionContext {
    let context = session_by(rule);
    let partitions = format!("SET datafusion.execution.target_partitions = {partitions}");
    for sql in [partitions.as_str()].iter().chain(statements) {
        run(&context, sql).await.unwrap();
    }
    context
}

/// DataFusion leaves out a sort below a limit where rows come in its order anyway, as those of a join on a device do not.
#[tokio::test]
async fn stages_keep_the_order_below_a_limit() {
    for (rule, partitions) in PLANNERS {
        let context = prepared(rule, partitions, &[
            "SET bowtie.equi_join_strategy = 'partitioned_hash'",
            "CREATE TABLE a AS SELECT value * 3 AS k, value % 7 AS m FROM generate_series(1, 5000)",
        ])
        .await;
        let joined = "a JOIN generate_series(1, 20000) g ON a.k = g.value";
        // Of several partitions DataFusion forgets the order below an OFFSET alone.
        let first = if partitions == 1 { "sum" } else { "count" };
        for sql in [
            format!("SELECT g.value FROM {joined} ORDER BY g.value LIMIT 3"),
            format!("SELECT g.value FROM {joined} WHERE m <> 2 ORDER BY g.value LIMIT 3"),
            format!("SELECT g.value FROM {joined} ORDER BY g.value LIMIT 3 OFFSET 100"),
            format!("SELECT sum(value) FROM (SELECT g.value FROM {joined} ORDER BY g.value LIMIT 9)"),
            format!("SELECT {first}(value) FROM (SELECT g.value FROM {joined} ORDER BY g.value OFFSET 90)"),
            // The key of the order is read no more.
            format!("SELECT sum(m) FROM (SELECT a.m FROM {joined} ORDER BY g.value LIMIT 9)"),
            format!("SELECT m FROM (SELECT a.m, g.value FROM {joined} ORDER BY g.value LIMIT 9)"),
            format!("SELECT {first}(m) FROM (SELECT a.m FROM {joined} ORDER BY g.value OFFSET 90)"),
            // A function of the key has ties.
            format!("SELECT floor(g.value / 10.0) AS f, a.m FROM {joined} ORDER BY g.value LIMIT 40 OFFSET 3"),
            format!("SELECT sum(m) FROM (SELECT floor(g.value / 10.0) AS f, a.m FROM {joined} ORDER BY g.value LIMIT 40 OFFSET 3)"),
            format!("SELECT count(*) FROM (SELECT a.m FROM {joined} LIMIT 40)"),
            "SELECT value, sum(value) FROM generate_series(1, 900000, 1009) GROUP BY value ORDER BY value LIMIT 3".into(),
            "SELECT k, sum(v) FROM (SELECT m AS k, k AS v FROM a ORDER BY m, k LIMIT 1000) GROUP BY k ORDER BY k LIMIT 3".into(),
        ] {
            let mut answers = vec![];
            for offload in ["off", "force"] {
                run(&context, &format!("SET bowtie.offload = '{offload}'"))
                    .await
                    .unwrap();
                answers.push(answer(&context, &sql).await);
            }
            let explained = answer(&context, &format!("EXPLAIN {sql}")).await;
            // Groups whose keys come in order stay.
            let is_offloaded = explained.contains("Bowtie") || sql.contains("GROUP BY");
            assert!(is_offloaded, "{rule:?}: {explained}");
            assert_eq!(answers[0], answers[1], "{rule:?}: {sql}\n{explained}");
        }
    }
}

/// Rows come in an order whose keys are not among the columns.
#[tokio::test]
async fn stages_keep_orders_by_other_columns() {
    for (rule, partitions) in PLANNERS {
        let context = prepared(rule, partitions, &[
            "SET datafusion.execution.batch_size = 10",
            "CREATE TABLE t AS SELECT value AS id, value * 7 % 13 AS k FROM generate_series(1, 300)",
        ])
        .await;
        let numbered = "SELECT k, id, sum(id) OVER (PARTITION BY k ORDER BY id) AS s FROM t";
        let joined = format!("({numbered}) a JOIN (SELECT id AS i FROM t) b ON a.id = b.i");
        for sql in [
            format!("SELECT s * 2 AS s FROM ({numbered}) ORDER BY k, id"),
            format!("SELECT s * 2 AS s FROM ({numbered}) ORDER BY k, id LIMIT 40 OFFSET 3"),
            format!("SELECT s + i AS s FROM {joined} ORDER BY k, id"),
            format!("SELECT s + i AS s FROM {joined} ORDER BY k DESC, id LIMIT 40"),
            format!(
                "SELECT s FROM (SELECT k, s, id FROM {joined} WHERE id % 3 > 0) ORDER BY k, id"
            ),
        ] {
            let mut answers = vec![];
            for offload in ["off", "force"] {
                run(&context, &format!("SET bowtie.offload = '{offload}'"))
                    .await
                    .unwrap();
                // In their order.
                answers.push(lines(&run(&context, &sql).await.unwrap()));
            }
            assert_eq!(answers[0], answers[1], "{rule:?} {partitions}: {sql}");
        }
    }
}
