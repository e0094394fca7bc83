//! `EXPLAIN ANALYZE`: the metrics, and those values that do not depend on time or memory.

use std::collections::BTreeMap;

use datafusion::arrow::array::AsArray;
use datafusion::prelude::SessionContext;

use crate::support;
use crate::support::answer::answer_and_counts;
use crate::support::session::{device, set};
use crate::support::snapshot::{run, session, stock_session};
use crate::support::tables::{mixed_table, register};

type Metrics = BTreeMap<String, String>;

/// The metrics of the one node with this name.
async fn metrics(context: &SessionContext, sql: &str, node: &str) -> Metrics {
    let batches = run(context, &format!("EXPLAIN ANALYZE {sql}"))
        .await
        .unwrap();
    let text = batches[0].column(1).as_string::<i32>().value(0).to_string();
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with(node))
        .unwrap_or_else(|| panic!("no {node} in\n{text}"));
    let (_, metrics) = line.split_once("metrics=[").unwrap();
    metrics
        .trim_end_matches(']')
        .split(", ")
        .filter_map(|metric| metric.split_once('='))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

fn expect_names(metrics: &Metrics, names: &[&str]) {
    for name in names {
        assert!(metrics.contains_key(*name), "no {name} in {metrics:?}");
    }
}

/// 1..=6 against 1..=5: 15 pairs.
const JOIN: &str = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a";

const DEVICE_METRICS: [&str; 8] = [
    "output_rows",
    "elapsed_compute",
    "chunks",
    "candidate_pairs",
    "uploaded_bytes",
    "prepare_time",
    "output_time",
    "peak_device_bytes",
];

#[tokio::test]
async fn of_a_join() {
    let context = session("force").await;
    let join = metrics(&context, JOIN, "BowtieJoinExec").await;
    expect_names(&join, &DEVICE_METRICS);
    assert_eq!(join["output_rows"], "15");
    assert_eq!(join["candidate_pairs"], "15");
    assert_eq!(join["chunks"], "1");
    // Eleven keys of eight bytes.
    assert_eq!(join["uploaded_bytes"], "88.0 B");
    assert_ne!(join["peak_device_bytes"], "0.0 B");
}

#[tokio::test]
async fn of_a_join_in_several_chunks() {
    let context = session("force").await;
    run(&context, "SET bowtie.chunk_rows = 2").await.unwrap();
    let join = metrics(&context, JOIN, "BowtieJoinExec").await;
    assert_eq!(join["output_rows"], "15");
    assert_eq!(join["candidate_pairs"], "15");
    // Three chunks of the left side against three of the right.
    assert_eq!(join["chunks"], "9");
}

/// The residual rejects candidates.
#[tokio::test]
async fn of_a_join_with_a_residual() {
    let context = session("force").await;
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a AND right(CAST(r.a + s.a AS VARCHAR), 1) IN ('0', '2', '4', '6', '8')";
    let join = metrics(&context, sql, "BowtieJoinExec").await;
    assert_eq!(join["candidate_pairs"], "15");
    assert_eq!(join["output_rows"], "6");
}

/// A compiled filter rejects candidates before they are counted.
#[tokio::test]
async fn of_a_join_with_a_program() {
    let context = session("force").await;
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a AND (r.a + s.a) % 2 = 0";
    let join = metrics(&context, sql, "BowtieJoinExec").await;
    assert_eq!(join["candidate_pairs"], "6");
    assert_eq!(join["output_rows"], "6");
}

#[tokio::test]
async fn of_a_download() {
    let context = session("force").await;
    let download = metrics(&context, JOIN, "BowtieDownloadExec").await;
    expect_names(&download, &["output_rows", "downloaded_bytes"]);
    assert_eq!(download["output_rows"], "15");
    // Two columns of eight bytes.
    assert_eq!(download["downloaded_bytes"], "240.0 B");
}

#[tokio::test]
async fn of_an_upload() {
    let context = session("force").await;
    let upload = metrics(&context, JOIN, "BowtieUploadExec").await;
    expect_names(&upload, &["output_rows", "elapsed_compute"]);
    assert_eq!(upload["output_rows"], "6");
}

