//! `EXPLAIN FORMAT TREE`.

use datafusion::arrow::array::AsArray;
use insta::assert_snapshot;

use crate::support::snapshot::{run, session};

/// The boxes of bowtie's nodes, cut out of the tree, with everything offloaded that can be.
async fn forced_tree(sql: &str) -> String {
    let context = session("force").await;
    let batches = run(&context, &format!("EXPLAIN FORMAT TREE {sql}"))
        .await
        .unwrap();
    let tree = batches[0].column(1).as_string::<i32>().value(0).to_string();
    // DataFusion's scans below show sizes, which are not tested here.
    let lines: Vec<&str> = tree.lines().collect();
    let scans = lines
        .iter()
        .position(|line| line.contains("DataSourceExec"));
    lines[..scans.unwrap() - 1].join("\n")
}

#[tokio::test]
async fn a_join() {
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.k = s.k AND r.a > s.a AND r.b * s.b > 3";
    assert_snapshot!(forced_tree(sql).await, @r"
    ┌───────────────────────────┐
    │     BowtieDownloadExec    │
    │    --------------------   │
    │        device: host       │
    └─────────────┬─────────────┘
    ┌─────────────┴─────────────┐
    │       BowtieJoinExec      │
    │    --------------------   │
    │        build: left        │
    │                           │
    │      compiled_filter:     │
    │    right.b * left.b > 3   │
    │                           │
    │        device: host       ├──────────────┐
    │      join_type: Inner     │              │
    │    on: left.k = right.k   │              │
    │      strategy: range      │              │
    │                           │              │
    │           theta:          │              │
    │      left.a < right.a     │              │
    └─────────────┬─────────────┘              │
    ┌─────────────┴─────────────┐┌─────────────┴─────────────┐
    │      BowtieUploadExec     ││      BowtieUploadExec     │
    │    --------------------   ││    --------------------   │
    │        device: host       ││        device: host       │
    └─────────────┬─────────────┘└─────────────┬─────────────┘
    ");
}

#[tokio::test]
async fn a_join_with_a_limit_and_an_evaluated_expression() {
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a + 1 LIMIT 3";
    assert_snapshot!(forced_tree(sql).await, @r"
    ┌───────────────────────────┐
    │     BowtieDownloadExec    │
    │    --------------------   │
    │        device: host       │
    │          fetch: 3         │
    └─────────────┬─────────────┘
    ┌─────────────┴─────────────┐
    │       BowtieJoinExec      │
    │    --------------------   │
    │        build: left        │
    │        device: host       │
    │      join_type: Inner     ├──────────────┐
    │      strategy: range      │              │
    │                           │              │
    │           theta:          │              │
    │    left.a > right.a + 1   │              │
    └─────────────┬─────────────┘              │
    ┌─────────────┴─────────────┐┌─────────────┴─────────────┐
    │      BowtieUploadExec     ││      BowtieUploadExec     │
    │    --------------------   ││    --------------------   │
    │        device: host       ││        device: host       │
    │                           ││      evaluate: a + 1      │
    └─────────────┬─────────────┘└─────────────┬─────────────┘
    ");
}

#[tokio::test]
async fn a_fused_aggregation() {
    let sql = "SELECT r.a, count(*) AS c FROM r JOIN s ON r.a > s.a GROUP BY r.a";
    assert_snapshot!(forced_tree(sql).await, @r"
    ┌───────────────────────────┐
    │       ProjectionExec      │
    │    --------------------   │
    │            a: a           │
    │     c: count(Int64(1))    │
    └─────────────┬─────────────┘
    ┌─────────────┴─────────────┐
    │     BowtieDownloadExec    │
    │    --------------------   │
    │        device: host       │
    └─────────────┬─────────────┘
    ┌─────────────┴─────────────┐
    │  BowtieJoinAggregateExec  │
    │    --------------------   │
    │   aggr: count(Int64(1))   │
    │        build: right       │
    │        device: host       │
    │        group_by: a        ├──────────────┐
    │      join_type: Inner     │              │
    │      strategy: range      │              │
    │                           │              │
    │           theta:          │              │
    │      left.a > right.a     │              │
    └─────────────┬─────────────┘              │
    ┌─────────────┴─────────────┐┌─────────────┴─────────────┐
    │      BowtieUploadExec     ││      BowtieUploadExec     │
    │    --------------------   ││    --------------------   │
    │        device: host       ││        device: host       │
    └─────────────┬─────────────┘└─────────────┬─────────────┘
    ");
}
