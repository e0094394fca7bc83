//! Bowtie's nodes in the plan, as EXPLAIN shows them on one line each.

use insta::assert_snapshot;

use crate::support::snapshot::{nodes, plan, run, session, stock_session};

const BOWTIE: &[&str] = &["Bowtie"];

const JOIN: &[&str] = &["BowtieJoin"];

/// The plan with everything offloaded that can be.
async fn forced_plan(sql: &str) -> String {
    plan(&session("force").await, sql).await
}

/// Its lines that show a node with one of `names`.
async fn forced_nodes(sql: &str, names: &[&str]) -> String {
    nodes(&session("force").await, sql, names).await
}

#[tokio::test]
async fn a_join_stands_between_uploads_and_a_download() {
    let sql = "SELECT r.a, s.t FROM r JOIN s ON r.a > s.a";
    assert_snapshot!(forced_plan(sql).await, @r"
    BowtieDownloadExec: device=host
      BowtieJoinExec: device=host, join_type=Inner, strategy=range, build=left, theta=[left.a > right.a], output=[a, t]
        BowtieUploadExec: device=host
          DataSourceExec: partitions=2, partition_sizes=[1, 0]
        BowtieUploadExec: device=host
          DataSourceExec: partitions=2, partition_sizes=[1, 0]
    ");
}

#[tokio::test]
async fn an_aggregation_is_fused_with_its_join() {
    let sql = "SELECT r.a, count(*), sum(s.b) FROM r JOIN s ON r.a > s.a GROUP BY r.a";
    assert_snapshot!(forced_plan(sql).await, @r"
    ProjectionExec: expr=[a@0 as a, count(Int64(1))@1 as count(*), sum(s.b)@2 as sum(s.b)]
      BowtieDownloadExec: device=host
        BowtieJoinAggregateExec: gby=[a], aggr=[count(Int64(1)), sum(s.b)], device=host, join_type=Inner, strategy=range, build=right, theta=[left.a > right.a]
          BowtieUploadExec: device=host
            DataSourceExec: partitions=2, partition_sizes=[1, 0]
          BowtieUploadExec: device=host
            DataSourceExec: partitions=2, partition_sizes=[1, 0]
    ");
}

/// Each join node of DataFusion: its options, a query, and the node.
const SOURCES: [(&str, &str, &str, &str); 5] = [
    (
        "NestedLoopJoinExec",
        "",
        "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a",
        "join_type=Inner, strategy=range",
    ),
    (
        "CrossJoinExec",
        "",
        "SELECT r.a, s.a FROM r CROSS JOIN s",
        "join_type=Inner, strategy=tiles",
    ),
    (
        "HashJoinExec",
        "",
        "SELECT r.a, s.a FROM r JOIN s ON r.k = s.k AND r.a > s.a",
        "strategy=range, build=left, on=[",
    ),
    (
        "SortMergeJoinExec",
        "SET datafusion.optimizer.prefer_hash_join = false",
        "SELECT r.a, s.a FROM r LEFT JOIN s ON r.k = s.k AND r.a > s.a",
        "join_type=Left, strategy=range",
    ),
    (
        "PiecewiseMergeJoin",
        "SET datafusion.optimizer.enable_piecewise_merge_join = true",
        "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a",
        "join_type=Inner, strategy=range",
    ),
];

#[tokio::test]
async fn every_join_node_of_datafusion_is_replaced() {
    for (node, set, sql, expected) in SOURCES {
        let (stock, context) = (stock_session().await, session("force").await);
        if !set.is_empty() {
            run(&stock, set).await.unwrap();
            run(&context, set).await.unwrap();
        }
        let stock = plan(&stock, sql).await;
        assert!(stock.contains(node), "{sql} has no {node}:\n{stock}");
        let ours = plan(&context, sql).await;
        assert!(!ours.contains(node), "{node} is still there:\n{ours}");
        let join = nodes(&context, sql, JOIN).await;
        assert!(join.contains(expected), "{node} became {join}");
    }
}

#[tokio::test]
async fn a_range_of_one_column() {
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a >= s.a AND r.b < s.a";
    assert_snapshot!(forced_nodes(sql, JOIN).await, @"BowtieJoinExec: device=host, join_type=Inner, strategy=range, build=left, theta=[left.a <= right.a, left.a > right.b], output=[a, a]");
}

#[tokio::test]
async fn two_inequalities_on_columns_of_their_own() {
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a AND r.b < s.b";
    assert_snapshot!(forced_nodes(sql, JOIN).await, @"BowtieJoinExec: device=host, join_type=Inner, strategy=dominance, build=right, theta=[left.a < right.a, left.b > right.b], output=[a, a]");
}

#[tokio::test]
async fn no_range_at_all() {
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a <> s.a";
    assert_snapshot!(forced_nodes(sql, JOIN).await, @"BowtieJoinExec: device=host, join_type=Inner, strategy=tiles, build=left, theta=[left.a <> right.a], output=[a, a]");
}

#[tokio::test]
async fn a_forced_strategy() {
    let context = session("force").await;
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a AND r.b < s.a";
    for strategy in ["range", "dominance", "tiles"] {
        run(
            &context,
            &format!("SET bowtie.theta_strategy = '{strategy}'"),
        )
        .await
        .unwrap();
        let join = nodes(&context, sql, JOIN).await;
        assert!(join.contains(&format!("strategy={strategy},")), "{join}");
    }
}

#[tokio::test]
async fn keys_theta_and_residual_are_told_apart() {
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.k = s.k AND r.a > s.a AND r.b * s.b > 3";
    assert_snapshot!(forced_nodes(sql, JOIN).await, @"BowtieJoinExec: device=host, join_type=Inner, strategy=range, build=left, on=[left.k = right.k], theta=[left.a < right.a], compiled_filter=right.b * left.b > 3, output=[a, a]");
}

/// An expression of one side is evaluated by the upload, once a row.
#[tokio::test]
async fn expressions_of_one_side_are_evaluated_by_the_upload() {
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a + 1 > s.a * 2 AND upper(r.t) <> s.t";
    assert_snapshot!(forced_nodes(sql, BOWTIE).await, @r"
    BowtieDownloadExec: device=host
    BowtieJoinExec: device=host, join_type=Inner, strategy=range, build=left, theta=[left.a + 1 > right.a * 2, upper(left.t) <> right.t], output=[a, a]
    BowtieUploadExec: device=host, evaluate=[a + 1, upper(t)]
    BowtieUploadExec: device=host, evaluate=[a * 2]
    ");
}

#[tokio::test]
async fn a_projection_is_embedded() {
    let sql = "SELECT s.t FROM r JOIN s ON r.a > s.a AND r.b < s.b";
    assert_snapshot!(forced_plan(sql).await, @r"
    BowtieDownloadExec: device=host
      BowtieJoinExec: device=host, join_type=Inner, strategy=dominance, build=left, theta=[left.a > right.a, left.b < right.b], output=[t]
        BowtieUploadExec: device=host
          DataSourceExec: partitions=2, partition_sizes=[1, 0]
        BowtieUploadExec: device=host
          DataSourceExec: partitions=2, partition_sizes=[1, 0]
    ");
}

/// A projection that renames is not embedded.
#[tokio::test]
async fn a_projection_with_other_names_stays() {
    let sql = "SELECT s.t AS u, r.a + 1 AS v FROM r JOIN s ON r.a > s.a";
    assert_snapshot!(forced_plan(sql).await, @r"
    ProjectionExec: expr=[t@2 as u, a@0 + 1 as v]
      RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
        BowtieDownloadExec: device=host
          BowtieJoinExec: device=host, join_type=Inner, strategy=range, build=left, theta=[left.a > right.a], output=[a, a, t]
            BowtieUploadExec: device=host
              DataSourceExec: partitions=2, partition_sizes=[1, 0]
            BowtieUploadExec: device=host
              DataSourceExec: partitions=2, partition_sizes=[1, 0]
    ");
}

#[tokio::test]
async fn a_limit_reaches_the_join() {
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a LIMIT 3";
    assert_snapshot!(forced_nodes(sql, &["Bowtie", "Global", "Local"]).await, @r"
    BowtieDownloadExec: device=host, fetch=3
    BowtieJoinExec: device=host, join_type=Inner, strategy=range, build=left, theta=[left.a > right.a], fetch=3, output=[a, a]
    BowtieUploadExec: device=host
    BowtieUploadExec: device=host
    ");
}

#[tokio::test]
async fn an_offset_is_added_to_the_limit_of_the_join() {
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a LIMIT 3 OFFSET 2";
    assert_snapshot!(forced_nodes(sql, &["Bowtie", "Global", "Local"]).await, @r"
    GlobalLimitExec: skip=2, fetch=3
    BowtieDownloadExec: device=host, fetch=5
    BowtieJoinExec: device=host, join_type=Inner, strategy=range, build=left, theta=[left.a > right.a], fetch=5, output=[a, a]
    BowtieUploadExec: device=host
    BowtieUploadExec: device=host
    ");
}

/// The sort needs all rows.
#[tokio::test]
async fn a_limit_above_a_sort_does_not_reach_the_join() {
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a ORDER BY r.b LIMIT 3";
    assert_snapshot!(forced_nodes(sql, &["Bowtie", "Sort"]).await, @r"
    BowtieDownloadExec: device=host, fetch=3
    BowtieSortExec: device=host, keys=[b@2 ASC NULLS LAST], fetch=3
    BowtieJoinExec: device=host, join_type=Inner, strategy=range, build=right, theta=[left.a < right.a], output=[a, a, b]
    BowtieUploadExec: device=host
    BowtieUploadExec: device=host
    ");
}

#[tokio::test]
async fn the_ten_join_types() {
    let context = session("force").await;
    for (join_type, sql) in [
        ("Inner", "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a"),
        ("Left", "SELECT r.a, s.a FROM r LEFT JOIN s ON r.a > s.a"),
        ("Right", "SELECT r.a, s.a FROM r RIGHT JOIN s ON r.a > s.a"),
        ("Full", "SELECT r.a, s.a FROM r FULL JOIN s ON r.a > s.a"),
        (
            "LeftSemi",
            "SELECT r.a FROM r LEFT SEMI JOIN s ON r.a > s.a",
        ),
        (
            "LeftAnti",
            "SELECT r.a FROM r LEFT ANTI JOIN s ON r.a > s.a",
        ),
        (
            "RightSemi",
            "SELECT s.a FROM r RIGHT SEMI JOIN s ON r.a > s.a",
        ),
        (
            "RightAnti",
            "SELECT s.a FROM r RIGHT ANTI JOIN s ON r.a > s.a",
        ),
        (
            "RightMark",
            "SELECT s.a FROM s WHERE s.k = 1 OR EXISTS (SELECT 1 FROM r WHERE r.a > s.a)",
        ),
        // From here on DataFusion keeps the order of the sides.
        ("", "SET datafusion.optimizer.join_reordering = false"),
        (
            "LeftMark",
            "SELECT s.a FROM s WHERE s.k = 1 OR EXISTS (SELECT 1 FROM r WHERE r.a > s.a)",
        ),
    ] {
        if join_type.is_empty() {
            run(&context, sql).await.unwrap();
            continue;
        }
        let join = nodes(&context, sql, JOIN).await;
        assert!(
            join.contains(&format!("join_type={join_type},")),
            "{join_type}: {join}"
        );
    }
}

/// Rows are resident between the uploads and the download.
#[tokio::test]
async fn a_chain_of_device_nodes() {
    let sql = "SELECT x.k, avg(x.n), max(u.t)
        FROM (SELECT r.k, r.a * 2 + s.a AS n FROM r JOIN s ON r.a > s.a) AS x JOIN
             (SELECT k, t, count(*) AS c FROM s GROUP BY k, t HAVING count(*) < 5) AS u ON x.k = u.k AND x.n > u.c
        GROUP BY x.k";
    assert_snapshot!(forced_plan(sql).await, @r"
    BowtieDownloadExec: device=host
      BowtieJoinAggregateExec: gby=[k], aggr=[avg(x.n), max(u.t)], device=host, join_type=Inner, strategy=range, build=left, on=[left.k = right.k], theta=[left.c < right.n]
        BowtieProjectionExec: device=host, output=[k, t, c]
          BowtieFilterExec: device=host, predicate=count(Int64(1)) < 5
            BowtieAggregateExec: gby=[k, t], aggr=[count(Int64(1))], strategy=auto, device=host
              BowtieUploadExec: device=host
                DataSourceExec: partitions=2, partition_sizes=[1, 0]
        BowtieProjectionExec: device=host, output=[k, n, CAST(n AS Float64) as bowtie_CAST(n AS Float64)]
          BowtieProjectionExec: device=host, output=[k, a * 2 + a as n]
            BowtieJoinExec: device=host, join_type=Inner, strategy=range, build=right, theta=[left.a < right.a], output=[k, a, a]
              BowtieUploadExec: device=host
                DataSourceExec: partitions=2, partition_sizes=[1, 0]
              BowtieUploadExec: device=host
                DataSourceExec: partitions=2, partition_sizes=[1, 0]
    ");
}

/// A function that does not compile needs a download and an upload.
#[tokio::test]
async fn a_border_in_a_chain() {
    let sql = "SELECT x.w, u.a FROM (SELECT r.k, concat(r.t, s.t) AS w FROM r JOIN s ON r.a > s.a) AS x JOIN s AS u ON x.k = u.k";
    assert_snapshot!(forced_nodes(sql, &["Bowtie", "Projection"]).await, @r"
    BowtieDownloadExec: device=host
    BowtieJoinExec: device=host, join_type=Inner, strategy=equi, build=left, on=[left.k = right.k], output=[w, a]
    BowtieUploadExec: device=host
    BowtieUploadExec: device=host
    ProjectionExec: expr=[k@0 as k, concat(t@2, t@4) as w]
    BowtieDownloadExec: device=host
    BowtieJoinExec: device=host, join_type=Inner, strategy=range, build=right, theta=[left.a < right.a], output=[k, a, t, a, t]
    BowtieUploadExec: device=host
    BowtieUploadExec: device=host
    ");
}

/// Groups that DataFusion's accumulators finish are uploaded again.
#[tokio::test]
async fn groups_that_the_host_finishes() {
    let context = session("force").await;
    for (aggregate, finish) in [
        ("sum(a)", ""),
        ("avg(a)", ""),
        ("sum(f)", ""),
        ("min(f)", ", finish=host"),
        ("stddev(f)", ", finish=host"),
    ] {
        let sql = format!(
            "SELECT u.t FROM (SELECT k, {aggregate} AS c FROM r GROUP BY k) AS x JOIN s AS u ON x.k = u.k AND x.c > u.a"
        );
        let nodes = nodes(&context, &sql, &["BowtieAggregateExec"]).await;
        assert!(nodes.ends_with(&format!("device=host{finish}")), "{nodes}");
    }
}
