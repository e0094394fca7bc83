//! The table functions `bowtie_asof` and `bowtie_nearest`.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::prelude::SessionContext;

use crate::join::partners::{Limited, check_limited, tables, tunings};
use crate::support::answer::{forced, stock};
use crate::support::compare::same_rows;
use crate::support::session::session;
use crate::support::tuning::Tuning;

/// Checks that two queries have the same rows, of which the first one has a limit of partners.
async fn same_as(ctx: &SessionContext, sql: &str, other: &str, limited: Limited) {
    let expected = stock(ctx, other)
        .await
        .unwrap_or_else(|e| panic!("{other}\n{e}"));
    let given = forced(ctx, sql, &Tuning::PLAIN)
        .await
        .unwrap_or_else(|e| panic!("{sql}\n{e}"));
    if let Err(difference) = same_rows(&expected, &given) {
        panic!("{sql}\n{}\n{difference}", given.plan);
    }
    check_limited(ctx, sql, limited, &tunings(2, 4)).await;
}

#[tokio::test]
async fn functions_are_their_long_forms() {
    let times = [
        DataType::Int64,
        DataType::Int32,
        DataType::Float64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Timestamp(TimeUnit::Second, None),
    ];
    for data_type in times {
        for nulls in [0.0, 0.1] {
            let ctx = session();
            tables(&ctx, &data_type, (50, 80), nulls);
            let (tolerance, number) = match &data_type {
                DataType::Timestamp(..) => ("INTERVAL '5 seconds'", "BIGINT"),
                DataType::Date32 => ("INTERVAL '5 days'", "BIGINT"),
                DataType::Float64 => ("CAST(5 AS DOUBLE)", "DOUBLE"),
                _ => ("5", "BIGINT"),
            };
            let is_float = data_type == DataType::Float64;
            let finally = match is_float {
                true => Limited::First,
                false => Limited::Finally,
            };
            let lateral = |condition: &str, order: &str, limit: usize| {
                format!(
                    "SELECT t.id, t.ts, l.ts AS ts_right FROM t LEFT JOIN LATERAL \
                     (SELECT * FROM q WHERE {condition} ORDER BY {order} LIMIT {limit}) l ON true"
                )
            };
            let function = |call: &str| format!("SELECT id, ts, ts_right FROM {call}");
            let distance = format!("abs(CAST(q.ts AS {number}) - CAST(t.ts AS {number}))");
            let near = format!("q.ts >= t.ts - {tolerance} AND q.ts <= t.ts + {tolerance}");
            for (call, condition, order, limited) in [
                (
                    "bowtie_asof('t', 'q', 'ts')".to_string(),
                    "q.ts <= t.ts".to_string(),
                    "q.ts DESC".to_string(),
                    finally,
                ),
                (
                    "bowtie_asof('t', 'q', 'ts', 'k')".into(),
                    "q.k = t.k AND q.ts <= t.ts".into(),
                    "q.ts DESC".into(),
                    finally,
                ),
                (
                    "bowtie_asof('t', 'q', 'ts = ts', 'k, s = S', 'Forward')".into(),
                    "q.k = t.k AND q.s = t.s AND q.ts >= t.ts".into(),
                    "q.ts".into(),
                    finally,
                ),
                (
                    format!("bowtie_asof('t', 'q', 'ts', 'k', NULL, {tolerance})"),
                    format!("q.k = t.k AND q.ts <= t.ts AND q.ts >= t.ts - {tolerance}"),
                    "q.ts DESC".into(),
                    finally,
                ),
                (
                    format!("bowtie_asof('t', 'q', 'ts', NULL, 'forward', {tolerance})"),
                    format!("q.ts >= t.ts AND q.ts <= t.ts + {tolerance}"),
                    "q.ts".into(),
                    finally,
                ),
                (
                    format!("bowtie_asof('t', 'q', 'ts', 'k', 'nearest', {tolerance})"),
                    format!("q.k = t.k AND {near}"),
                    format!("{distance}, q.ts"),
                    Limited::Finally,
                ),
                (
                    "bowtie_nearest('t', 'q', 'ts', 'k', 3)".into(),
                    "q.k = t.k AND q.ts IS NOT NULL AND t.ts IS NOT NULL".into(),
                    format!("{distance}, q.ts"),
                    Limited::Finally,
                ),
                (
                    format!("bowtie_nearest('t', 'q', 'ts', '\"k\"', 2, {tolerance})"),
                    format!("q.k = t.k AND {near}"),
                    format!("{distance}, q.ts"),
                    Limited::Finally,
                ),
                (
                    "bowtie_nearest('t', 'q', 'ts')".into(),
                    "q.ts IS NOT NULL AND t.ts IS NOT NULL AND t.id >= q.id - 1000000".into(),
                    format!("{distance}, q.ts"),
                    Limited::Finally,
                ),
            ] {
                let limit = match call.contains("'k', 3)") {
                    true => 3,
                    false if call.contains("'\"k\"', 2") => 2,
                    false => 1,
                };
                let limited = match (limited, is_float, &data_type) {
                    // An order of floats tells −0.0 from 0.0.
                    (Limited::Finally, true, _) => Limited::First,
                    (limited, _, _) => limited,
                };
                same_as(
                    &ctx,
                    &function(&call),
                    &lateral(&condition, &order, limit),
                    limited,
                )
                .await;
            }
        }
    }
}

