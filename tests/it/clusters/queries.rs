//! The function in queries, and queries in the function.

use datafusion::prelude::SessionContext;

use crate::support::answer::{analyzed, answer, check, plan_of, shown, stock, text};
use crate::support::lists::{Shape, table};
use crate::support::session::{session, set};
use crate::support::snapshot;
use crate::support::tables::{register_partitions, register_whole};
use crate::support::tuning::Tuning;

/// Clusters 1, 2, 3; 5, 6; 8; 9. Ids 8 and 9 are pairs with themselves and with NULL.
const PAIRS: &str =
    "CREATE TABLE pairs AS VALUES (2, 3), (1, 2), (6, 5), (8, 8), (NULL, 9), (NULL, NULL), (5, 6)";

async fn with_pairs() -> SessionContext {
    let ctx = session();
    ctx.sql(PAIRS).await.unwrap().collect().await.unwrap();
    ctx
}

/// The rows of an answer, a line each, sorted.
async fn rows(ctx: &SessionContext, sql: &str) -> String {
    snapshot::answer(ctx, sql).await
}

const ALL: &str = "1 1\n2 1\n3 1\n5 5\n6 5\n8 8\n9 9";

#[tokio::test]
async fn a_query_or_a_table() {
    let ctx = with_pairs().await;
    ctx.sql("CREATE TABLE \"Odd name\" AS SELECT * FROM pairs")
        .await
        .unwrap();
    ctx.sql("CREATE VIEW seen AS SELECT * FROM pairs")
        .await
        .unwrap();
    for text in [
        "pairs",
        " pairs ",
        "public.pairs",
        "datafusion.public.pairs",
        "\"Odd name\"",
        "seen",
        "SELECT * FROM pairs",
        "SELECT column2, column1 FROM pairs;",
        "(SELECT * FROM pairs)",
        "WITH p AS (SELECT * FROM pairs) SELECT * FROM p ORDER BY 1",
        "VALUES (2, 3), (1, 2), (6, 5), (8, 8), (NULL, 9), (NULL, NULL), (5, 6)",
        "SELECT a.column1, a.column2 FROM pairs a UNION ALL SELECT b.column1, b.column2 FROM pairs b",
        // The clusters of clusters are the same.
        "SELECT * FROM bowtie_clusters('pairs')",
    ] {
        let sql = format!("SELECT * FROM bowtie_clusters($${text}$$)");
        assert_eq!(rows(&ctx, &sql).await, ALL, "{text}");
    }
}

#[tokio::test]
async fn parts_of_the_answer() {
    let ctx = with_pairs().await;
    let of = "bowtie_clusters('pairs')";
    for (sql, expected) in [
        (format!("SELECT cluster FROM {of}"), "1\n1\n1\n5\n5\n8\n9"),
        (format!("SELECT id FROM {of}"), "1\n2\n3\n5\n6\n8\n9"),
        (
            format!("SELECT cluster, id FROM {of} WHERE id <> cluster"),
            "1 2\n1 3\n5 6",
        ),
        (format!("SELECT count(*) FROM {of}"), "7"),
        (
            format!("SELECT count(*), count(DISTINCT cluster), max(id) FROM {of}"),
            "7 4 9",
        ),
        (format!("SELECT * FROM {of} WHERE id = 3"), "3 1"),
        (
            format!("SELECT cluster FROM {of} WHERE id IN (6, 7, 8)"),
            "5\n8",
        ),
        (
            format!("SELECT cluster, count(*) FROM {of} GROUP BY cluster HAVING count(*) > 1"),
            "1 3\n5 2",
        ),
        (
            format!("SELECT * FROM {of} ORDER BY id DESC LIMIT 2 OFFSET 1"),
            "6 5\n8 8",
        ),
        (
            format!("SELECT p.column1, c.cluster FROM pairs p JOIN {of} c ON p.column1 = c.id"),
            "1 1\n2 1\n5 5\n6 5\n8 8",
        ),
        (
            format!("SELECT a.id FROM {of} a JOIN {of} b ON a.cluster = b.id + 1"),
            "9",
        ),
    ] {
        assert_eq!(rows(&ctx, &sql).await, expected, "{sql}");
    }
    for (limit, found) in [(0, 0), (1, 1), (5, 5), (7, 7), (100, 7)] {
        for tail in ["", " OFFSET 0"] {
            let sql = format!("SELECT * FROM {of} LIMIT {limit}{tail}");
            let lines = rows(&ctx, &sql).await;
            assert_eq!(lines.lines().count(), found, "{sql}");
            assert!(lines.lines().all(|line| ALL.contains(line)), "{sql}");
        }
    }
    let sql = format!("SELECT id FROM {of} WHERE cluster = 1 LIMIT 2");
    assert_eq!(rows(&ctx, &sql).await.lines().count(), 2);
}

