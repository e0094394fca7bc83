//! `datafusion_bowtie::profile`: a query runs, and its page says what it did.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;

use crate::support::answer::plan_of;
use crate::support::session::{device, session, set};
use crate::support::tables::{mixed_table, register};

/// The value of a member of the profile's JSON, by its place.
fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// A session that offloads all it can, with two tables.
fn forced() -> SessionContext {
    let ctx = session();
    register(&ctx, "r", &mixed_table(900, 0.1, 1));
    register(&ctx, "s", &mixed_table(700, 0.1, 2));
    set(&ctx, "bowtie.offload", "force");
    ctx
}

#[tokio::test]
async fn a_profile_has_the_rows_times_and_spans_of_a_query() {
    let ctx = forced();
    let sql = "SELECT r.g, count(*), sum(s.a) FROM r JOIN s ON r.a < s.a GROUP BY r.g ORDER BY r.g";
    let expected = ctx.sql(sql).await.unwrap().count().await.unwrap();
    let query = ctx.sql(sql).await.unwrap();
    let profile = datafusion_bowtie::profile(query)
        .await
        .unwrap()
        .with_sql(sql);
    assert_eq!(profile.rows(), expected as u64);
    // The session is as it was, its tables among it.
    assert_eq!(ctx.sql(sql).await.unwrap().count().await.unwrap(), expected);
    assert!(profile.execution_time() > Duration::ZERO);
    let page = profile.to_html();
    assert!(page.contains(r#"type="application/json""#) && !page.contains("PROFILE_JSON"));
    assert!(!page.contains("/* part: "), "a part is not in the page");
    let json = json(&profile.to_json());
    assert_eq!(json["rows"], expected);
    assert_eq!(json["sql"], sql);
    // `cuda` is `cuda:0`.
    let on = json["device"]["name"].as_str().unwrap();
    assert!(on.starts_with(&device()), "{on}");
    let nodes = json["nodes"].as_array().unwrap();
    // Each node below another one, and all in the order of the plan.
    for (id, node) in nodes.iter().enumerate() {
        assert_eq!(node["id"], id);
        match node["parent"].as_u64() {
            None => assert_eq!(id, 0),
            Some(parent) => {
                let above = &nodes[usize::try_from(parent).unwrap()];
                assert_eq!(
                    above["depth"].as_u64().unwrap() + 1,
                    node["depth"].as_u64().unwrap()
                );
            }
        }
    }
    let join = nodes
        .iter()
        .find(|node| node["name"] == "BowtieJoinAggregateExec");
    let join = join.unwrap();
    assert_eq!(join["runs_on"], on);
    assert_eq!(join["replaces"], "AggregateExec + NestedLoopJoinExec");
    assert!(join["rows"].as_u64().unwrap() >= expected as u64);
    // Its steps are on the timeline.
    let spans = json["timeline"]["spans"].as_array().unwrap();
    let of_join = spans.iter().filter(|span| span["node"] == join["id"]);
    assert!(of_join.count() > 0, "{spans:?}");
    let end = json["execution_ms"].as_f64().unwrap();
    assert!(
        spans
            .iter()
            .all(|span| span["start_ms"].as_f64().unwrap() <= end + 1.0)
    );
    let samples = json["memory"]["samples"].as_array().unwrap();
    assert!(
        samples
            .iter()
            .all(|sample| sample[0].as_f64().unwrap() <= end + 10.0)
    );
    if device() != "host" {
        let launched = |lane: &str| spans.iter().any(|span| span["lane"] == lane);
        assert!(launched("kernels") && launched("to_device"), "{spans:?}");
        let download = nodes
            .iter()
            .find(|node| node["name"] == "BowtieDownloadExec");
        let download = &download.unwrap()["id"];
        let landed =
            |span: &serde_json::Value| span["lane"] == "to_host" && span["node"] == *download;
        assert!(
            spans.iter().any(landed) || join["received_bytes"].as_u64() > Some(0),
            "{spans:?}"
        );
        assert!(join["device_ms"].as_f64().unwrap() > 0.0);
    }
}

/// A join whose rows stay on the device tells their bytes there.
#[tokio::test]
async fn rows_on_the_device_have_bytes() {
    let ctx = forced();
    let sql = "SELECT r.g, s.g, count(*) FROM r JOIN s ON r.a = s.a GROUP BY r.g, s.g";
    let query = ctx.sql(sql).await.unwrap();
    let profile = datafusion_bowtie::profile(query).await.unwrap();
    let json = json(&profile.to_json());
    let nodes = json["nodes"].as_array().unwrap();
    let join = nodes.iter().find(|node| node["name"] == "BowtieJoinExec");
    let join = join.unwrap_or_else(|| panic!("{profile}"));
    let (rows, bytes) = (join["rows"].as_u64(), join["bytes"].as_u64());
    // Two columns of at least a byte.
    assert!(rows > Some(0) && bytes > rows, "{join}");
}

/// Text of the query cannot leave the page's script.
#[tokio::test]
async fn a_query_cannot_break_its_page() {
    let ctx = session();
    let sql = "SELECT '</script><script>alert(1)</script>' AS \"<b>\"";
    let query = ctx.sql(sql).await.unwrap();
    let profile = datafusion_bowtie::profile(query)
        .await
        .unwrap()
        .with_sql(sql);
    let page = profile.to_html();
    assert!(!page.contains("</script><script>alert(1)"));
    assert!(page.contains("\\u003c/script>"));
    let summary = json(&profile.to_json())["summary"]["text"].clone();
    assert!(
        summary.as_str().unwrap().starts_with("none of "),
        "{summary}"
    );
}

/// A query that fails has no profile.
#[tokio::test]
async fn a_failing_query_has_no_profile() {
    let ctx = session();
    let query = ctx
        .sql("SELECT 1 / (value - 1) FROM generate_series(1, 3)")
        .await
        .unwrap();
    let error = datafusion_bowtie::profile(query)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("Divide by zero"), "{error}");
}

/// The counters of the process grow with what is done.
#[tokio::test]
async fn the_process_counts() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(90, 0.1, 1));
    set(&ctx, "bowtie.offload", "force");
    let counted = async |name: &str| -> u64 {
        let sql = format!("SELECT value FROM bowtie_stats() WHERE counter = '{name}'");
        let rows = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        use arrow::array::AsArray;
        rows[0]
            .column(0)
            .as_primitive::<arrow::datatypes::UInt64Type>()
            .value(0)
    };
    let before = [
        counted("offloaded_queries").await,
        counted("offloaded_nodes").await,
    ];
    let sql = "SELECT g, count(*) FROM r GROUP BY g";
    ctx.sql(sql).await.unwrap().collect().await.unwrap();
    assert!(counted("offloaded_queries").await > before[0]);
    assert!(counted("offloaded_nodes").await > before[1]);
    if device() != "host" {
        assert!(counted("launches").await > 0 && counted("sent_bytes").await > 0);
    }
}

