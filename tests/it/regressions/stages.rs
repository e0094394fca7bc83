//! Stages that are planned again.

use std::sync::Arc;

use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;

use crate::support::answer::{plan_of, shown};
use crate::support::session::{Rule, session_by};
use crate::support::snapshot::{answer, lines, run};

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
                let ([expected, given], explained) = rows_of_both(&context, &sql).await;
                assert!(explained.contains("Bowtie"), "{rule:?}: {explained}");
                assert_eq!(expected, given, "{rule:?}: {sql}");
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

/// The rows that `sql` gives with and without bowtie, in their order; the latter's plan.
async fn rows_of_both(context: &SessionContext, sql: &str) -> ([Vec<String>; 2], String) {
    let mut rows = [vec![], vec![]];
    for (rows, offload) in rows.iter_mut().zip(["off", "force"]) {
        let offload = format!("SET bowtie.offload = '{offload}'");
        run(context, &offload).await.unwrap();
        *rows = lines(&run(context, sql).await.unwrap());
    }
    let explained = answer(context, &format!("EXPLAIN {sql}")).await;
    (rows, explained)
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
            "SELECT k, sum(v) FROM (SELECT m AS k, k AS v FROM a ORDER BY m, v LIMIT 1000) GROUP BY k ORDER BY k LIMIT 3".into(),
        ] {
            let (mut rows, explained) = rows_of_both(&context, &sql).await;
            // Where nothing orders the rows that come out, they have any order.
            rows.iter_mut().for_each(|rows| rows.sort_unstable());
            // Groups whose keys come in order stay.
            let is_offloaded = explained.contains("Bowtie") || sql.contains("GROUP BY");
            assert!(is_offloaded, "{rule:?}: {explained}");
            assert_eq!(rows[0], rows[1], "{rule:?}: {sql}\n{explained}");
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
            let ([expected, given], _) = rows_of_both(&context, &sql).await;
            assert_eq!(expected, given, "{rule:?} {partitions}: {sql}");
        }
    }
}

/// Where rows come in the order of an aggregate, DataFusion's accumulator takes the first one, and no node requires the order.
#[tokio::test]
async fn stages_keep_the_order_of_aggregates() {
    for (rule, partitions) in PLANNERS {
        let context = prepared(rule, partitions, &[
            "SET bowtie.equi_join_strategy = 'partitioned_hash'",
            "CREATE TABLE a AS SELECT value * 3 AS k, value % 7 AS m FROM generate_series(1, 5000)",
        ])
        .await;
        let joined = "a JOIN generate_series(1, 20000) g ON a.k = g.value";
        for sql in [
            format!(
                "SELECT first_value(m ORDER BY g.value), last_value(m ORDER BY g.value) FROM {joined}"
            ),
            format!("SELECT first_value(m ORDER BY g.value DESC), count(*) FROM {joined}"),
            format!("SELECT nth_value(m, 3 ORDER BY g.value), sum(m) FROM {joined}"),
            format!("SELECT array_agg(m ORDER BY g.value)[4] FROM {joined}"),
            format!(
                "SELECT k % 5 AS g, first_value(m > 3 ORDER BY g.value), last_value(m > 3 ORDER BY g.value) FROM {joined} GROUP BY k % 5 ORDER BY g"
            ),
            format!(
                "SELECT g.value % 5 AS f, first_value(m ORDER BY g.value) FROM {joined} GROUP BY f ORDER BY f"
            ),
        ] {
            let ([expected, given], explained) = rows_of_both(&context, &sql).await;
            assert!(explained.contains("Bowtie"), "{rule:?}: {explained}");
            assert_eq!(expected, given, "{rule:?} {partitions}: {sql}\n{explained}");
        }
    }
}

/// Some of DataFusion's nodes have the order of their input, but do not say that they keep it. Of several partitions DataFusion forgets it.
#[tokio::test]
async fn stages_keep_the_order_below_lists() {
    for rule in [Rule::Early, Rule::Stages, Rule::CutStages] {
        let context = prepared(rule, 1, &[
            "SET bowtie.equi_join_strategy = 'partitioned_hash'",
            "CREATE TABLE a AS SELECT value * 3 AS k, value % 7 AS m FROM generate_series(1, 5000)",
        ])
        .await;
        let joined = "a JOIN generate_series(1, 20000) g ON a.k = g.value";
        let lists =
            format!("SELECT g.value, unnest(make_array(m)) AS u FROM {joined} ORDER BY g.value");
        for sql in [
            lists.clone(),
            format!("{lists} LIMIT 9"),
            format!("SELECT sum(value) FROM ({lists} LIMIT 9)"),
            format!("SELECT first_value(u ORDER BY value) FROM ({lists})"),
            // Its order follows from that of the rows.
            format!("SELECT first_value(u ORDER BY CAST(value AS DOUBLE)) FROM ({lists})"),
        ] {
            let ([expected, given], explained) = rows_of_both(&context, &sql).await;
            assert_eq!(expected, given, "{rule:?}: {sql}\n{explained}");
        }
    }
}

