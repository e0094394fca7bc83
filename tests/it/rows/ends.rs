//! Filters and projections whose rows the host reads: over stored tables, and above joins and aggregations on the device.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionContext, col};

use crate::support::answer::{Answer, check, forced, plan_of, shown, stock};
use crate::support::compare::same_rows;
use crate::support::session::{session, set};
use crate::support::tables::{mixed_table, permuted_table, register, register_in_pieces};
use crate::support::tuning::Tuning;

const STORED: Tuning = Tuning {
    cache: Some("1GB"),
    ..Tuning::PLAIN
};
const IN_PIECES: Tuning = Tuning {
    chunk_rows: "49",
    ..STORED
};
/// So little that columns are evicted, and pieces without room are read on the host.
const WITHOUT_ROOM: Tuning = Tuning {
    cache: Some("1MB"),
    device_memory: "1MB",
    ..IN_PIECES
};

const FILTER: &str = "BowtieFilterExec";
const PROJECTION: &str = "BowtieProjectionExec";
const SCAN: &str = "BowtieScanExec";

const OVER_TABLES: [(&str, &[&str]); 12] = [
    ("SELECT id, t FROM r WHERE a > 15", &[FILTER, SCAN]),
    (
        "SELECT * FROM r WHERE a BETWEEN 3 AND 9 AND c > 0.5",
        &[FILTER, SCAN],
    ),
    ("SELECT id, a + b AS n, c * 2 FROM r", &[PROJECTION, SCAN]),
    (
        "SELECT a + b AS n, t FROM r WHERE t LIKE '%1' OR c IS NULL",
        &[FILTER, PROJECTION, SCAN],
    ),
    ("SELECT id, t FROM r WHERE t IS NULL", &[FILTER, SCAN]),
    ("SELECT id FROM r WHERE a > 100", &[FILTER, SCAN]),
    (
        "SELECT id, CASE WHEN a > 5 THEN 'more' ELSE t END FROM r WHERE b <> 2",
        &[FILTER, SCAN],
    ),
    (
        "SELECT id, a FROM r WHERE a > 3 UNION ALL SELECT id, b FROM s WHERE b > 3",
        &[FILTER, SCAN],
    ),
    (
        "SELECT id, a FROM r WHERE a > (SELECT avg(b) FROM s)",
        &[FILTER, SCAN],
    ),
    (
        "SELECT count(*) OVER (PARTITION BY g), id FROM r WHERE a > 7",
        &[FILTER, SCAN],
    ),
    (
        "SELECT x.n % 3, x.id FROM (SELECT id, a * 2 AS n, c FROM r WHERE a > 2) AS x WHERE x.c < 1.0",
        &[FILTER, PROJECTION, SCAN],
    ),
    (
        "SELECT upper(t), id FROM r WHERE a IN (1, 2, 7)",
        &[FILTER, SCAN],
    ),
];

const ABOVE_DEVICE_NODES: [(&str, &[&str]); 3] = [
    (
        "SELECT r.id, s.id FROM r LEFT JOIN s ON r.a = s.a AND r.b < s.b WHERE s.id IS NULL OR s.c > r.c",
        &[FILTER, "BowtieJoinExec"],
    ),
    (
        "SELECT g, count(*), max(a) FROM r GROUP BY g HAVING count(*) > 5",
        &[FILTER, "BowtieAggregateExec", SCAN],
    ),
    (
        "SELECT x.g, x.n + 1 FROM (SELECT g, b, count(*) AS n FROM r GROUP BY g, b) AS x WHERE x.n > 2",
        &[FILTER, "BowtieAggregateExec", SCAN],
    ),
];

/// What the host runs as before: few rows are wanted, nothing is computed, or no device can.
const OF_DATAFUSION: [&str; 4] = [
    "SELECT id, t FROM r WHERE a > 15 LIMIT 3",
    "SELECT id, t FROM r",
    "SELECT id, random() < 2.0 FROM r",
    "SELECT value FROM generate_series(1, 100) AS g(value) WHERE value % 3 = 1",
];

fn tables() -> SessionContext {
    let ctx = session();
    for (name, rows, seed) in [("r", 500, 1), ("s", 300, 2)] {
        register(&ctx, name, &mixed_table(rows, 0.15, seed));
    }
    ctx
}