#[tokio::test]
async fn no_pairs() {
    let ctx = with_pairs().await;
    for query in [
        "SELECT * FROM pairs WHERE column1 > 100",
        "SELECT * FROM pairs WHERE column1 IS NULL AND column2 IS NULL",
        "SELECT NULL AS a, NULL AS b",
    ] {
        let sql = format!("SELECT * FROM bowtie_clusters('{query}')");
        assert_eq!(rows(&ctx, &sql).await, "", "{query}");
        let sql = format!("SELECT count(*) FROM bowtie_clusters('{query}')");
        assert_eq!(rows(&ctx, &sql).await, "0", "{query}");
    }
}

#[tokio::test]
async fn views_and_prepared_statements() {
    let ctx = with_pairs().await;
    for sql in [
        "CREATE VIEW clusters AS SELECT * FROM bowtie_clusters('SELECT * FROM pairs')",
        "PREPARE found(BIGINT) AS SELECT cluster FROM bowtie_clusters('pairs') WHERE id = $1",
        "CREATE TABLE kept AS SELECT * FROM bowtie_clusters('pairs')",
    ] {
        ctx.sql(sql).await.unwrap().collect().await.unwrap();
    }
    assert_eq!(rows(&ctx, "SELECT * FROM clusters").await, ALL);
    assert_eq!(rows(&ctx, "SELECT * FROM kept").await, ALL);
    assert_eq!(rows(&ctx, "EXECUTE found(3)").await, "1");
    assert_eq!(rows(&ctx, "EXECUTE found(6)").await, "5");
    // What is inserted later is seen where the table is read again.
    let more = ctx.sql("INSERT INTO pairs VALUES (3, 5)").await.unwrap();
    more.collect().await.unwrap();
    let joined = "SELECT count(*) FROM clusters WHERE cluster = 1";
    assert_eq!(rows(&ctx, joined).await, "5");
    assert_eq!(rows(&ctx, "EXECUTE found(6)").await, "1");
}

#[tokio::test]
async fn long_chains() {
    let ctx = session();
    for (query, least) in [
        ("SELECT value, value + 1 FROM generate_series(1, 100000)", 1),
        (
            "SELECT 100001 - value, 100000 - value FROM generate_series(0, 99999)",
            1,
        ),
        // Links in no order: 100003 is a prime.
        (
            "SELECT value * 7919 % 100003, value * 7919 % 100003 + 1 FROM generate_series(0, 100002)",
            0,
        ),
        // A star, from the outside and from the centre.
        ("SELECT value, 50000 FROM generate_series(1, 100001)", 1),
        ("SELECT 50000, value FROM generate_series(1, 100001)", 1),
    ] {
        for partitions in ["1", "8"] {
            set(&ctx, "datafusion.execution.target_partitions", partitions);
            let sql = format!(
                "SELECT min(cluster), max(cluster), min(id), count(*) > 100000 FROM bowtie_clusters('{query}')"
            );
            let expected = format!("{least} {least} {least} true");
            assert_eq!(rows(&ctx, &sql).await, expected, "{query}");
        }
    }
}

/// The node reads all partitions of its input.
#[tokio::test]
async fn many_partitions() {
    let ctx = session();
    set(&ctx, "datafusion.execution.target_partitions", "8");
    let whole = answer(
        &ctx,
        "SELECT value AS k, value + 8 AS l FROM generate_series(0, 4000)",
    );
    let whole = whole.await.unwrap();
    let batch = arrow::compute::concat_batches(&whole.schema, &whole.batches).unwrap();
    let slices = (0..8).map(|part| {
        let from = part * 500;
        vec![batch.slice(from, 500), batch.slice(from + 500, 1)]
    });
    register_partitions(&ctx, "pairs", batch.schema(), slices.collect());
    let sql = "SELECT * FROM bowtie_clusters('pairs')";
    let plan = shown(&plan_of(&ctx, sql).await.unwrap());
    let lines: Vec<&str> = plan.lines().map(str::trim).collect();
    assert!(lines[0].starts_with("ClustersExec: ids=Int64"), "{plan}");
    assert!(lines[1].starts_with("CoalescePartitionsExec"), "{plan}");
    let counted =
        "SELECT count(*), count(DISTINCT cluster), max(cluster) FROM bowtie_clusters('pairs')";
    assert_eq!(rows(&ctx, counted).await, "4009 8 7");
}

