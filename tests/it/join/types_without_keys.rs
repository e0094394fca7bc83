//! Types that are no keys: run-end encoded values, unions and NULL come out of a join, and residual filters read them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Array, Int64Array, NullArray, RecordBatch, RunArray, StringArray, UnionArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, UnionFields};
use datafusion::prelude::SessionContext;

use crate::support::answer::{check, declines, stock};
use crate::support::session::session;
use crate::support::tables::register_batches;
use crate::support::tuning::Tuning;

/// `id`; `e`, run-end encoded text; `u`, a union of numbers and text; `n`, NULL.
fn batch(first: i64, rows: i64) -> RecordBatch {
    let ids = first..first + rows;
    let text = |id: i64| (id % 6 < 4).then(|| format!("run {}", id / 3));
    let texts: Vec<Option<String>> = ids.clone().map(text).collect();
    let runs: RunArray<Int32Type> = texts.iter().map(Option::as_deref).collect();
    let numbers = Int32Array::from_iter_values(ids.clone().map(|id| id as i32 % 4));
    let fields = [
        Field::new("number", DataType::Int32, true),
        Field::new("text", DataType::Utf8, true),
    ];
    let fields = UnionFields::try_new([0, 1], fields).unwrap();
    let which = ids.clone().map(|id| (id % 2) as i8).collect();
    let children: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(StringArray::from_iter(&texts))];
    let union = UnionArray::try_new(fields, which, None, children).unwrap();
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids))),
        ("e", Arc::new(runs)),
        ("u", Arc::new(union)),
        ("n", Arc::new(NullArray::new(rows as usize))),
    ];
    let columns = columns.map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn tables() -> SessionContext {
    let ctx = session();
    register_batches(&ctx, "r", vec![batch(0, 13), batch(13, 20)]);
    register_batches(&ctx, "s", vec![batch(4, 25)]);
    ctx
}

#[tokio::test]
async fn they_come_out() {
    let ctx = tables();
    for (n, join) in ["JOIN", "LEFT JOIN", "FULL JOIN"].into_iter().enumerate() {
        for columns in ["r.e, s.e AS f", "r.u, s.u AS v", "r.n, s.n AS m"] {
            // A union has no place for the NULL of a row without a match.
            if columns.contains("u") && join != "JOIN" {
                continue;
            }
            for condition in ["r.id < s.id AND r.id > 20", "r.id = s.id + 2"] {
                let sql =
                    format!("SELECT r.id, s.id AS j, {columns} FROM r {join} s ON {condition}");
                let stock = stock(&ctx, &sql).await;
                let stock = stock.unwrap_or_else(|e| panic!("{sql}\n{e}"));
                for tuning in [Tuning::PLAIN, Tuning::nth(n + 1), Tuning::nth(n + 6)] {
                    check(&ctx, &sql, &tuning, &stock, &["BowtieJoinExec"]).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn residual_filters_read_them() {
    let ctx = tables();
    for condition in [
        "r.e = s.e",
        "concat(arrow_cast(r.e, 'Utf8'), arrow_cast(s.e, 'Utf8')) LIKE '%1%'",
        "(r.u IS NULL OR s.u IS NULL)",
        "coalesce(r.n, s.n, r.id + s.id) > 20",
    ] {
        let sql = format!("SELECT r.id, s.id AS j FROM r JOIN s ON r.id < s.id AND {condition}");
        let stock = stock(&ctx, &sql).await;
        let stock = stock.unwrap_or_else(|e| panic!("{sql}\n{e}"));
        assert!(!stock.rows().is_empty(), "{sql}");
        let plan = check(&ctx, &sql, &Tuning::PLAIN, &stock, &["BowtieJoinExec"]).await;
        // Whether a value is NULL, the device can tell.
        let tests = ["residual=", "compiled_filter="];
        assert!(
            tests.iter().any(|test| plan.contains(test)),
            "{sql}\n{plan}"
        );
    }
}

#[tokio::test]
async fn they_are_no_keys() {
    let ctx = tables();
    let reason = "which bowtie does not support as";
    for column in ["e", "u", "n"] {
        let sql = format!("SELECT {column}, count(*) FROM r GROUP BY {column}");
        declines(&ctx, &sql, "BowtieAggregateExec", reason).await;
    }
}