fn runs_in_datafusion(answer: &Answer, node: &str) -> bool {
    let mut lines = answer.plan.lines();
    lines.any(|line| line.trim_start().starts_with(node))
}

/// Runs each query twice by each tuning: with columns that are sent, and with those that stayed.
async fn check_all(cases: &[(&str, &[&str])]) {
    let ctx = tables();
    for (sql, nodes) in cases {
        let expected = stock(&ctx, sql).await.unwrap();
        for tuning in [&STORED, &IN_PIECES, &WITHOUT_ROOM] {
            check(&ctx, sql, tuning, &expected, nodes).await;
            let again = forced(&ctx, sql, tuning).await.unwrap();
            assert!(!runs_in_datafusion(&again, "FilterExec"), "{}", again.plan);
            same_rows(&expected, &again).unwrap();
        }
    }
}

#[tokio::test]
async fn over_stored_tables() {
    check_all(&OVER_TABLES).await;
}

#[tokio::test]
async fn above_device_nodes() {
    check_all(&ABOVE_DEVICE_NODES).await;
}

#[tokio::test]
async fn what_stays_on_the_host() {
    let ctx = tables();
    for sql in OF_DATAFUSION {
        let forced = forced(&ctx, sql, &STORED).await.unwrap();
        assert!(!forced.plan.contains("Bowtie"), "{sql}\n{}", forced.plan);
    }
    // Without room for columns no table is stored.
    let sql = OVER_TABLES[0].0;
    let off = Tuning {
        cache: Some("off"),
        ..STORED
    };
    let forced = forced(&ctx, sql, &off).await.unwrap();
    assert!(!forced.plan.contains("Bowtie"), "{}", forced.plan);
}

/// Rows of one partition leave in the order of the table, from many pieces of which few rows or many are kept.
#[tokio::test]
async fn the_order_of_a_table() {
    let ctx = session();
    register_in_pieces(&ctx, "r", 20_000, 250);
    let sql = "SELECT id, a FROM r WHERE id % 1000 = 1 OR id BETWEEN 3000 AND 9000";
    let order = |answer: &Answer| {
        let ids = answer.batches.iter().flat_map(|batch| {
            let ids = batch.column(0).as_primitive::<Int64Type>();
            ids.values().to_vec()
        });
        ids.collect::<Vec<i64>>()
    };
    let in_one = |tuning: &Tuning| Tuning {
        partitions: 1,
        ..*tuning
    };
    set(&ctx, "datafusion.execution.target_partitions", "1");
    let ascending = order(&stock(&ctx, sql).await.unwrap());
    assert!(ascending.is_sorted() && ascending.len() > 6_000);
    for tuning in [&STORED, &IN_PIECES, &WITHOUT_ROOM] {
        let forced = forced(&ctx, sql, &in_one(tuning)).await.unwrap();
        assert!(forced.plan.contains(FILTER), "{}", forced.plan);
        assert!(order(&forced) == ascending, "{tuning:?}\n{}", forced.plan);
    }
}

/// Rows in a declared order stay where that is seen.
#[tokio::test]
async fn declared_orders() {
    let ctx = session();
    let batch = permuted_table(300, 5);
    let order = vec![vec![col("id").sort(true, false)]];
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    let table = table.with_sort_order(order);
    ctx.register_table("r", Arc::new(table)).unwrap();
    STORED.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    let rows = "SELECT sum(a) OVER (ORDER BY id), id FROM r WHERE a > 9";
    let plan = shown(&plan_of(&ctx, rows).await.unwrap());
    assert!(
        !plan.contains(FILTER) && !plan.contains("SortExec"),
        "{plan}"
    );
}

/// An error of a row ends the query, as in DataFusion.
#[tokio::test]
async fn errors_of_rows() {
    let ctx = tables();
    for sql in [
        "SELECT id FROM r WHERE 100 / (a - 7) > 3",
        "SELECT id, 100 / (a - 7) FROM r WHERE b > 1",
    ] {
        let expected = stock(&ctx, sql).await.unwrap_err().to_string();
        assert!(expected.contains("Divide by zero"), "{expected}");
        for tuning in [&STORED, &IN_PIECES] {
            let error = forced(&ctx, sql, tuning).await.unwrap_err().to_string();
            assert!(error.contains("Divide by zero"), "{sql}: {error}");
        }
    }
}
