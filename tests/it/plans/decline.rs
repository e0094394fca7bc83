//! `bowtie_explain`: what is taken, and each reason for which a node is left to DataFusion.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use insta::assert_snapshot;

use crate::text::{answer, physical, refusal, run, session};

/// Node, decision and reason of every node that bowtie looked at.
async fn decisions(context: &SessionContext, query: &str) -> String {
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
    assert_snapshot!(answer(&context, sql).await, @"NestedLoopJoinExec offloaded dominance left.a < right.a AND left.b > right.b 5 6 NULL NULL NULL NULL NULL the right side is sorted by its most selective column, and zone maps test the other comparisons");
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
    AggregateExec offloaded range sum(s.a) 6 5 NULL NULL NULL NULL NULL fused with the join below it: no join rows are materialised
    NestedLoopJoinExec offloaded range left.a > right.a 6 5 NULL NULL NULL NULL NULL the right side is sorted by one column, in which all inequalities are ranges
    ");
}

#[tokio::test]
async fn nothing_to_look_at() {
    let context = session("force").await;
    assert_eq!(decisions(&context, "SELECT a FROM r WHERE a > 1").await, "");
}

#[tokio::test]
async fn off_takes_nothing_and_says_so() {
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

/// Expressions between two device nodes that the device cannot evaluate.
#[tokio::test]
async fn borders() {
    let context = session("force").await;
    let join = "SELECT r.t, r.k, r.f FROM r JOIN s ON r.k = s.k";
    let filtered = "SELECT s.a FROM (SELECT k, max(t) AS t FROM r GROUP BY k) x JOIN s ON x.k = s.k WHERE x.t ILIKE 'n1%'";
    let projected =
        format!("SELECT k, count(*) FROM (SELECT sqrt(f) AS k FROM ({join})) GROUP BY k");
    assert_snapshot!(decisions(&context, filtered).await, @r"
    AggregateExec offloaded: aggregated on the device
    FilterExec declined: it interrupts two device nodes: max(r.t) ILIKE n1% is not supported on the device, so rows are transferred to the host and back
    HashJoinExec offloaded: an equi-join by the algorithm that the device chooses
    ");
    assert_snapshot!(decisions(&context, &projected).await, @r"
    AggregateExec offloaded: aggregated on the device, not fused with the join below: sqrt(f) might fail on a row that the join drops
    HashJoinExec offloaded: an equi-join by the algorithm that the device chooses
    ProjectionExec declined: it interrupts two device nodes: sqrt(f) is not supported on the device, so rows are transferred to the host and back
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

/// A plan that has already been optimised is given to the rule again.
#[tokio::test]
async fn a_hash_join_that_feeds_a_dynamic_filter_stays() {
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

#[tokio::test]
async fn auto_leaves_equi_joins() {
    let context = session("auto").await;
    assert_snapshot!(decisions(&context, "SELECT r.a FROM r JOIN s ON r.k = s.k").await, @"HashJoinExec declined: an equi-join gains nothing on the CPU backend: it stays DataFusion's; bowtie.offload = 'force' offloads it");
    assert_snapshot!(
        decisions(&context, "SELECT r.a FROM r JOIN s ON r.k = s.k AND r.a * s.a > 3").await,
        @"HashJoinExec declined: an equi-join whose filter has no inequality between the sides gains nothing on the CPU backend: it stays DataFusion's; bowtie.offload = 'force' offloads it"
    );
}

#[tokio::test]
async fn auto_leaves_products() {
    let context = session("auto").await;
    assert_snapshot!(decisions(&context, "SELECT r.a FROM r CROSS JOIN s").await, @"CrossJoinExec declined: a cross join gains nothing on a device: it stays DataFusion's; add a condition, or SET bowtie.offload = 'force'");
    assert_snapshot!(
        decisions(&context, "SELECT r.a FROM r JOIN s ON CAST(r.a * s.a AS VARCHAR) > '3'").await,
        @"NestedLoopJoinExec declined: no part of its condition compares an expression of one side with one of the other, and not all of it compiles: DataFusion tests every pair as fast; write comparisons joined by AND"
    );
}

/// Every pair must be tested, but by a program.
#[tokio::test]
async fn auto_takes_a_product_with_a_program() {
    let context = session("auto").await;
    let wide = "(SELECT value AS a FROM range(1000))";
    let sql = format!("SELECT r.a FROM {wide} r JOIN {wide} s ON r.a * s.a % 7 = 3");
    assert_snapshot!(decisions(&context, &sql).await, @"NestedLoopJoinExec offloaded: all pairs are tested by a compiled filter");
    let sql = format!("SELECT r.a FROM {wide} r JOIN {wide} s ON r.a / s.a = 3");
    assert_snapshot!(decisions(&context, &sql).await, @"NestedLoopJoinExec declined: its condition may fail on a pair of rows, such as by a division by zero, and DataFusion's nested loop join decides on which; write it without operations that may fail");
    let sql =
        format!("SELECT r.a FROM {wide} r LEFT JOIN {wide} s ON r.a * s.a % 7 = 3 AND r.a > 5");
    assert_snapshot!(decisions(&context, &sql).await, @"NestedLoopJoinExec declined: a part of its condition reads one side only, by which DataFusion's nested loop join rejects rows first");
    let sql = "SELECT r.a FROM range(1000000) r(a) JOIN range(50) s(a) ON r.a * s.a % 7 = 3";
    assert_snapshot!(decisions(&context, sql).await, @"NestedLoopJoinExec offloaded: all pairs are tested by a compiled filter");
    let sql = format!(
        "SELECT r.a FROM {wide} r JOIN {wide} s ON r.a * s.a % 7 = 3 AND CAST(r.a * s.a AS VARCHAR) > '3'"
    );
    assert_snapshot!(decisions(&context, &sql).await, @"NestedLoopJoinExec declined: no part of its condition compares an expression of one side with one of the other, and not all of it compiles: DataFusion tests every pair as fast; write comparisons joined by AND");
}

#[tokio::test]
async fn auto_leaves_few_pairs() {
    let context = session("auto").await;
    assert_snapshot!(decisions(&context, "SELECT r.a FROM r JOIN s ON r.a > s.a").await, @"NestedLoopJoinExec declined: it has only 6 × 5 pairs of rows: a device gains nothing up to 65536");
}

#[tokio::test]
async fn auto_takes_many_pairs() {
    let context = session("auto").await;
    for table in ["many", "more"] {
        let sql = format!("CREATE TABLE {table} AS SELECT value AS a FROM generate_series(1, 300)");
        run(&context, &sql).await.unwrap();
    }
    let query = "SELECT many.a FROM many JOIN more ON many.a > more.a";
    assert_snapshot!(decisions(&context, query).await, @"NestedLoopJoinExec offloaded: the left side is sorted by one column, in which all inequalities are ranges");
}

/// The reasons for which an aggregation is not fused with its join, which is taken alone.
#[tokio::test]
async fn aggregations() {
    let context = session("force").await;
    let from = "FROM r JOIN s ON r.a > s.a";
    let mut said = String::new();
    for query in [
        "SELECT count(*) FROM r FULL JOIN s ON r.a > s.a".to_string(),
        format!("SELECT DISTINCT r.a {from} LIMIT 3"),
        format!("SELECT r.a, r.b, count(*) {from} GROUP BY ROLLUP (r.a, r.b)"),
        format!("SELECT r.a, s.b, count(*) {from} GROUP BY r.a, s.b"),
        "SELECT s.a, count(*) FROM r LEFT JOIN s ON r.a > s.a GROUP BY s.a".to_string(),
        format!("SELECT stddev(r.a) {from}"),
        format!("SELECT count(DISTINCT r.a), count(DISTINCT r.b) {from}"),
        format!("SELECT count(r.a, r.b) {from}"),
        format!("SELECT sum(r.a + s.a) {from}"),
        format!("SELECT sum(r.a * random()) {from}"),
        format!("SELECT sum(r.a / (r.b - 3)) {from}"),
        format!("SELECT min([r.a]) {from}"),
        format!("SELECT sum(1) {from}"),
        format!("SELECT count(*), r.a + s.a {from} GROUP BY r.a + s.a"),
        format!("SELECT sum(CAST(r.f AS DECIMAL(5, 2))) {from}"),
    ] {
        let all = decisions(&context, &query).await;
        let of_the_aggregation: Vec<&str> = all
            .lines()
            .filter(|line| line.starts_with("AggregateExec"))
            .collect();
        said += &format!("{query}\n    {}\n", of_the_aggregation.join("\n    "));
        assert!(
            all.contains("NestedLoopJoinExec offloaded"),
            "{query}: {all}"
        );
    }
    assert_snapshot!(said, @r"
    SELECT count(*) FROM r FULL JOIN s ON r.a > s.a
        AggregateExec offloaded: aggregated on the device, not fused with the join below: aggregates over a Full join are not fused
    SELECT DISTINCT r.a FROM r JOIN s ON r.a > s.a LIMIT 3
        AggregateExec offloaded: aggregated on the device, not fused with the join below: the aggregation has a limit
    SELECT r.a, r.b, count(*) FROM r JOIN s ON r.a > s.a GROUP BY ROLLUP (r.a, r.b)
        AggregateExec offloaded: aggregated on the device, not fused with the join below: grouping sets are not fused
    SELECT r.a, s.b, count(*) FROM r JOIN s ON r.a > s.a GROUP BY r.a, s.b
        AggregateExec offloaded: aggregated on the device, not fused with the join below: it groups by columns of both sides
    SELECT s.a, count(*) FROM r LEFT JOIN s ON r.a > s.a GROUP BY s.a
        AggregateExec offloaded: aggregated on the device, not fused with the join below: it groups by the side that the outer join pads with NULLs
    SELECT stddev(r.a) FROM r JOIN s ON r.a > s.a
        AggregateExec offloaded: aggregated on the device, not fused with the join below: stddev(r.a) is not fused: only COUNT, SUM, AVG, MIN and MAX are
    SELECT count(DISTINCT r.a), count(DISTINCT r.b) FROM r JOIN s ON r.a > s.a
        AggregateExec offloaded: aggregated on the device, not fused with the join below: count(DISTINCT r.a) is not fused: DISTINCT needs the join's rows
    SELECT count(r.a, r.b) FROM r JOIN s ON r.a > s.a
        AggregateExec offloaded: aggregated on the device, not fused with the join below: count(r.a,r.b) is not fused: DataFusion has no grouped accumulator for it
    SELECT sum(r.a + s.a) FROM r JOIN s ON r.a > s.a
        AggregateExec offloaded: aggregated on the device, not fused with the join below: a + a mixes columns of both sides
    SELECT sum(r.a * random()) FROM r JOIN s ON r.a > s.a
        AggregateExec declined: CAST(a AS Float64) * random() is volatile: compute it in a subquery; CAST(a AS Float64) * random() is volatile: compute it in a subquery
    SELECT sum(r.a / (r.b - 3)) FROM r JOIN s ON r.a > s.a
        AggregateExec offloaded: aggregated on the device, not fused with the join below: a / (b - 3) might fail on a row that the join drops
    SELECT min([r.a]) FROM r JOIN s ON r.a > s.a
        AggregateExec declined: min(make_array(r.a)) is not fused: DataFusion has no grouped accumulator for it; min(make_array(r.a)) of type List(Int64) is not implemented on a device: cast its argument
    SELECT sum(1) FROM r JOIN s ON r.a > s.a
        AggregateExec offloaded: aggregated on the device, not fused with the join below: 1 reads no column
    SELECT count(*), r.a + s.a FROM r JOIN s ON r.a > s.a GROUP BY r.a + s.a
        AggregateExec offloaded: aggregated on the device, not fused with the join below: a + a mixes columns of both sides
    SELECT sum(CAST(r.f AS DECIMAL(5, 2))) FROM r JOIN s ON r.a > s.a
        AggregateExec offloaded: aggregated on the device, not fused with the join below: CAST(f AS Decimal128(5, 2)) might fail on a row that the join drops
    ");
}
