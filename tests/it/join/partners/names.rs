//! Names that are on both sides of a lateral subquery, and conditions of one side.

use datafusion::prelude::SessionContext;

use crate::join::partners::rows_of;
use crate::support::answer::answer;
use crate::support::session::{session, set};
use crate::support::tuning::Tuning;

async fn made(statements: &[&str]) -> SessionContext {
    let ctx = session();
    for sql in statements {
        ctx.sql(sql).await.unwrap().collect().await.unwrap();
    }
    ctx
}

/// The rows of a query with and without bowtie, which must be `expected`, or an error of DataFusion where that has no plan.
async fn check_rows(ctx: &SessionContext, sql: &str, expected: Option<&[&str]>) {
    for offload in ["off", "auto"] {
        set(ctx, "bowtie.offload", offload);
        let given = answer(ctx, sql).await;
        match (expected, given) {
            (None, Err(error)) => assert!(
                error.to_string().contains("not implemented"),
                "{sql}\n{error}"
            ),
            (None, Ok(given)) => panic!("{sql}\n{}", given.plan),
            (Some(_), Err(error)) => panic!("{sql}\n{error}"),
            (Some(expected), Ok(given)) => {
                let mut rows = vec![];
                for batch in &given.batches {
                    for row in 0..batch.num_rows() {
                        let values = batch.columns().iter().map(|column| {
                            arrow::util::display::array_value_to_string(column, row).unwrap()
                        });
                        rows.push(values.collect::<Vec<_>>().join("|"));
                    }
                }
                rows.sort();
                assert_eq!(rows, expected, "{sql}\n{}", given.plan);
            }
        }
    }
    if let Some(expected) = expected {
        assert_eq!(rows_of(ctx, sql, &Tuning::PLAIN).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn few_rows_are_datafusions() {
    let ctx = made(&[
        "CREATE TABLE t AS VALUES (1, 5), (2, 7), (3, 1)",
        "CREATE TABLE q AS VALUES (4, 40), (6, 60), (2, 20)",
    ])
    .await;
    let subquery =
        "SELECT q.column2 FROM q WHERE q.column1 <= t.column2 ORDER BY q.column1 DESC LIMIT 1";
    let expected = ["1|40", "2|60", "3|"];
    for sql in [
        format!("SELECT t.column1, ({subquery}) FROM t"),
        format!("SELECT t.column1, l.column2 FROM t LEFT JOIN LATERAL ({subquery}) l ON true"),
        "SELECT id, v FROM (SELECT t.column1 AS id, q.column2 AS v, row_number() OVER (PARTITION BY t.r ORDER BY q.column1 DESC) AS n \
         FROM (SELECT *, row_number() OVER () AS r FROM t) t LEFT JOIN q ON q.column1 <= t.column2) WHERE n = 1".to_string(),
        "SELECT column1, column2_right FROM bowtie_asof('SELECT * FROM t', 'q', 'column2 = column1')".to_string(),
    ] {
        check_rows(&ctx, &sql, Some(&expected)).await;
    }
}

#[tokio::test]
async fn names_of_both_sides() {
    let ctx = made(&[
        "CREATE TABLE a(ts BIGINT, v BIGINT) AS VALUES (1, 100), (50, 200)",
        "CREATE TABLE s(ts BIGINT) AS VALUES (5), (20)",
        "CREATE TABLE q(ts BIGINT, v BIGINT) AS VALUES (4, 40), (6, 60), (2, 20), (15, 150)",
    ])
    .await;
    // Below a name of its own, the subquery's columns have the names of columns outside.
    let sql = "SELECT t.ts, s.ts, l.v FROM a t CROSS JOIN s, LATERAL \
               (SELECT * FROM (SELECT t.ts, t.v FROM q t WHERE t.ts <= s.ts) u ORDER BY u.ts DESC LIMIT 1) l";
    check_rows(&ctx, sql, None).await;
    let sql = "SELECT s.ts, l.v FROM s, LATERAL (SELECT q.v FROM q WHERE q.ts <= s.ts ORDER BY q.ts DESC LIMIT 1) l";
    check_rows(&ctx, sql, Some(&["20|150", "5|40"])).await;
    // Names that ours might be.
    let sql = "SELECT c0, (SELECT q.v FROM q WHERE q.ts <= c0 ORDER BY q.ts DESC LIMIT 1) FROM (SELECT ts AS c0 FROM s)";
    check_rows(&ctx, sql, Some(&["20|150", "5|40"])).await;
    let sql = "SELECT s.ts, row_number() OVER (ORDER BY s.ts) AS n, (SELECT q.v FROM q WHERE q.ts <= s.ts ORDER BY q.ts DESC LIMIT 1) FROM s";
    check_rows(&ctx, sql, Some(&["20|2|150", "5|1|40"])).await;
    let sql = "SELECT x.ts, (SELECT q.v FROM q WHERE q.ts <= x.ts ORDER BY q.ts DESC LIMIT 1) FROM (SELECT *, row_number() OVER () FROM s) x";
    check_rows(&ctx, sql, Some(&["20|150", "5|40"])).await;
    let sql = "SELECT ts, v FROM bowtie_asof('SELECT *, row_number() OVER () FROM s', 'q', 'ts')";
    check_rows(&ctx, sql, Some(&["20|150", "5|40"])).await;
}

#[tokio::test]
async fn conditions_of_the_rows_outside() {
    let ctx = made(&[
        "CREATE TABLE t(a BIGINT, ts BIGINT) AS VALUES (1, 5), (NULL, 7), (3, 1)",
        "CREATE TABLE q(ts BIGINT, v BIGINT) AS VALUES (4, 40), (6, 60), (2, 20)",
    ])
    .await;
    for condition in ["t.a = t.a", "t.a IS NOT NULL", "t.a < 100", "t.a <> 2"] {
        let sql = format!(
            "SELECT t.a, t.ts, (SELECT q.v FROM q WHERE q.ts <= t.ts AND {condition} ORDER BY q.ts DESC LIMIT 1) FROM t"
        );
        check_rows(&ctx, &sql, Some(&["1|5|40", "3|1|", "|7|"])).await;
    }
    let sql = "SELECT t.a, l.v FROM t LEFT JOIN LATERAL (SELECT q.v FROM q WHERE q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1 + 0) l ON 1 = 1 WHERE t.a IS NOT NULL";
    check_rows(&ctx, sql, Some(&["1|40", "3|"])).await;
}

#[tokio::test]
async fn tolerances_of_coarse_times() {
    let ctx = made(&[
        "CREATE TABLE t AS SELECT arrow_cast(10, 'Timestamp(Second, None)') AS ts",
        "CREATE TABLE q AS SELECT arrow_cast(9100000000, 'Timestamp(Nanosecond, None)') AS ts, 1 AS v",
        "CREATE TABLE d AS SELECT DATE '2020-01-05' AS day",
        "CREATE TABLE e AS SELECT TIMESTAMP '2020-01-04T18:00:00' AS day, 2 AS v",
        "CREATE TABLE least AS VALUES (-9223372036854775807), (10)",
        "CREATE TABLE other AS VALUES (-9223372036854775808, 3), (8, 4)",
        "CREATE TABLE small AS SELECT arrow_cast(column1, 'UInt8') AS n FROM (VALUES (2), (250))",
    ])
    .await;
    for (call, expected) in [
        (
            "bowtie_asof('t', 'q', 'ts', NULL, 'backward', INTERVAL '500 milliseconds')",
            vec![""],
        ),
        (
            "bowtie_asof('t', 'q', 'ts', NULL, 'backward', INTERVAL '1 second')",
            vec!["1"],
        ),
        (
            "bowtie_asof('d', 'e', 'day', NULL, 'backward', INTERVAL '12 hours')",
            vec!["2"],
        ),
        (
            "bowtie_asof('d', 'e', 'day', NULL, 'backward', INTERVAL '5 hours')",
            vec![""],
        ),
    ] {
        check_rows(&ctx, &format!("SELECT v FROM {call}"), Some(&expected)).await;
    }
    let sql = "SELECT column1, column2 FROM bowtie_asof('least', 'other', 'column1', NULL, 'backward', 5)";
    check_rows(&ctx, sql, Some(&["-9223372036854775807|3", "10|4"])).await;
    let sql = "SELECT n, n_right FROM bowtie_asof('small', 'SELECT CAST(n + 1 AS TINYINT UNSIGNED) AS n FROM small', 'n', NULL, 'backward', 252)";
    check_rows(&ctx, sql, Some(&["250|3", "2|"])).await;
}