#[tokio::test]
async fn columns_of_the_result() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (50, 80), 0.1);
    let columns = async |sql: &str| -> Vec<String> {
        let schema = ctx.sql(sql).await.unwrap().schema().clone();
        schema.fields().iter().map(|f| f.name().clone()).collect()
    };
    assert_eq!(
        columns("SELECT * FROM bowtie_asof('t', 'q', 'ts', 'k')").await,
        ["id", "k", "s", "ts", "id_right", "s_right", "ts_right"]
    );
    assert_eq!(
        columns("SELECT * FROM bowtie_asof('SELECT id, k, ts FROM t', 'SELECT k AS key, ts AS time, id FROM q', 'ts = time', 'k = key')").await,
        ["id", "k", "ts", "time", "id_right"]
    );
    for sql in [
        "SELECT a.id, a.id_right, q.s FROM bowtie_asof('t', 'q', 'ts', 'k') a JOIN q ON q.id = a.id_right WHERE a.ts > 5",
        "SELECT k, count(*), count(id_right) FROM bowtie_nearest('SELECT * FROM t WHERE id < 30', 'q', 'ts', 'k') GROUP BY k",
        "SELECT count(*) FROM bowtie_asof('t', 't', 'ts', 's')",
    ] {
        // Which of several rows with the same time is the last one is not said.
        let stock = stock(&ctx, &sql.replace("a.id_right, q.s", "q.ts"))
            .await
            .unwrap();
        let given = forced(
            &ctx,
            &sql.replace("a.id_right, q.s", "q.ts"),
            &Tuning::PLAIN,
        )
        .await
        .unwrap();
        same_rows(&stock, &given).unwrap_or_else(|e| panic!("{sql}\n{e}"));
    }
    ctx.sql("CREATE VIEW v AS SELECT * FROM bowtie_asof('t', 'q', 'ts', 'k')")
        .await
        .unwrap();
    let rows = ctx
        .sql("SELECT * FROM v")
        .await
        .unwrap()
        .count()
        .await
        .unwrap();
    assert_eq!(rows, 50);
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (5, 5), 0.1);
    for (call, error) in [
        ("bowtie_asof()", "left is missing"),
        ("bowtie_asof('t')", "right is missing"),
        ("bowtie_asof('t', 'q')", "on is missing"),
        ("bowtie_asof('t', 'q', 7)", "on is a string, not 7"),
        ("bowtie_asof('t', 'q', 'ts, k')", "on is one column"),
        (
            "bowtie_asof('t', 'q', 'time')",
            "left has no column 'time', only id, k, s, ts",
        ),
        (
            "bowtie_asof('t', 'q', 'ts = time')",
            "right has no column 'time'",
        ),
        (
            "bowtie_asof('t', 'q', 'ts', 'key')",
            "left has no column 'key'",
        ),
        (
            "bowtie_asof('t', 'q', 'ts', 'k', 'sideways')",
            "direction is 'backward', 'forward' or 'nearest', not 'sideways'",
        ),
        (
            "bowtie_asof('t', 'q', 'ts', 'k', 'forward', 1, 2)",
            "it has 7 arguments",
        ),
        (
            "bowtie_asof('nowhere', 'q', 'ts')",
            "bowtie_asof cannot plan its query",
        ),
        (
            "bowtie_asof('DROP TABLE t', 'q', 'ts')",
            "bowtie_asof takes a plain query",
        ),
        (
            "bowtie_nearest('t', 'q', 'ts', 'k', 0)",
            "k is a whole number from 1 to 4294967295, not 0",
        ),
        (
            "bowtie_nearest('t', 'q', 's')",
            "the nearest rows need integers up to BIGINT, floats, decimals, dates or timestamps, not Utf8: CAST them",
        ),
        (
            "bowtie_nearest('t', 'q', 'ts', 'k', 4294967296)",
            "k is a whole number from 1 to 4294967295, not 4294967296",
        ),
        (
            "bowtie_nearest('SELECT arrow_cast(id, ''UInt64'') AS v FROM t', 'SELECT arrow_cast(id, ''UInt64'') AS v FROM q', 'v')",
            "dates or timestamps, not UInt64: CAST them",
        ),
        (
            "bowtie_asof('t', 'q', 'ts', 'k', NULL, INTERVAL '3 seconds')",
            "a distance of integers is a whole number from 0 on, not 3.000000000 secs",
        ),
        (
            "bowtie_asof('t', 'q', 'ts', 'k', NULL, CAST('1e300' AS DOUBLE))",
            "not 1e300",
        ),
        (
            "bowtie_asof('SELECT DATE ''2026-01-01'' AS d', 'SELECT DATE ''2026-01-01'' AS d', 'd', NULL, NULL, 1)",
            "a distance of times is an INTERVAL from 0 on, such as INTERVAL '10 seconds', not 1",
        ),
        (
            "bowtie_asof('SELECT 1.5e0 AS v', 'SELECT 1.5e0 AS v', 'v', NULL, NULL, INTERVAL '1 day')",
            "a distance of numbers is a finite number from 0 on, not 1 days",
        ),
        (
            "bowtie_asof('SELECT 1.5e0 AS v', 'SELECT 1.5e0 AS v', 'v', NULL, 'forward', -0.5e0)",
            "a distance of numbers is a finite number from 0 on, not -0.5",
        ),
        (
            "bowtie_asof('SELECT 1.5e0 AS v', 'SELECT 1.5e0 AS v', 'v', NULL, NULL, CAST('NaN' AS DOUBLE))",
            "from 0 on, not NaN",
        ),
        (
            "bowtie_nearest('SELECT 1.5e0 AS v', 'SELECT 1.5e0 AS v', 'v', NULL, 1, CAST('inf' AS DOUBLE))",
            "from 0 on, not inf",
        ),
        (
            "bowtie_nearest('SELECT 1.5e0 AS a, 2e0 AS b', 'SELECT 1.5e0 AS a, 2e0 AS b', 'a, b', NULL, 1, CAST('-inf' AS DOUBLE))",
            "from 0 on, not -inf",
        ),
        (
            "bowtie_asof('SELECT arrow_cast(1, ''Decimal128(9, 2)'') AS v', 'SELECT arrow_cast(1, ''Decimal128(9, 2)'') AS v', 'v', NULL, NULL, -1)",
            "a distance of numbers is a finite number from 0 on, not -1",
        ),
        (
            "bowtie_asof('SELECT DATE ''2026-01-01'' AS d', 'SELECT DATE ''2026-01-01'' AS d', 'd', NULL, NULL, INTERVAL '-1 day')",
            "a distance of times is an INTERVAL from 0 on",
        ),
        (
            "bowtie_asof('SELECT true AS v', 'SELECT true AS v', 'v', NULL, NULL, 1)",
            "values of type Boolean have no distance",
        ),
        (
            "bowtie_asof('My Table', 'q', 'ts')",
            r#"if this names a table, bowtie_asof needs it in double quotes: '"My Table"'"#,
        ),
        (
            "bowtie_asof('t', 'Quotes', 'ts')",
            r#"needs it in double quotes: '"Quotes"'"#,
        ),
        (
            "bowtie_asof('SELECT id, id FROM t', 'q', 'id')",
            "two columns of a query need two names",
        ),
    ] {
        let error_text = match ctx.sql(&format!("SELECT * FROM {call}")).await {
            Ok(_) => panic!("{call} has a plan"),
            Err(given) => given.to_string(),
        };
        assert!(error_text.contains(error), "{call}\n{error_text}");
    }
}

