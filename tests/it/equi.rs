//! Equi-joins by every strategy and way of materialisation, beside DataFusion's.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray};
use datafusion::prelude::SessionContext;

use crate::answer::{check, forced, plan_of, shown, stock};
use crate::differential::kinds::KINDS;
use crate::domains::orderable_types;
use crate::session::{Tuning, session, set};
use crate::tables::{keyed_table, mixed_table, register};

const STRATEGIES: [&str; 5] = ["auto", "direct", "hash", "partitioned_hash", "sort_merge"];
const MATERIALIZATIONS: [&str; 3] = ["auto", "gfur", "gftr"];

fn turn(ctx: &SessionContext, n: usize) -> String {
    let strategy = STRATEGIES[n % STRATEGIES.len()];
    let materialization = MATERIALIZATIONS[n % MATERIALIZATIONS.len()];
    set(ctx, "bowtie.join_strategy", strategy);
    set(ctx, "bowtie.materialization", materialization);
    strategy.into()
}

/// Each strategy and way of materialisation × each join type, with and without residual, several keys, equal NULLs; a task for
/// each condition.
#[tokio::test(flavor = "multi_thread")]
async fn strategies_and_kinds() {
    let conditions = [
        "r.a = s.b",
        "r.g = s.g AND r.a = s.a",
        "r.t = s.t",
        "r.c = s.c",
        "r.a = s.a AND r.b + s.b > 9",
        "r.a + 1 = s.b AND r.t <> s.t",
        "r.a IS NOT DISTINCT FROM s.a",
    ];
    let tasks = conditions
        .into_iter()
        .enumerate()
        .map(|(i, condition)| tokio::spawn(strategies_and_kinds_on(i, condition)));
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

async fn strategies_and_kinds_on(i: usize, condition: &str) {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.15, 5));
    register(&ctx, "s", &mixed_table(45, 0.15, 6));
    let ways = STRATEGIES.len() * MATERIALIZATIONS.len();
    for (k, kind) in KINDS.iter().enumerate() {
        let sql = kind.sql("r", "s", &["id", "t", "c"], condition);
        let stock = stock(&ctx, &sql).await.unwrap();
        // Tunings have other periods than strategies.
        for way in 0..ways {
            let n = (k * 7 + i) * ways + way;
            turn(&ctx, n);
            check(&ctx, &sql, &Tuning::nth(n / 7), &stock, &["BowtieJoinExec"]).await;
        }
    }
}

#[tokio::test]
async fn key_types() {
    let mut n = 0;
    for data_type in orderable_types() {
        let ctx = session();
        for nulls in [0.0, 0.3] {
            register(&ctx, "r", &keyed_table(&data_type, 31, nulls, 7));
            register(&ctx, "s", &keyed_table(&data_type, 23, nulls, 8));
            for condition in ["r.k = s.k", "r.k = s.k AND r.l = s.l"] {
                let sql =
                    format!("SELECT r.id AS i, s.id AS j, r.k, s.l FROM r JOIN s ON {condition}");
                let Ok(stock) = stock(&ctx, &sql).await else {
                    println!("skipped {data_type}: DataFusion refuses it");
                    continue;
                };
                for _ in 0..STRATEGIES.len() {
                    turn(&ctx, n);
                    n += 1;
                    let answer = forced(&ctx, &sql, &Tuning::PLAIN).await.unwrap();
                    if !answer.plan.contains("BowtieJoinExec") {
                        println!("skipped {data_type}: bowtie leaves equality on it to DataFusion");
                        break;
                    }
                    crate::answer::same_rows(&stock, &answer).unwrap();
                }
            }
        }
    }
}

/// Tables of `rows`: a key of kind `which`, and columns of several widths.
fn side(rows: i64, which: usize, matched: i64) -> RecordBatch {
    let key = |i: i64| match which {
        // Unique and scattered; four rows a key; all equal; one heavy key; all NULL; keys that no other kind has.
        0 => Some(i * 7_919 % rows * matched),
        1 => Some(i % (rows / 4).max(1)),
        2 => Some(3),
        3 => Some(if i % 2 == 0 { 1 } else { i }),
        5 => Some(-1 - i),
        _ => None,
    };
    let keys: Int32Array = (0..rows).map(|i| key(i).map(|k| k as i32)).collect();
    let longs: Int64Array = (0..rows).map(|i| Some(i << 33)).collect();
    let decimals: Decimal128Array = (0..rows).map(|i| Some(i128::from(i) << 50)).collect();
    let some: Int32Array = (0..rows)
        .map(|i| (i % 3 != 0).then_some(i as i32))
        .collect();
    let text: StringArray = (0..rows)
        .map(|i| (i % 5 != 0).then(|| format!("{i}")))
        .collect();
    RecordBatch::try_from_iter([
        ("k", Arc::new(keys) as ArrayRef),
        ("x", Arc::new(longs)),
        ("d", Arc::new(decimals)),
        ("n", Arc::new(some)),
        ("t", Arc::new(text)),
    ])
    .unwrap()
}