/// A file is sorted by a column that the scan leaves out.
#[tokio::test]
async fn stages_keep_the_order_of_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.parquet");
    let file = file.display();
    for (rule, partitions) in PLANNERS {
        let context = prepared(rule, partitions, &[
            "SET bowtie.equi_join_strategy = 'partitioned_hash'",
            &format!("COPY (SELECT value * 7919 % 20011 AS y, value AS b, value AS a FROM generate_series(1, 20000) ORDER BY value) TO '{file}'"),
            &format!("CREATE EXTERNAL TABLE t STORED AS PARQUET WITH ORDER (a) LOCATION '{file}'"),
            "CREATE TABLE s AS SELECT value * 3 AS x FROM generate_series(1, 5000)",
        ])
        .await;
        for sql in [
            "SELECT x, y, b FROM s JOIN t ON x = y ORDER BY a",
            "SELECT sum(x), sum(y), sum(b) FROM (SELECT x, y, b FROM s JOIN t ON x = y ORDER BY a LIMIT 9)",
            "SELECT b FROM t WHERE y % 3 = 1 ORDER BY a LIMIT 9 OFFSET 4",
        ] {
            let ([expected, given], explained) = rows_of_both(&context, sql).await;
            assert_eq!(expected, given, "{rule:?} {partitions}: {sql}\n{explained}");
        }
    }
}

/// Below a window, DataFusion reads of each partition some rows more than the limit above it.
#[tokio::test]
async fn stages_keep_what_windows_read_beyond_a_limit() {
    for (rule, partitions) in PLANNERS {
        let context = prepared(rule, partitions, &[
            "SET datafusion.optimizer.enable_topk_repartition = false",
            "SET bowtie.equi_join_strategy = 'partitioned_hash'",
            "CREATE TABLE a AS SELECT value * 3 AS k, value % 7 AS m FROM generate_series(1, 5000)",
        ])
        .await;
        let numbers = "SELECT g.value / 15 AS k, g.value AS id FROM a JOIN generate_series(1, 20000) g ON a.k = g.value";
        let sum =
            "sum(id) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING)";
        let all = format!("SELECT k, id, {sum} AS s FROM ({numbers})");
        // Any ten of the rows, each as it is among all.
        let sql = format!(
            "SELECT count(*) FROM (SELECT k, id, {sum} AS s FROM ({numbers}) LIMIT 10) x JOIN ({all}) y ON x.id = y.id AND x.s = y.s"
        );
        let (_, explained) = rows_of_both(&context, &sql).await;
        assert_eq!(
            answer(&context, &sql).await,
            "10",
            "{rule:?} {partitions}: {sql}\n{explained}"
        );
    }
}

/// The rows of a stage come again when it is executed again, those of joins in it that stay DataFusion's, too.
#[tokio::test]
async fn stages_begin_anew() {
    for rule in [Rule::Stages, Rule::CutStages] {
        let context = prepared(
            rule,
            1,
            &[
                "SET bowtie.offload = 'force'",
                "CREATE TABLE a AS SELECT value AS k, value % 7 AS m FROM generate_series(1, 60)",
            ],
        )
        .await;
        let outer = "SELECT a.k, b.m FROM a LEFT JOIN a b ON a.k = b.k + 40 AND random() < 2";
        let sql = format!("SELECT l.k, l.m, r.m AS n FROM ({outer}) l JOIN a r ON l.k < r.k");
        let plan = plan_of(&context, &sql).await.unwrap();
        let text = shown(&plan);
        assert!(text.contains("Bowtie"), "{rule:?}: {text}");
        let mut runs = vec![];
        for _ in 0..2 {
            let rows = collect(Arc::clone(&plan), context.task_ctx())
                .await
                .unwrap();
            let mut rows = lines(&rows);
            rows.sort();
            runs.push(rows);
        }
        assert_eq!(runs[0].len(), 60 * 59 / 2, "{rule:?}: {text}");
        assert_eq!(runs[0], runs[1], "{rule:?}: {text}");
    }
}