#[tokio::test]
async fn plans_and_metrics() {
    let ctx = with_pairs().await;
    let plan = text(
        &ctx,
        "EXPLAIN SELECT * FROM bowtie_clusters('pairs') LIMIT 3",
    )
    .await;
    assert!(plan.contains("ClustersExec: ids=Int64, fetch=3"), "{plan}");
    assert!(plan.contains("DataSourceExec"), "{plan}");
    let plan = analyzed(&ctx, "SELECT * FROM bowtie_clusters('pairs')").await;
    let node = plan.lines().find(|line| line.contains("ClustersExec"));
    let node = node.unwrap_or_else(|| panic!("{plan}"));
    for metric in [
        "output_rows=7",
        "input_pairs=7",
        "clusters=4",
        "elapsed_compute=",
    ] {
        assert!(node.contains(metric), "no {metric}: {node}");
    }
}

/// Near-duplicates: the join below runs by bowtie, and gives the same clusters.
#[tokio::test]
async fn above_a_similarity_join() {
    let ctx = session();
    for (rows, seed) in [(60, 1), (250, 2), (250, 3)] {
        register_whole(&ctx, "t", table(Shape::short(rows, 0.1, seed)));
        for condition in [
            "array_jaccard(a.v, b.v) >= 0.8",
            "array_jaccard(a.v, b.v) >= 0.5 AND a.id < b.id",
        ] {
            let sql = format!(
                "SELECT * FROM bowtie_clusters('SELECT a.id, b.id FROM t a JOIN t b ON {condition}')"
            );
            let stock = stock(&ctx, &sql).await.unwrap();
            let found: usize = stock.batches.iter().map(|batch| batch.num_rows()).sum();
            assert!(found > 1, "{sql}");
            let nodes = ["BowtieDownloadExec", "BowtieClustersExec", "BowtieJoinExec"];
            for tuning in [0, 5, 11].map(Tuning::nth) {
                let plan = check(&ctx, &sql, &tuning, &stock, &nodes).await;
                let at = nodes.map(|node| plan.find(node).unwrap());
                assert!(at.is_sorted(), "{plan}");
            }
        }
    }
}

/// Joins and groups above the function are offloaded as they are above any table.
#[tokio::test]
async fn below_other_operators() {
    let ctx = with_pairs().await;
    register_whole(&ctx, "t", table(Shape::short(100, 0.1, 4)));
    let of =
        "bowtie_clusters('SELECT a.id, b.id FROM t a JOIN t b ON array_jaccard(a.v, b.v) >= 0.7')";
    for sql in [
        format!("SELECT t.id, c.cluster FROM t JOIN {of} c ON t.id = c.id"),
        format!("SELECT t.id, c.id AS i FROM t JOIN {of} c ON t.id < c.cluster"),
    ] {
        let stock = stock(&ctx, &sql).await.unwrap();
        check(
            &ctx,
            &sql,
            &Tuning::PLAIN,
            &stock,
            &["ClustersExec", "BowtieJoinExec"],
        )
        .await;
    }
    let sql = format!("SELECT cluster, count(*) AS n FROM {of} GROUP BY cluster");
    let stock = stock(&ctx, &sql).await.unwrap();
    let nodes = ["ClustersExec", "BowtieJoinExec", "BowtieAggregateExec"];
    check(&ctx, &sql, &Tuning::PLAIN, &stock, &nodes).await;
    // It is explained with its query.
    let explained = format!("SELECT node FROM bowtie_explain($q${sql}$q$)");
    let nodes = rows(&ctx, &explained.replace("$q$", "$$")).await;
    assert!(nodes.contains("ClustersExec"), "{nodes}");
    assert!(nodes.contains("BowtieJoinExec"), "{nodes}");
}
