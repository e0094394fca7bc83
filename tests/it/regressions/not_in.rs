//! NULLs on the right side of `NOT IN`.

use crate::support::snapshot::{answer, refusal, run, session_on_test_device as session};

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