/// The metrics of all nodes of a plan, and of those below.
fn metrics_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let own = plan.metrics().into_iter().flat_map(|metrics| {
        let names = metrics
            .iter()
            .map(|metric| metric.value().name().to_string());
        names.collect::<Vec<_>>()
    });
    let below = plan.children().into_iter().flat_map(metrics_of);
    own.chain(below).collect()
}

#[tokio::test]
async fn explain_analyze_has_the_times_of_the_card_and_other_queries_do_without() {
    let ctx = forced();
    let sql = "SELECT r.g, s.a, r.b FROM r JOIN s ON r.a < s.a AND r.b > 0";
    let analyzed = ctx.sql(&format!("EXPLAIN ANALYZE {sql}")).await.unwrap();
    let batches = analyzed.collect().await.unwrap();
    let text = batches[0].column(1).as_string::<i32>().value(0).to_string();
    let has = |node: &str, metric: &str| {
        let mut lines = text.lines();
        lines.any(|line| line.contains(node) && line.contains(&format!("{metric}=")))
    };
    let times = ["kernel_time", "h2d_time", "d2h_time"];
    if device() == "host" {
        assert!(times.iter().all(|time| !text.contains(time)), "{text}");
    } else {
        assert!(has("BowtieJoinExec", "kernel_time"), "{text}");
        assert!(
            has("BowtieJoinExec", "h2d_time") || has("BowtieUploadExec", "h2d_time"),
            "{text}"
        );
        assert!(has("BowtieDownloadExec", "d2h_time"), "{text}");
    }
    let plan = plan_of(&ctx, sql).await.unwrap();
    let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
    assert!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>() > 0);
    let metrics = metrics_of(&plan);
    assert!(metrics.iter().any(|name| name == "prepare_time"));
    assert!(
        times
            .iter()
            .all(|time| metrics.iter().all(|name| name != time)),
        "{metrics:?}"
    );
}