/// Skew, and more rows than a partition's table holds.
#[tokio::test]
async fn skew_and_size() {
    let mut n = 0;
    for (build, probe) in [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (3, 0),
        (0, 3),
        (4, 0),
        (0, 4),
        (1, 1),
        (1, 5),
        (5, 2),
    ] {
        let ctx = session();
        register(&ctx, "r", &side(9_000, build, 1));
        register(&ctx, "s", &side(12_000, probe, 2));
        let sql = "SELECT r.k, r.x, r.d, r.n, r.t, s.k AS l, s.x AS y, s.d AS e, s.n AS o, s.t AS u FROM r JOIN s ON r.k = s.k";
        let stock = stock(&ctx, sql).await.unwrap();
        for _ in 0..STRATEGIES.len() * MATERIALIZATIONS.len() {
            turn(&ctx, n);
            n += 1;
            let tuning = Tuning {
                chunk_rows: ["auto", "5000"][n % 2],
                ..Tuning::PLAIN
            };
            check(&ctx, sql, &tuning, &stock, &["BowtieJoinExec"]).await;
        }
    }
}

/// A million rows of one key, or without one, on either side, and on both where nothing comes of them.
#[tokio::test]
async fn a_million_rows_of_one_key() {
    const ROWS: i64 = 1_000_000;
    let ctx = session();
    for (name, rows, which) in [("same", ROWS, 2), ("none", ROWS, 4), ("few", 12, 1)] {
        register(&ctx, name, &side(rows, which, 1));
    }
    for (n, condition) in [
        "same r JOIN few s ON r.k = s.k - 0",
        "few r JOIN same s ON r.k + 1 = s.k",
        "same r FULL JOIN few s ON r.k + 2 = s.k",
        "none r FULL JOIN few s ON r.k = s.k",
        "few r LEFT JOIN none s ON r.k = s.k",
        "same r JOIN none s ON r.k = s.k",
        "none r LEFT SEMI JOIN none s ON r.k = s.k",
        "same r LEFT ANTI JOIN few s ON r.k = s.k",
    ]
    .into_iter()
    .enumerate()
    {
        let columns = match condition.contains("SEMI") || condition.contains("ANTI") {
            true => "r.k, r.x",
            false => "r.k, r.x, s.k AS l, s.x AS y",
        };
        let sql = format!("SELECT {columns} FROM {condition}");
        let stock = stock(&ctx, &sql).await.unwrap();
        for way in 0..STRATEGIES.len() {
            turn(&ctx, n + 4 * way);
            let used = &["BowtieJoinExec"];
            check(&ctx, &sql, &Tuning::PLAIN, &stock, used).await;
        }
    }
}

async fn analyzed(ctx: &SessionContext, sql: &str) -> String {
    let sql = format!("EXPLAIN ANALYZE {sql}");
    let analyzed = crate::answer::answer(ctx, &sql).await.unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&analyzed.batches);
    text.unwrap().to_string()
}

/// A limit on a join ends it early, with rows of the join.
#[tokio::test]
async fn limits() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.15, 5));
    register(&ctx, "s", &mixed_table(45, 0.15, 6));
    let mut n = 0;
    for kind in KINDS {
        let all = kind.sql("r", "s", &["id", "t"], "r.a = s.b");
        let all_rows = stock(&ctx, &all).await.unwrap();
        // Cells without the width of their column.
        let rows = |answer: &crate::answer::Answer| -> Vec<String> {
            let text = arrow::util::pretty::pretty_format_batches(&answer.batches);
            let text = text.unwrap().to_string();
            let cells = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            let lines = text.lines().filter(|line| line.starts_with("| "));
            lines.skip(1).map(cells).collect()
        };
        let all_lines = rows(&all_rows);
        let count = |lines: &[String], line: &String| lines.iter().filter(|l| *l == line).count();
        for limit in [1, 7, 1000] {
            for _ in 0..4 {
                turn(&ctx, n);
                let sql = format!("SELECT * FROM ({all}) LIMIT {limit}");
                let given = forced(&ctx, &sql, &Tuning::nth(n)).await.unwrap();
                n += 1;
                assert!(given.plan.contains("BowtieJoinExec"), "{}", given.plan);
                let given = rows(&given);
                assert_eq!(given.len(), limit.min(all_lines.len()), "{sql}");
                for line in &given {
                    let is_one_of_all = count(&given, line) <= count(&all_lines, line);
                    assert!(is_one_of_all, "{sql}: {line}");
                }
            }
        }
    }
}

