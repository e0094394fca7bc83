//! `bowtie_explain`: decisions, and the reason for each declined node.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use insta::assert_snapshot;

use crate::support::snapshot::{answer, physical, refusal, run, session};

/// Node, decision and reason of every node that the rule considered.
pub(crate) async fn decisions(context: &SessionContext, query: &str) -> String {
    let query = query.replace('\'', "''");
    let sql =
        format!("SELECT node || ' ' || decision || ': ' || reason FROM bowtie_explain('{query}')");
    answer(context, &sql).await
}

#[tokio::test]
async fn every_column() {
    let context = session("force").await;
    let sql =
        "SELECT * FROM bowtie_explain('SELECT r.a, s.a FROM r JOIN s ON r.a > s.a AND r.b < s.b')";
    assert_snapshot!(answer(&context, sql).await, @"NestedLoopJoinExec offloaded dominance left.a < right.a AND left.b > right.b 5 6 NULL NULL NULL NULL NULL NULL the right side is sorted by its most selective column, and zone maps test the other comparisons");
    let batches = run(&context, sql).await.unwrap();
    let schema = batches[0].schema();
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(
        names,
        [
            "node",
            "decision",
            "strategy",
            "detail",
            "left_rows",
            "right_rows",
            "output_rows",
            "resident_bytes",
            "bytes_up",
            "bytes_down",
            "device_ms",
            "host_ms",
            "reason"
        ]
    );
}

