//! Plans: which nodes are offloaded below a sort, and why a sort is not.

use datafusion::prelude::SessionContext;

use crate::sort::check::Sorted;
use crate::support::answer::{declines, forced, stock};
use crate::support::session::{session, set};
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

fn tables() -> SessionContext {
    let ctx = session();
    for (seed, name) in ["r", "s", "u"].into_iter().enumerate() {
        register(&ctx, name, &mixed_table(120, 0.1, seed as u64));
    }
    ctx
}

/// Query, keys, and the nodes below the sort.
const QUERIES: [(&str, usize, &[&str]); 11] = [
    (
        "SELECT a, count(*) AS n FROM r GROUP BY a ORDER BY a",
        1,
        &["BowtieAggregateExec"],
    ),
    (
        "SELECT n * 2 - a AS x, a, n FROM (SELECT a, count(*) AS n FROM r GROUP BY a) ORDER BY x DESC, a LIMIT 5",
        2,
        &["BowtieProjectionExec", "BowtieAggregateExec"],
    ),
    (
        "SELECT sum(lo) AS n, a FROM r GROUP BY a HAVING sum(lo) > 20 ORDER BY n, a LIMIT 4",
        2,
        &["BowtieFilterExec", "BowtieAggregateExec"],
    ),
    (
        "SELECT r.c, r.t, s.id FROM r JOIN s ON r.a = s.a ORDER BY r.c, r.t DESC, s.id",
        3,
        &["BowtieJoinExec"],
    ),
    (
        "SELECT r.t, s.t, r.id, s.id FROM r LEFT JOIN s ON r.a = s.a AND r.lo < s.hi ORDER BY r.t, s.t, r.id, s.id LIMIT 30",
        4,
        &["BowtieJoinExec"],
    ),
    (
        "SELECT s.t, u.g, count(*) AS n FROM r JOIN s ON r.a = s.a JOIN u ON s.b = u.b WHERE u.lo > 3 GROUP BY s.t, u.g \
         ORDER BY s.t NULLS FIRST, u.g DESC",
        2,
        &["BowtieAggregateExec", "BowtieJoinExec"],
    ),
    (
        "SELECT a FROM (SELECT r.a FROM r JOIN s ON r.b = s.b UNION ALL SELECT sum(g) FROM s GROUP BY a) ORDER BY a DESC LIMIT 50",
        1,
        &["BowtieUnionExec"],
    ),
    // Keys that are computed, and not in the output.
    (
        "SELECT max(lo) AS m, a, b FROM r GROUP BY a, b ORDER BY a + b, max(lo) - a DESC, a, b",
        0,
        &["BowtieProjectionExec", "BowtieAggregateExec"],
    ),
    (
        "SELECT DISTINCT t FROM r ORDER BY t LIMIT 6",
        1,
        &["BowtieAggregateExec"],
    ),
    (
        "SELECT a, n FROM (SELECT a, count(*) AS n FROM r GROUP BY a ORDER BY n DESC, a LIMIT 10) ORDER BY a",
        2,
        &["BowtieAggregateExec"],
    ),
    (
        "SELECT r.a, r.id, s.id FROM r JOIN s ON r.a > s.a WHERE r.b + s.b > 9 ORDER BY r.a, r.id, s.id",
        3,
        &["BowtieJoinExec"],
    ),
];

#[tokio::test]
async fn one_download() {
    let ctx = tables();
    for (sql, keys, nodes) in QUERIES {
        let mut nodes = nodes.to_vec();
        nodes.push("BowtieSortExec");
        for n in 0..9 {
            let sorted = Sorted {
                sql,
                keys,
                limited: false,
                nodes: &nodes,
            };
            sorted.check(&ctx, &Tuning::nth(n * 11)).await;
        }
    }
}

/// The whole answer, in its order, where the keys are not in the output.
#[tokio::test]
async fn keys_that_are_not_selected() {
    let ctx = tables();
    for sql in [
        "SELECT a, b FROM r GROUP BY a, b ORDER BY a + b, a - b, max(lo), a, b",
        "SELECT b, a FROM r GROUP BY a, b ORDER BY CASE WHEN a > 5 THEN b ELSE -a END DESC NULLS LAST, a, b",
    ] {
        for n in 0..6 {
            let sorted = Sorted {
                sql,
                keys: 2,
                limited: false,
                nodes: &["BowtieSortExec", "BowtieProjectionExec"],
            };
            sorted.check(&ctx, &Tuning::nth(n * 13)).await;
        }
    }
}

