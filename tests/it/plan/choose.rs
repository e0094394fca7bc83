//! What `bowtie.offload = 'auto'` offloads on the host, and which aggregations are fused with their join.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use insta::assert_snapshot;

use crate::plan::explain_function::decisions;
use crate::support::answer::plan_of;
use crate::support::snapshot::{run, session};

#[tokio::test]
async fn auto_declines_equi_joins() {
    let context = session("auto").await;
    assert_snapshot!(decisions(&context, "SELECT r.a FROM r JOIN s ON r.k = s.k").await, @"HashJoinExec declined: an equi-join gains nothing on the CPU backend: it stays DataFusion's; bowtie.offload = 'force' offloads it");
    assert_snapshot!(
        decisions(&context, "SELECT r.a FROM r JOIN s ON r.k = s.k AND r.a * s.a > 3").await,
        @"HashJoinExec declined: an equi-join whose filter has no inequality between the sides gains nothing on the CPU backend: it stays DataFusion's; bowtie.offload = 'force' offloads it"
    );
}

#[tokio::test]
async fn auto_declines_products() {
    let context = session("auto").await;
    assert_snapshot!(decisions(&context, "SELECT r.a FROM r CROSS JOIN s").await, @"CrossJoinExec declined: bowtie gains nothing from a cross join: it stays DataFusion's; add a condition, or SET bowtie.offload = 'force'");
    assert_snapshot!(
        decisions(&context, "SELECT r.a FROM r JOIN s ON CAST(r.a * s.a AS VARCHAR) > '3'").await,
        @"NestedLoopJoinExec declined: no part of its condition compares an expression of one side with one of the other, and not all of it compiles: DataFusion tests every pair as fast; write comparisons or set predicates joined by AND"
    );
}

/// Every pair must be tested, but the filter is compiled.
#[tokio::test]
async fn auto_offloads_a_product_with_a_compiled_filter() {
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
    assert_snapshot!(decisions(&context, &sql).await, @"NestedLoopJoinExec declined: no part of its condition compares an expression of one side with one of the other, and not all of it compiles: DataFusion tests every pair as fast; write comparisons or set predicates joined by AND");
}

#[tokio::test]
async fn auto_declines_few_pairs() {
    let context = session("auto").await;
    assert_snapshot!(decisions(&context, "SELECT r.a FROM r JOIN s ON r.a > s.a").await, @"NestedLoopJoinExec declined: it has only 6 × 5 pairs of rows: bowtie gains nothing up to 65536");
}

/// DataFusion may compare each element of a pair's lists with each other one.
#[tokio::test]
async fn auto_offloads_few_pairs_of_long_lists() {
    let context = session("auto").await;
    for (table, length) in [("short", 100), ("long", 20_000)] {
        let sql = format!("CREATE TABLE {table} AS SELECT range({length}) AS s");
        run(&context, &sql).await.unwrap();
    }
    let all = |l, r| format!("SELECT l.s[1] AS x FROM {l} l JOIN {r} r ON array_has_all(l.s, r.s)");
    let overlap = "SELECT array_overlap(l.s, r.s) AS x FROM long l CROSS JOIN long r";
    let few = decisions(&context, &all("long", "short")).await;
    assert!(few.contains("1 × 1 pairs of rows"), "{few}");
    for (sql, x) in [(all("long", "long").as_str(), 0), (overlap, 20_000)] {
        let of_join = decisions(&context, sql).await;
        assert!(of_join.contains("JoinExec offloaded"), "{of_join}");
        let rows = run(&context, sql).await.unwrap();
        let rows = concat_batches(&rows[0].schema(), &rows).unwrap();
        let values = rows.column(0).as_primitive::<Int64Type>();
        assert_eq!(values.values().as_ref(), [x], "{sql}");
    }
}

#[tokio::test]
async fn auto_offloads_many_pairs() {
    let context = session("auto").await;
    for table in ["many", "more"] {
        let sql = format!("CREATE TABLE {table} AS SELECT value AS a FROM generate_series(1, 300)");
        run(&context, &sql).await.unwrap();
    }
    let query = "SELECT many.a FROM many JOIN more ON many.a > more.a";
    assert_snapshot!(decisions(&context, query).await, @"NestedLoopJoinExec offloaded: the left side is sorted by one column, in which all inequalities are ranges");
}

