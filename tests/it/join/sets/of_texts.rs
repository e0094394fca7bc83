//! Set joins of the windows of texts, which a device makes where it joins them, and rows that carry the lists themselves.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::answer::{check, stock};
use crate::support::session::{device, session};
use crate::support::tables::register;
use crate::support::tuning::Tuning;

/// `id`, a key `k`, and titles that resemble each other, of one-byte characters or of more.
fn titles(ctx: &SessionContext, name: &str, rows: usize, data_type: &DataType, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let words = ["joins", "fast", "über", "→", "device", "rows", "日本", "a"];
    let texts = (0..rows).map(|_| {
        let count = rng.random_range(0..5);
        let words = (0..count).map(|_| words[rng.random_range(0..words.len())]);
        let text = words.collect::<Vec<_>>().join(" ");
        (!rng.random_bool(0.1)).then_some(text)
    });
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..rows as i64).map(|i| i % 3),
    ));
    let columns = [
        ("id", ids),
        ("k", keys),
        ("title", cast(&texts, data_type).unwrap()),
    ];
    let batch = columns.map(|(name, column)| (name, column, true));
    register(
        ctx,
        name,
        &RecordBatch::try_from_iter_with_nullable(batch).unwrap(),
    );
}

const SIDES: &str = "(SELECT id, k, shingles(title, 3) AS s FROM r) r JOIN (SELECT id, k, shingles(title, 3, 'char') AS s FROM q) q";

#[tokio::test]
async fn joins_of_windows() {
    for (at, data_type) in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View]
        .into_iter()
        .enumerate()
    {
        let ctx = session();
        titles(&ctx, "r", 120, &data_type, 1);
        titles(&ctx, "q", 90, &data_type, 2);
        for (i, sql) in [
            format!("SELECT r.id, q.id, array_jaccard(r.s, q.s) FROM {SIDES} ON array_jaccard(r.s, q.s) >= 0.4"),
            format!("SELECT r.id, q.id FROM {SIDES} ON r.k = q.k AND array_overlap(r.s, q.s) >= 3"),
            format!("SELECT r.id, count(*) FROM {SIDES} ON array_jaccard(r.s, q.s) >= 0.4 GROUP BY r.id"),
            // The lists come out, too.
            format!("SELECT r.id, r.s, q.id, q.s FROM {SIDES} ON array_dice(r.s, q.s) > 0.6"),
            format!("SELECT r.id, q.id, q.s FROM {} ON array_has_all(r.s, q.s)", SIDES.replace("JOIN", "LEFT JOIN")),
            "SELECT a.id, b.id FROM r a JOIN r b ON a.id < b.id AND array_jaccard(shingles(a.title, 2), shingles(b.title, 2)) >= 0.5".into(),
            "SELECT r.id, shingles(r.title, 4), q.id FROM r JOIN q ON r.k = q.k AND r.id < q.id".into(),
            "SELECT s, count(*) FROM (SELECT shingles(title, 5) AS s FROM r) GROUP BY s".into(),
        ]
        .into_iter()
        .enumerate()
        {
            let stock = stock(&ctx, &sql).await.unwrap();
            assert!(!stock.rows().is_empty(), "{sql}");
            for tuning in 0..4 {
                check(&ctx, &sql, &Tuning::nth(5 * at + i + tuning), &stock, &["Bowtie"]).await;
            }
        }
    }
}

/// A device makes the lists of tables that stay on it, and a GPU those of all texts.
#[tokio::test]
async fn a_device_makes_them() {
    let ctx = session();
    titles(&ctx, "r", 120, &DataType::Utf8, 1);
    titles(&ctx, "q", 90, &DataType::Utf8View, 2);
    let lowered = SIDES.replace("title", "lower(title)");
    for cache in ["off", "1GB"] {
        let tuning = Tuning {
            cache: Some(cache),
            ..Tuning::PLAIN
        };
        if cache == "off" && device() == "host" {
            continue;
        }
        for (sql, made) in [
            (
                format!("SELECT r.id, q.id, q.s FROM {SIDES} ON array_jaccard(r.s, q.s) >= 0.4"),
                "output=[id, shingles(title, ",
            ),
            (
                format!("SELECT r.id, q.id FROM {lowered} ON array_jaccard(r.s, q.s) >= 0.4"),
                "by_distinct_values=[lower(title",
            ),
            (
                "SELECT a.id, b.id FROM r a JOIN r b ON array_jaccard(shingles(a.title, 2), shingles(b.title, 2)) >= 0.5".into(),
                "shingles(title, 2)",
            ),
        ] {
            let stock = stock(&ctx, &sql).await.unwrap();
            let plan = check(&ctx, &sql, &tuning, &stock, &["BowtieProjectionExec"]).await;
            assert!(plan.contains(made), "{sql}\n{plan}");
        }
    }
}
