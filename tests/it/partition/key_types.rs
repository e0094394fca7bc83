//! Partitions by keys of every type, and by dictionaries.

use crate::partition::check::{SHORT, check, hashing, run_partitioned};
use crate::support::answer::{plan_of, shown, stock};
use crate::support::compare::same_rows;
use crate::support::join_types::KINDS;
use crate::support::key_types::orderable_types;
use crate::support::left_out::{By, LeftOut};
use crate::support::session::set;
use crate::support::tables::{keyed_table, register};
use crate::support::tuning::Tuning;

#[tokio::test]
async fn keys_of_all_types() {
    let mut left_out = LeftOut::default();
    let mut partitioned = 0;
    for data_type in orderable_types() {
        let ctx = hashing();
        for (seed, nulls) in [(0, 0.0), (10, 0.3)] {
            register(&ctx, "r", &keyed_table(&data_type, 53, nulls, seed + 1));
            register(&ctx, "s", &keyed_table(&data_type, 41, nulls, seed + 2));
            for (what, sql) in [
                (
                    "join",
                    "SELECT r.id AS i, s.id AS j, r.k, s.l FROM r FULL JOIN s ON r.k = s.k",
                ),
                (
                    "join of NULLs",
                    "SELECT r.id AS i, s.id AS j FROM r JOIN s ON (r.k IS NOT DISTINCT FROM s.k) AND (r.l IS NOT DISTINCT FROM s.l)",
                ),
                (
                    "groups",
                    "SELECT k, l, count(*), min(id) FROM r GROUP BY k, l",
                ),
            ] {
                let case = format!("{data_type}: {what}");
                let Ok(stock) = stock(&ctx, sql).await else {
                    left_out.leave(case, By::DataFusion);
                    continue;
                };
                SHORT.apply(&ctx);
                set(&ctx, "bowtie.offload", "force");
                if !shown(&plan_of(&ctx, sql).await.unwrap()).contains("Bowtie") {
                    left_out.leave(case, By::Bowtie);
                    continue;
                }
                let (given, parts) = run_partitioned(&ctx, sql).await;
                partitioned += usize::from(parts > 0);
                if let Err(difference) = same_rows(&stock, &given) {
                    panic!("{data_type}: {sql}\n{}\n{difference}", given.plan);
                }
                left_out.compared(case);
            }
        }
    }
    // DataFusion has two zeros in a dictionary.
    let cases = ["join", "join of NULLs", "groups"];
    left_out.assert_are(&cases.map(|case| format!("Dictionary(Int32, Float64): {case} by Bowtie")));
    assert!(partitioned > 200, "{partitioned} queries were partitioned");
}

/// All rows of one key are in one partition, which exceeds a chunk; rows with a NULL are spread over all partitions.
#[tokio::test]
async fn one_key() {
    let ctx = hashing();
    for (name, rows) in [("r", 50), ("s", 70)] {
        let sql = format!(
            "CREATE TABLE {name} AS SELECT i AS id, 7 AS k, CASE WHEN i = 11 THEN 1 END AS n FROM (SELECT value AS i FROM generate_series(1, {rows}))"
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    for kind in KINDS {
        for condition in ["r.k = s.k", "r.n = s.n", "r.n IS NOT DISTINCT FROM s.n"] {
            let sql = kind.sql("r", "s", &["id"], condition);
            check(&ctx, &sql, SHORT).await;
        }
    }
}

/// Dictionaries with more values than a partition has rows, as keys and as payload.
#[tokio::test]
async fn dictionaries() {
    let ctx = hashing();
    for (name, rows) in [("r", 50), ("s", 70)] {
        let sql = format!(
            "CREATE TABLE {name} AS SELECT i AS id, arrow_cast('t' || (i % 40), 'Dictionary(Int32, Utf8)') AS d,
             arrow_cast(nullif(i % 30, 7), 'Dictionary(Int64, Int32)') AS n, 't' || (i % 40) AS t
             FROM (SELECT value AS i FROM generate_series(1, {rows}))"
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    for kind in KINDS {
        for condition in [
            "r.d = s.d",
            "r.n = s.n",
            "r.id = s.id AND r.d <> s.d",
            "r.d = s.t",
        ] {
            let sql = kind.sql("r", "s", &["id", "d", "n"], condition);
            check(&ctx, &sql, SHORT).await;
        }
    }
    check(
        &ctx,
        "SELECT d, n, count(*), max(t) FROM r GROUP BY d, n",
        SHORT,
    )
    .await;
}

/// Dictionaries that differ from batch to batch, with values of every type.
#[tokio::test]
async fn dictionaries_of_batches() {
    let mut left_out = LeftOut::default();
    for values in [
        "Utf8",
        "LargeUtf8",
        "Utf8View",
        "Binary",
        "BinaryView",
        "Int64",
    ] {
        let ctx = hashing();
        for (name, batches) in [("r", 5), ("s", 9)] {
            let batch = |n: usize| {
                let value = match values {
                    "Int64" => "(i * 3) % 19".to_string(),
                    "Utf8" | "LargeUtf8" | "Utf8View" => {
                        format!("arrow_cast('some text of {n}: ' || (i * 3 % 19), '{values}')")
                    }
                    _ => format!(
                        "arrow_cast(arrow_cast('some bytes: ' || (i * 3 % 19), 'Binary'), '{values}')"
                    ),
                };
                format!(
                    "SELECT i AS id, arrow_cast(CASE WHEN i % 7 > 0 THEN {value} END, 'Dictionary(Int64, {values})') AS d
                     FROM (SELECT value AS i FROM generate_series({}, {}))",
                    n * 5,
                    n * 5 + 6
                )
            };
            let all: Vec<String> = (0..batches).map(batch).collect();
            let sql = format!("CREATE TABLE {name} AS {}", all.join(" UNION ALL "));
            ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        for (what, sql) in [
            (
                "join",
                "SELECT r.id AS i, s.id AS j, r.d AS a, s.d AS b FROM r FULL JOIN s ON r.d = s.d",
            ),
            (
                "payload",
                "SELECT r.id AS i, s.id AS j, r.d AS a, s.d AS b FROM r LEFT JOIN s ON r.id = s.id + 1",
            ),
            ("groups", "SELECT d, count(*), min(id) FROM s GROUP BY d"),
        ] {
            let case = format!("{values}: {what}");
            let Ok(stock) = stock(&ctx, sql).await else {
                left_out.leave(case, By::DataFusion);
                continue;
            };
            for tuning in [Tuning::PLAIN, SHORT] {
                tuning.apply(&ctx);
                set(&ctx, "bowtie.offload", "force");
                if !shown(&plan_of(&ctx, sql).await.unwrap()).contains("Bowtie") {
                    left_out.leave(&case, By::Bowtie);
                    continue;
                }
                let (given, _) = run_partitioned(&ctx, sql).await;
                same_rows(&stock, &given)
                    .unwrap_or_else(|e| panic!("{values}: {sql}\n{tuning:?}\n{}\n{e}", given.plan));
                left_out.compared(&case);
            }
        }
    }
    left_out.assert_are(&[]);
}