#[tokio::test]
async fn a_fused_aggregation_has_two_rows() {
    let context = session("force").await;
    let sql = "SELECT * FROM bowtie_explain('SELECT r.a, sum(s.a) FROM r JOIN s ON r.a > s.a GROUP BY r.a')";
    assert_snapshot!(answer(&context, sql).await, @r"
    AggregateExec offloaded range sum(s.a) 6 5 NULL NULL NULL NULL NULL NULL fused with the join below it: no join rows are materialised
    NestedLoopJoinExec offloaded range left.a > right.a 6 5 NULL NULL NULL NULL NULL NULL the right side is sorted by one column, in which all inequalities are ranges
    ");
}

#[tokio::test]
async fn nothing_to_look_at() {
    let context = session("force").await;
    assert_eq!(decisions(&context, "SELECT a FROM r WHERE a > 1").await, "");
}

#[tokio::test]
async fn off_declines_everything() {
    let context = session("off").await;
    let query = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a";
    assert_eq!(
        decisions(&context, query).await,
        "NestedLoopJoinExec declined: bowtie.offload is 'off'"
    );
}

#[tokio::test]
async fn explaining_runs_nothing() {
    let context = session("force").await;
    let query = "SELECT 1 / (r.a - r.a), s.a FROM r JOIN s ON r.a > s.a";
    assert!(decisions(&context, query).await.contains("offloaded"));
    assert!(run(&context, query).await.is_err());
}

#[tokio::test]
async fn wrong_arguments() {
    let context = session("force").await;
    for sql in [
        "SELECT * FROM bowtie_explain()",
        "SELECT * FROM bowtie_explain(1)",
        "SELECT * FROM bowtie_explain('SELECT 1', 'SELECT 2')",
    ] {
        let message = refusal(&context, sql).await;
        assert!(
            message.contains("bowtie_explain takes one argument"),
            "{sql}: {message}"
        );
    }
    let message = refusal(
        &context,
        "SELECT * FROM bowtie_explain('SELECT nothing FROM r')",
    )
    .await;
    assert!(message.contains("No field named nothing"), "{message}");
}

#[tokio::test]
async fn a_null_aware_anti_join() {
    let context = session("auto").await;
    let query = "SELECT r.a FROM r WHERE r.b NOT IN (SELECT b FROM s)";
    assert_snapshot!(decisions(&context, query).await, @"HashJoinExec declined: an equi-join gains nothing on the CPU backend: it stays DataFusion's; bowtie.offload = 'force' offloads it");
}

#[tokio::test]
async fn a_key_without_an_order() {
    let context = session("force").await;
    let query = "SELECT r.a FROM r JOIN s ON arrow_cast(r.f, 'Dictionary(Int32, Float64)') = arrow_cast(s.f, 'Dictionary(Int32, Float64)')";
    assert_snapshot!(decisions(&context, query).await, @"HashJoinExec declined: its key CAST(s.f AS Dictionary(Int32, Float64)) = CAST(r.f AS Dictionary(Int32, Float64)) has the types Dictionary(Int32, Float64) and Dictionary(Int32, Float64), which bowtie does not support as keys: cast both sides to a supported type");
}

/// Expressions between two device nodes that do not compile.
#[tokio::test]
async fn borders() {
    let context = session("force").await;
    let join = "SELECT r.t, r.k, r.f FROM r JOIN s ON r.k = s.k";
    let filtered = "SELECT s.a FROM (SELECT k, max(t) AS t FROM r GROUP BY k) x JOIN s ON x.k = s.k WHERE x.t ILIKE concat('n', x.k)";
    let projected =
        format!("SELECT k, count(*) FROM (SELECT power(f, k) AS k FROM ({join})) GROUP BY k");
    assert_snapshot!(decisions(&context, filtered).await, @r"
    AggregateExec offloaded: aggregated on the device
    FilterExec declined: it interrupts two device nodes: max(r.t) ILIKE concat(n, CAST(k AS Utf8)) is not supported on the device, so rows are transferred to the host and back
    HashJoinExec offloaded: an equi-join by the algorithm that the device chooses
    ");
    assert_snapshot!(decisions(&context, &projected).await, @r"
    AggregateExec offloaded: aggregated on the device, not fused with the join below: power(f, CAST(k AS Float64)) might fail on a row that the join drops
    HashJoinExec offloaded: an equi-join by the algorithm that the device chooses
    ProjectionExec declined: it interrupts two device nodes: power(f, CAST(k AS Float64)) is not supported on the device, so rows are transferred to the host and back
    ");
}

#[tokio::test]
async fn an_unbounded_input() {
    let context = session("force").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("endless.csv");
    std::fs::write(&file, "1,2\n").unwrap();
    let create = format!(
        "CREATE UNBOUNDED EXTERNAL TABLE endless (c BIGINT, d BIGINT) STORED AS CSV LOCATION '{}'",
        file.display()
    );
    run(&context, &create).await.unwrap();
    let query = "SELECT r.a, c FROM r JOIN endless ON r.a > c";
    assert_snapshot!(decisions(&context, query).await, @"NestedLoopJoinExec declined: its right input is unbounded: bowtie joins finite inputs only");
}

/// The rule runs again on an optimised plan.
#[tokio::test]
async fn a_hash_join_that_feeds_a_dynamic_filter_is_declined() {
    let context = session("off").await;
    let folder = tempfile::tempdir().unwrap();
    for table in ["r", "s"] {
        let file = folder.path().join(format!("{table}.parquet"));
        let file = file.display();
        run(
            &context,
            &format!("COPY {table} TO '{file}' STORED AS PARQUET"),
        )
        .await
        .unwrap();
        run(
            &context,
            &format!("CREATE EXTERNAL TABLE p{table} STORED AS PARQUET LOCATION '{file}'"),
        )
        .await
        .unwrap();
    }
    let query = "SELECT pr.a, ps.a FROM pr JOIN ps ON pr.k = ps.k";
    let plan = physical(&context, query).await.unwrap();
    run(&context, "SET bowtie.offload = 'force'").await.unwrap();
    let state = context.state();
    let rule = state
        .physical_optimizers()
        .iter()
        .find(|rule| rule.name() == "bowtie")
        .unwrap();
    let again = rule
        .optimize(Arc::clone(&plan), state.config_options())
        .unwrap();
    let text = |plan: Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
    let (before, after) = (text(plan), text(again));
    assert!(before.contains("DynamicFilter"), "{before}");
    assert_eq!(before, after);
}