/// Keys that leave a row of one side make few pairs, on each of which DataFusion's hash join tests the inequality.
#[tokio::test]
async fn auto_leaves_inequalities_beside_unique_keys() {
    let context = session("auto").await;
    run(
        &context,
        "CREATE TABLE many AS SELECT value % 20 AS k, value % 30 AS l, value AS a FROM generate_series(1, 600)",
    )
    .await
    .unwrap();
    let keys = "many.k = g.k AND many.l = g.l";
    let join = |kind: &str, right: &str, on: &str| {
        let read = match kind {
            "LEFT SEMI" | "LEFT ANTI" => "a",
            // DataFusion removes an outer join of which nothing is read.
            _ => "a, g.m",
        };
        format!("SELECT many.{read} FROM many {kind} JOIN {right} AS g ON {on} AND many.a > g.m")
    };
    let sums = "(SELECT k, l, sum(a) AS m FROM many GROUP BY k, l)";
    for (kind, right, on) in [
        ("", sums, keys),
        ("LEFT", sums, keys),
        ("RIGHT", sums, keys),
        ("FULL", sums, keys),
        ("LEFT SEMI", sums, keys),
        ("LEFT ANTI", sums, keys),
        // A filter, a projection and a semi join keep what is unique.
        (
            "",
            "(SELECT m + 1 AS m, l, k + 0 AS other, k FROM (SELECT k, l, sum(a) AS m FROM many GROUP BY k, l HAVING sum(a) > 50))",
            keys,
        ),
        (
            "",
            "(SELECT s.k, s.l, s.m FROM (SELECT k, l, sum(a) AS m FROM many GROUP BY k, l) AS s LEFT SEMI JOIN many AS o ON s.m = o.a)",
            keys,
        ),
        (
            "",
            "(SELECT k, sum(a) AS m FROM many GROUP BY k)",
            "many.k = g.k",
        ),
        (
            "",
            "(SELECT k, sum(a) AS m, max(l) AS l FROM many GROUP BY k)",
            keys,
        ),
        (
            "",
            "(SELECT k, l, k + l AS m FROM (SELECT DISTINCT k, l FROM many))",
            keys,
        ),
    ] {
        let sql = join(kind, right, on);
        let (unique, other) = sides_of_groups(&context, &sql).await;
        let said = decisions(&context, &sql).await;
        let expected = format!(
            "HashJoinExec declined: its keys are unique on the {unique} side and leave at most a pair for each row of the {other} side: DataFusion's equi-join tests its filter on each, and a CPU gains nothing; bowtie.offload = 'force' offloads it"
        );
        assert!(said.contains(&expected), "{sql}: {said}");
    }
    for (right, on) in [
        (sums, "many.k = g.k"),
        (sums, "many.k = g.k AND many.l + 1 = g.l + 1"),
        (
            "(SELECT k, l, sum(a) AS m FROM many GROUP BY ROLLUP (k, l))",
            keys,
        ),
        (
            "(SELECT x.k, x.l, x.m FROM (SELECT k, l, sum(a) AS m FROM many GROUP BY k, l) AS x JOIN many AS y ON x.k = y.k)",
            keys,
        ),
    ] {
        let said = decisions(&context, &join("", right, on)).await;
        assert!(
            said.contains("HashJoinExec offloaded"),
            "{right} {on}: {said}"
        );
    }
    run(&context, "SET bowtie.offload = 'force'").await.unwrap();
    let forced = decisions(&context, &join("", sums, keys)).await;
    assert!(forced.contains("HashJoinExec offloaded"), "{forced}");
}

/// The side of a plan's topmost hash join that has an aggregation, and the other one.
async fn sides_of_groups(context: &SessionContext, sql: &str) -> (&'static str, &'static str) {
    let mut plan = plan_of(context, sql).await.unwrap();
    while plan.name() != "HashJoinExec" {
        let children = plan.children();
        plan = Arc::clone(children[0]);
    }
    let has_groups = |side: &Arc<dyn ExecutionPlan>| {
        displayable(side.as_ref())
            .indent(false)
            .to_string()
            .contains("AggregateExec")
    };
    match has_groups(plan.children()[0]) {
        true => ("left", "right"),
        false => ("right", "left"),
    }
}

/// An expression without a program is evaluated by the distinct values of names, but not of texts as long as messages.
#[tokio::test]
async fn auto_leaves_expressions_of_many_values() {
    let context = session("auto").await;
    for (table, text) in [
        ("names", "'n' || (value % 9)"),
        ("messages", "repeat('it is ' || value, 20)"),
    ] {
        let sql = format!(
            "CREATE TABLE {table} AS SELECT value AS a, {text} AS t FROM generate_series(1, 300)"
        );
        run(&context, &sql).await.unwrap();
    }
    let query = |table: &str| {
        format!(
            "SELECT y.w, z.a FROM (SELECT x.a, upper(x.t) AS w FROM {table} x JOIN names u ON x.a > u.a) AS y \
             JOIN names z ON y.a > z.a"
        )
    };
    let of_names = decisions(&context, &query("names")).await;
    assert!(!of_names.contains("ProjectionExec"), "{of_names}");
    let of_messages = decisions(&context, &query("messages")).await;
    let reason = "ProjectionExec declined: it runs in DataFusion between two operators of the device, so rows are sent to the host and back: upper(t) cannot be compiled, and its column may have many distinct values";
    assert!(of_messages.contains(reason), "{of_messages}");
    run(&context, "SET bowtie.offload = 'force'").await.unwrap();
    let forced = decisions(&context, &query("messages")).await;
    assert!(!forced.contains("ProjectionExec"), "{forced}");
}

/// The reasons for which an aggregation is not fused with its join. The join is offloaded without it.
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