/// Probe keys by Zipf's distribution, and build keys too: every strategy gives DataFusion's rows.
#[tokio::test]
async fn zipf() {
    for (n, exponent) in [0.5f64, 1.0, 1.5].into_iter().enumerate() {
        let ctx = session();
        let drawn = |rows: usize, seed: u64| {
            let mut state = seed;
            let weights: Vec<f64> = (1..=500).map(|k| f64::from(k).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            let keys: Int32Array = (0..rows)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let mut at = (state >> 11) as f64 / (1u64 << 53) as f64 * total;
                    let key = weights.iter().position(|weight| {
                        at -= weight;
                        at < 0.0
                    });
                    key.map(|key| key as i32)
                })
                .collect();
            let ids = Int64Array::from_iter_values(0..rows as i64);
            RecordBatch::try_from_iter([("k", Arc::new(keys) as ArrayRef), ("x", Arc::new(ids))])
                .unwrap()
        };
        register(&ctx, "r", &side(500, 0, 1));
        register(&ctx, "s", &drawn(20_000, 3));
        register(&ctx, "u", &drawn(600, 5));
        for (i, sql) in [
            "SELECT r.k, r.x, s.x AS y FROM r JOIN s ON r.k = s.k",
            "SELECT u.k, u.x, s.x AS y FROM u JOIN s ON u.k = s.k AND u.x + s.x > 20000",
            "SELECT s.k, s.x, r.x AS y FROM s FULL JOIN r ON r.k + 3 = s.k",
            "SELECT u.k, u.x FROM u LEFT ANTI JOIN s ON u.k = s.k",
        ]
        .into_iter()
        .enumerate()
        {
            let stock = stock(&ctx, sql).await.unwrap();
            for way in 0..STRATEGIES.len() {
                turn(&ctx, way * 4 + i + n);
                check(&ctx, sql, &Tuning::PLAIN, &stock, &["BowtieJoinExec"]).await;
            }
        }
    }
}

/// What is forced is shown, and used.
#[tokio::test]
async fn a_forced_strategy_is_shown_and_used() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.1, 5));
    register(&ctx, "s", &mixed_table(45, 0.1, 6));
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    for strategy in &STRATEGIES[1..] {
        set(&ctx, "bowtie.join_strategy", strategy);
        let sql = "SELECT r.t FROM r JOIN s ON r.a = s.a";
        let plan = shown(&plan_of(&ctx, sql).await.unwrap());
        assert!(plan.contains(&format!("strategy={strategy}")), "{plan}");
        let text = analyzed(&ctx, sql).await;
        assert!(text.contains(&format!("indexed_{strategy}=")), "{text}");
        for materialization in &MATERIALIZATIONS[1..] {
            set(&ctx, "bowtie.materialization", materialization);
            // Where build keys have repeats, a GPU finds ranges of rows by what is forced, whose columns are gathered.
            let text = analyzed(&ctx, "SELECT r.b, s.id FROM r JOIN s ON r.id = s.id").await;
            let used = format!("materialized_{materialization}=");
            assert!(text.contains(&used), "{text}");
        }
        set(&ctx, "bowtie.materialization", "auto");
    }
    let refused = ctx.sql("SET bowtie.join_strategy = 'nested_loop'").await;
    let refused = match refused {
        Ok(set) => set.collect().await.unwrap_err(),
        Err(refused) => refused,
    };
    assert!(
        refused.to_string().contains("use auto, direct"),
        "{refused}"
    );
}

/// NOT IN: NULLs on either side, none, and no rows to compare with.
#[tokio::test]
async fn null_aware_anti_joins() {
    let ctx = session();
    register(&ctx, "nulls", &mixed_table(60, 0.15, 5));
    register(&ctx, "others", &mixed_table(45, 0.15, 6));
    register(&ctx, "full", &mixed_table(30, 0.0, 7));
    let mut n = 0;
    for (left, right) in [
        ("nulls", "SELECT b FROM full"),
        ("nulls", "SELECT b FROM others"),
        ("full", "SELECT b FROM others"),
        ("nulls", "SELECT b FROM full WHERE b > 100"),
        ("nulls", "SELECT b FROM others WHERE b > 100"),
        ("full", "SELECT b + 3 FROM full"),
        (
            "nulls",
            "SELECT others.b FROM others JOIN full ON others.a = full.a WHERE others.b IS NOT NULL",
        ),
    ] {
        let sql = format!("SELECT l.id, l.a, l.t FROM {left} l WHERE l.a NOT IN ({right})");
        let stock = stock(&ctx, &sql).await.unwrap();
        for _ in 0..STRATEGIES.len() * MATERIALIZATIONS.len() {
            turn(&ctx, n);
            let plan = check(&ctx, &sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
            assert!(plan.contains("null_aware") || left == "full", "{plan}");
            n += 1;
        }
    }
}
