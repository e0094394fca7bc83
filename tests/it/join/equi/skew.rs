//! Equi-joins of skewed keys, and of many rows: every strategy gives the rows of DataFusion.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray};

use crate::join::equi::strategies::{MATERIALIZATIONS, STRATEGIES, turn};
use crate::support::answer::{check, stock};
use crate::support::session::session;
use crate::support::tables::register;
use crate::support::tuning::Tuning;

/// A table: keys of the distribution `which`, and columns of several widths.
fn side(rows: i64, which: usize, matched: i64) -> RecordBatch {
    let key = |i: i64| match which {
        // Unique and unordered; four rows a key; all equal; one heavy key; all NULL; keys that no other distribution has.
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

/// A million rows of one key, or of NULL, on either side, and on both where they do not match.
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

/// Zipf-distributed probe keys, and build keys too.
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