#[tokio::test]
async fn of_a_fused_aggregation() {
    let context = session("force").await;
    let sql = "SELECT r.a, sum(s.b) FROM r JOIN s ON r.a > s.a GROUP BY r.a";
    let fused = metrics(&context, sql, "BowtieJoinAggregateExec").await;
    expect_names(&fused, &DEVICE_METRICS);
    // r.a = 1 has no match.
    assert_eq!(fused["output_rows"], "5");
    assert_eq!(fused["chunks"], "1");
}

/// Without groups the argument's side is the probe side, so each value is weighted by its match count under every strategy.
#[tokio::test]
async fn of_an_aggregation_without_pairs() {
    for (strategies, condition) in [
        (&["range", "tiles"][..], "r.a > s.a"),
        (&["dominance", "tiles"], "r.a > s.a AND r.f <= s.b"),
    ] {
        let stock = stock_session().await;
        for argument in ["s.b", "r.b"] {
            let sql = format!("SELECT sum({argument}) FROM r JOIN s ON {condition}");
            let expected = run(&stock, &sql).await.unwrap();
            for strategy in strategies {
                let context = session("force").await;
                run(
                    &context,
                    &format!("SET bowtie.theta_strategy = '{strategy}'"),
                )
                .await
                .unwrap();
                assert_eq!(
                    run(&context, &sql).await.unwrap(),
                    expected,
                    "{strategy}: {sql}"
                );
                let fused = metrics(&context, &sql, "BowtieJoinAggregateExec").await;
                assert_eq!(fused["candidate_pairs"], "0", "{strategy}: {sql}");
                assert_eq!(fused["output_rows"], "1");
            }
        }
    }
}

#[tokio::test]
async fn of_a_join_that_a_limit_stops() {
    let context = session("force").await;
    let sql = format!("{JOIN} LIMIT 4");
    let download = metrics(&context, &sql, "BowtieDownloadExec").await;
    assert_eq!(download["output_rows"], "4");
}

/// Times and output are counted, and what a GPU does.
#[tokio::test]
async fn of_work() {
    let ctx = support::session::session();
    register(&ctx, "r", &mixed_table(900, 0.1, 1));
    register(&ctx, "s", &mixed_table(800, 0.1, 2));
    set(&ctx, "bowtie.offload", "force");
    let sql = "SELECT r.t, s.c FROM r JOIN s ON r.a < s.a AND r.b > s.b";
    let (answer, counts) = answer_and_counts(&ctx, sql).await.unwrap();
    assert!(answer.plan.contains("BowtieJoinExec"), "{}", answer.plan);
    let mut names = vec![
        "upload_time",
        "prepare_time",
        "output_time",
        "elapsed_compute",
        "output_bytes",
        "output_batches",
        "peak_device_bytes",
        "uploaded_bytes",
        "downloaded_bytes",
    ];
    if device() != "host" {
        names.extend(["launches", "sent_bytes", "received_bytes", "wait_time"]);
    }
    for name in names {
        assert!(counts.get(name) > 0, "{name}: {counts:?}");
    }
}

/// Chunks between two joins go to the host where the device has no room for them.
#[tokio::test]
async fn of_chunks_that_leave_the_device() {
    let context = session("force").await;
    for sql in [
        "SET bowtie.device_memory = '1MB'",
        "SET datafusion.execution.target_partitions = 1",
        "CREATE TABLE long AS SELECT value AS v, 'a longer text with the number ' || value AS t FROM range(0, 30000)",
    ] {
        run(&context, sql).await.unwrap();
    }
    let sql = "SELECT x.v, y.t FROM (SELECT a.v, a.t FROM long a JOIN long b ON a.v = b.v) x JOIN long y ON x.v = y.v";
    let (answer, counts) = answer_and_counts(&context, sql).await.unwrap();
    let rows = answer.batches.iter().map(|batch| batch.num_rows());
    assert_eq!(rows.sum::<usize>(), 30_000);
    assert!(counts.get("evicted_bytes") > 0, "{counts:?}");
}