/// Tables that are stored are sorted without a join or an aggregation.
#[tokio::test]
async fn stored_tables() {
    let ctx = tables();
    for (sql, keys) in [
        ("SELECT c, id FROM r ORDER BY c DESC, id", 2),
        (
            "SELECT t, id, a FROM r WHERE a > 4 ORDER BY t, id LIMIT 9",
            2,
        ),
        ("SELECT a + b AS x, id FROM r ORDER BY x, id", 2),
    ] {
        for n in 0..4 {
            let tuning = Tuning {
                cache: Some("1GB"),
                ..Tuning::nth(n * 9)
            };
            let sorted = Sorted {
                sql,
                keys,
                limited: false,
                nodes: &["BowtieSortExec", "BowtieScanExec"],
            };
            let given = sorted.check(&ctx, &tuning).await;
            assert!(!given.plan.contains("BowtieUploadExec"), "{}", given.plan);
        }
    }
    let tuning = Tuning {
        cache: Some("off"),
        ..Tuning::PLAIN
    };
    let given = forced(&ctx, "SELECT c FROM r ORDER BY c", &tuning).await;
    let plan = given.unwrap().plan;
    assert!(!plan.contains("Bowtie"), "{plan}");
}

#[tokio::test]
async fn sorts_that_stay() {
    let ctx = tables();
    set(&ctx, "bowtie.cache", "off");
    let aggregate = "SELECT a, stddev(lo) AS m FROM r GROUP BY a ORDER BY a";
    declines(
        &ctx,
        aggregate,
        "BowtieSortExec",
        "the groups below are finished on the host",
    )
    .await;
    let joined = "SELECT r.id FROM r JOIN s ON r.a = s.a ORDER BY concat(r.t, s.t)";
    declines(
        &ctx,
        joined,
        "BowtieSortExec",
        "its key concat(t, t) is not supported on the device",
    )
    .await;
    let projected = "SELECT concat(r.t, s.t) AS w FROM r JOIN s ON r.a = s.a ORDER BY w";
    declines(
        &ctx,
        projected,
        "BowtieSortExec",
        "its input is on the host, as concat(t, t",
    )
    .await;
    let host = "SELECT x.a FROM (SELECT a FROM r WHERE a > 3 ORDER BY id LIMIT 5) AS x JOIN s ON x.a = s.a";
    declines(
        &ctx,
        host,
        "BowtieSortExec",
        "its input is not on the device",
    )
    .await;
    let unseen = "SELECT count(*) FROM (SELECT r.a, row_number() OVER () AS n FROM r JOIN s ON r.a = s.a ORDER BY r.a)";
    let given = forced(&ctx, unseen, &Tuning::PLAIN).await.unwrap();
    assert!(!given.plan.contains("BowtieSortExec"), "{}", given.plan);
}

/// Windows and merges above a sorted input use its order, whichever node it comes from.
#[tokio::test]
async fn nodes_that_need_an_order() {
    let ctx = tables();
    for sql in [
        "SELECT a, n, sum(n) OVER (ORDER BY a ROWS UNBOUNDED PRECEDING) AS total FROM (SELECT a, count(*) AS n FROM r GROUP BY a ORDER BY a LIMIT 8)",
        "SELECT n, a FROM (SELECT a, count(*) AS n FROM r GROUP BY a ORDER BY n, a LIMIT 12) WHERE n % 2 = 0 ORDER BY n, a",
        "SELECT a, n FROM (SELECT a, count(*) AS n FROM r GROUP BY a) WHERE n > 2 ORDER BY n DESC, a LIMIT 5 OFFSET 1",
    ] {
        for n in 0..8 {
            let stock = stock(&ctx, sql).await.unwrap();
            let given = forced(&ctx, sql, &Tuning::nth(n * 3)).await.unwrap();
            crate::support::compare::same_rows(&stock, &given)
                .unwrap_or_else(|difference| panic!("{sql}\n{}\n{difference}", given.plan));
        }
    }
}
