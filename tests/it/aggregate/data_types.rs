//! Keys and arguments of every type.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, Int8Array, Int32RunArray, Int64Array, RecordBatch,
    StringArray,
};
use arrow::datatypes::Int8Type;

use crate::aggregate::check::{check, is_offloaded, tunings};
use crate::support::answer::{forced, stock};
use crate::support::compare::similar_rows;
use crate::support::key_types::{is_dictionary_of_floats, orderable_types};
use crate::support::session::session;
use crate::support::tables::{keyed_table, register, register_batches};

/// A run-end encoded column has its NULLs in its values, not in a bitmap, so the filter of COUNT cannot be a CASE.
#[tokio::test]
async fn filtered_counts_of_runs() {
    let ctx = session();
    let runs: Int32RunArray = [
        Some(1),
        Some(1),
        None,
        Some(4),
        Some(4),
        None,
        None,
        Some(2),
    ]
    .map(|value: Option<i32>| value.map(|v| v.to_string()))
    .iter()
    .map(|value| value.as_deref())
    .collect();
    let ids = Int64Array::from_iter_values(0..runs.len() as i64);
    let batch =
        RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef), ("runs", Arc::new(runs))]);
    register(&ctx, "c", &batch.unwrap());
    for sql in [
        "SELECT count(runs) FILTER (WHERE id > 2), count(runs) FROM c",
        "SELECT id % 2 AS m, count(runs) FILTER (WHERE id > 2) FROM c GROUP BY id % 2",
    ] {
        check(&ctx, sql, tunings(2, 4)).await;
    }
    let sql =
        "SELECT count(x.runs) FILTER (WHERE x.id > 2), count(*) FROM c x JOIN c y ON x.id < y.id";
    let expected = stock(&ctx, sql).await.unwrap();
    for tuning in tunings(1, 4) {
        let given = forced(&ctx, sql, &tuning).await.unwrap();
        assert!(
            given.plan.contains("BowtieJoinAggregateExec"),
            "{}",
            given.plan
        );
        similar_rows(&expected, &given).unwrap();
    }
}

/// Keys, MIN and MAX of every orderable type.
#[tokio::test]
async fn types() {
    let ctx = session();
    let mut extremes = 0;
    for (turn, data_type) in orderable_types().iter().enumerate() {
        register(&ctx, "r", &keyed_table(data_type, 120, 0.2, turn as u64));
        let sql = "SELECT k, count(*), count(l), sum(id), min(id) FROM r GROUP BY k";
        let taken = is_offloaded(&ctx, sql, tunings(turn, 3)).await;
        // A dictionary may hold both zeros, which are one group.
        let zeros = is_dictionary_of_floats(data_type);
        assert_eq!(taken, !zeros, "{data_type}");
        if zeros {
            continue;
        }
        let sql = "SELECT k, l, count(*) FROM r GROUP BY k, l";
        check(&ctx, sql, tunings(turn + 2, 2)).await;
        if !data_type.is_floating() {
            let sql = "SELECT id % 7 AS i, min(k), max(l) FROM r GROUP BY id % 7";
            // DataFusion has no grouped extremes of some types.
            extremes += usize::from(is_offloaded(&ctx, sql, tunings(turn + 4, 2)).await);
        }
    }
    assert!(extremes > 25, "{extremes}");
}

/// Dictionaries of several chunks, whose values together are more than their keys can tell apart.
#[tokio::test]
async fn small_dictionaries_of_several_chunks() {
    let ctx = session();
    let batches: Vec<RecordBatch> = (0..6)
        .map(|piece| {
            let values = (0..100).map(|i| format!("value {}", piece * 80 + i));
            let values: StringArray = values.map(Some).collect();
            let keys: Int8Array = (0..100).map(|i| (i % 9 > 0).then_some(i as i8)).collect();
            let k = DictionaryArray::<Int8Type>::new(keys, Arc::new(values));
            let ids = Int64Array::from_iter_values(piece * 100..piece * 100 + 100);
            RecordBatch::try_from_iter([
                ("k", Arc::new(k) as ArrayRef),
                ("id", Arc::new(ids) as ArrayRef),
            ])
            .unwrap()
        })
        .collect();
    register_batches(&ctx, "d", batches);
    for sql in [
        "SELECT id % 7 AS m, min(k), max(k), count(k) FROM d GROUP BY id % 7",
        "SELECT CAST(k AS VARCHAR) AS t, count(*) FROM d GROUP BY CAST(k AS VARCHAR)",
    ] {
        check(&ctx, sql, tunings(0, 8)).await;
        assert!(stock(&ctx, sql).await.is_ok(), "{sql}");
    }
    // A dictionary of all values may exceed its keys in DataFusion too.
    let sql = "SELECT k, count(*), sum(id) FROM d GROUP BY k";
    is_offloaded(&ctx, sql, tunings(0, 8)).await;
}
