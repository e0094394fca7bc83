//! `bowtie_explain`: decisions, and the reason for each declined node.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use datafusion_bowtie::Verdict;
use insta::assert_snapshot;

use crate::support::snapshot::{answer, physical, refusal, run, session};

/// Node, decision and reason of every node that the rule considered: of replaced nodes those that they stand for.
pub(crate) async fn decisions(context: &SessionContext, query: &str) -> String {
    let query = query.replace('\'', "''");
    let sql = format!(
        "SELECT coalesce(replaces, node) || ' ' || decision || ': ' || reason FROM bowtie_explain('{query}')
         WHERE decision = 'declined' OR replaces IS NOT NULL"
    );
    answer(context, &sql).await
}

#[tokio::test]
async fn every_column() {
    let context = session("force").await;
    let sql =
        "SELECT * FROM bowtie_explain('SELECT r.a, s.a FROM r JOIN s ON r.a > s.a AND r.b < s.b')";
    assert_snapshot!(answer(&context, sql).await, @r"
    0 0 BowtieDownloadExec host transfer NULL NULL  NULL NULL NULL NULL NULL NULL NULL NULL gives rows back to DataFusion: columns are shared, not copied
    1 1 BowtieJoinExec host offloaded NestedLoopJoinExec dominance left.a < right.a AND left.b > right.b 5 6 NULL NULL NULL NULL NULL NULL the right side is sorted by its most selective column, and zone maps test the other comparisons
    2 2 BowtieUploadExec host transfer NULL NULL  NULL NULL 5 NULL NULL NULL NULL NULL gives rows to the CPU backend: columns are shared, not copied
    3 3 DataSourceExec datafusion datafusion NULL NULL partitions=2, partition_sizes=[1, 0] NULL NULL 5 NULL NULL NULL NULL NULL DataFusion reads it for the CPU backend
    4 2 BowtieUploadExec host transfer NULL NULL  NULL NULL 6 NULL NULL NULL NULL NULL gives rows to the CPU backend: columns are shared, not copied
    5 3 DataSourceExec datafusion datafusion NULL NULL partitions=2, partition_sizes=[1, 0] NULL NULL 6 NULL NULL NULL NULL NULL DataFusion reads it for the CPU backend
    NULL NULL plan host summary NULL NULL  NULL NULL NULL NULL NULL NULL NULL NULL 1 of 3 operators run on host; 2 uploads; 1 download
    ");
    let batches = run(&context, sql).await.unwrap();
    let schema = batches[0].schema();
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(
        names,
        [
            "id",
            "depth",
            "node",
            "runs_on",
            "decision",
            "replaces",
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

/// One node stands for both, with both reasons.
#[tokio::test]
async fn a_fused_aggregation_has_one_row() {
    let context = session("force").await;
    let sql = "SELECT node, replaces, detail, reason FROM bowtie_explain('SELECT r.a, sum(s.a) FROM r JOIN s ON r.a > s.a GROUP BY r.a') WHERE decision = 'offloaded'";
    assert_snapshot!(answer(&context, sql).await, @"BowtieJoinAggregateExec AggregateExec + NestedLoopJoinExec sum(s.a) fused with the join below it: no join rows are materialised; the right side is sorted by one column, in which all inequalities are ranges");
}

/// Every node of the plan, in its order, whatever it is.
#[tokio::test]
async fn every_node_has_a_row() {
    let context = session("force").await;
    let query = "SELECT a, row_number() OVER (ORDER BY a) AS n FROM (SELECT r.a FROM r JOIN s ON r.a > s.a UNION ALL SELECT a FROM s WHERE a > 1) LIMIT 3";
    let plan = context.sql(query).await.unwrap();
    let plan = plan.create_physical_plan().await.unwrap();
    let mut expected = vec![];
    let mut rest = vec![(&plan, 0)];
    while let Some((node, depth)) = rest.pop() {
        expected.push((depth, node.name().to_string()));
        let inputs = node.children().into_iter().rev();
        rest.extend(inputs.map(|input| (input, depth + 1)));
    }
    let query_of = context.sql(query).await.unwrap();
    let report = datafusion_bowtie::explain(&query_of).await.unwrap();
    let shown = report.nodes.iter().enumerate().map(|(i, node)| {
        assert_eq!(node.id, i);
        assert!(!node.reason.is_empty(), "{}", node.node);
        (node.depth, node.node.clone())
    });
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    let windows = report
        .nodes
        .iter()
        .find(|node| node.node.contains("Window"))
        .unwrap();
    assert_eq!(windows.verdict, Verdict::DataFusion);
    assert!(
        windows
            .reason
            .starts_with("window functions run in DataFusion"),
        "{}",
        windows.reason
    );
    let text = report.to_string();
    assert_eq!(text.lines().count(), 1 + report.nodes.len(), "{text}");
    assert!(
        text.contains(" operators run on host; 2 uploads; 1 download"),
        "{text}"
    );
}

/// With `bowtie.device = 'cuda'` the plan is shown for a GPU, whether or not there is one. It does not run there.
#[tokio::test]
async fn a_plan_for_a_gpu() {
    let context = session("auto").await;
    for table in ["many", "more"] {
        let sql = format!(
            "CREATE TABLE {table} AS SELECT value AS a, value % 7 AS k FROM generate_series(1, 300000)"
        );
        run(&context, &sql).await.unwrap();
    }
    run(&context, "SET bowtie.device = 'cuda:9'").await.unwrap();
    let query = "SELECT many.k, count(*) FROM many JOIN more ON many.a = more.a GROUP BY many.k";
    let query_of = context.sql(query).await.unwrap();
    let report = datafusion_bowtie::explain(&query_of).await.unwrap();
    assert_eq!(report.summary.device.as_deref(), Some("cuda:9"), "{report}");
    let why = report.summary.imagined.as_deref();
    assert_eq!(
        why,
        Some(
            "this machine has no cuda:9; it is planned for the memory of an H100 and the rates of an H200 and its host"
        )
    );
    let (here, there) = (
        report.summary.estimated_ms.unwrap(),
        report.summary.datafusion_ms.unwrap(),
    );
    assert!(here > 0.0 && here < there, "{report}");
    assert!(report.summary.upload_bytes.unwrap() > 0, "{report}");
    run(&context, "SET bowtie.offload = 'force'").await.unwrap();
    let query_of = context.sql(query).await.unwrap();
    let forced = datafusion_bowtie::explain(&query_of).await.unwrap();
    assert_eq!(forced.summary.estimated_ms, Some(here), "{forced}");
    assert_eq!(forced.summary.datafusion_ms, Some(there), "{forced}");
    // Transfers have the bytes; the summary does not count those of operators again.
    run(&context, "SET bowtie.cache = 'off'").await.unwrap();
    let query_of = context.sql(query).await.unwrap();
    let uploaded = datafusion_bowtie::explain(&query_of).await.unwrap();
    let of_transfers = |column: fn(Option<u64>, Option<u64>) -> Option<u64>| {
        let nodes = uploaded.nodes.iter();
        let transfers = nodes.filter(|node| node.verdict == Verdict::Transfer);
        let bytes = transfers.map(|node| {
            assert_ne!(node.bytes_up.is_some(), node.bytes_down.is_some());
            column(node.bytes_up, node.bytes_down).unwrap_or_default()
        });
        bytes.sum::<u64>()
    };
    assert_eq!(
        uploaded.summary.upload_bytes,
        Some(of_transfers(|up, _| up)),
        "{uploaded}"
    );
    assert_eq!(
        uploaded.summary.download_bytes,
        Some(of_transfers(|_, down| down)),
        "{uploaded}"
    );
    run(&context, "SET bowtie.cache = 'auto'").await.unwrap();
    let refused = refusal(&context, query).await;
    assert!(
        refused.contains("bowtie.device = 'cuda:9' is not available"),
        "{refused}"
    );
    let profiled = datafusion_bowtie::profile(context.sql(query).await.unwrap()).await;
    let refused = profiled.unwrap_err().to_string();
    assert!(
        refused.contains("bowtie.device = 'cuda:9' is not available"),
        "{refused}"
    );
}

/// A session without bowtie says so.
#[tokio::test]
async fn a_session_without_bowtie() {
    let context = SessionContext::new();
    let query = context.sql("SELECT 1").await.unwrap();
    let refused = datafusion_bowtie::explain(&query).await.unwrap_err();
    assert!(refused.to_string().contains("lacks bowtie"), "{refused}");
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
    FilterExec declined: it runs in DataFusion between two operators of the device, so rows are sent to the host and back: max(r.t) ILIKE concat(n, CAST(k AS Utf8)) is not supported on the device
    HashJoinExec offloaded: an equi-join by the algorithm that the device chooses
    ");
    assert_snapshot!(decisions(&context, &projected).await, @r"
    AggregateExec offloaded: aggregated on the device, not fused with the join below: power(f, CAST(k AS Float64)) might fail on a row that the join drops
    HashJoinExec offloaded: an equi-join by the algorithm that the device chooses
    ProjectionExec declined: it runs in DataFusion between two operators of the device, so rows are sent to the host and back: power(f, CAST(k AS Float64)) is not supported on the device
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