/// Of floats `within` is a distance: NaN and infinities are no partners of themselves.
#[tokio::test]
async fn within_of_floats_is_a_distance() {
    let values = "(1, '0.0'), (2, '-0.0'), (3, '1.5'), (4, '4.5'), (5, '4.6'), (6, '1e38'), (7, '-1e38'), (8, 'NaN'), (9, 'inf'), (10, '-inf'), (11, NULL)";
    for data_type in ["Float64", "Float32"] {
        let ctx = session();
        for table in ["a", "b"] {
            let sql = format!(
                "CREATE TABLE {table} AS SELECT id, arrow_cast(v, '{data_type}') AS v FROM (VALUES {values}) x(id, v)"
            );
            ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        for within in ["0", "'-0.0'", "3", "0.1", "'1e38'", "'1e308'"] {
            let within = format!("CAST({within} AS DOUBLE)");
            let plain = format!(
                "SELECT a.id, b.id AS id_right FROM a LEFT JOIN b ON abs(CAST(b.v AS DOUBLE) - CAST(a.v AS DOUBLE)) <= {within}"
            );
            let expected = stock(&ctx, &plain).await.unwrap();
            let sql = format!(
                "SELECT id, id_right FROM bowtie_nearest('a', 'b', 'v', NULL, 100, {within})"
            );
            let given = stock(&ctx, &sql).await.unwrap();
            same_rows(&expected, &given).unwrap_or_else(|e| panic!("{data_type} {sql}\n{e}"));
            for tuning in tunings(0, 4) {
                let given = forced(&ctx, &sql, &tuning).await.unwrap();
                same_rows(&expected, &given).unwrap_or_else(|e| panic!("{data_type} {sql}\n{e}"));
            }
        }
    }
}
