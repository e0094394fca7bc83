//! The queries of TPC-H: forced and stock give the same rows, with every join and aggregation on the device.
//!
//! `BOWTIE_TPCH_SF` sets the scale factor, 0.1 by itself.

use arrow::array::RecordBatchReader;
use datafusion::prelude::SessionContext;
use tpchgen::generators::*;
use tpchgen_arrow::*;

use crate::support::answer::{forced, forced_and_sent, stock};
use crate::support::compare::similar_rows;
use crate::support::session::{Rule, session_by, set};
use crate::support::tables::register_partitions;
use crate::support::tuning::Tuning;

/// In order. `subqueries` holds those with a subquery in a predicate.
const QUERIES: [&str; 22] = [
    include_str!("plain/q01.sql"),
    include_str!("subqueries/q02.sql"),
    include_str!("plain/q03.sql"),
    include_str!("subqueries/q04.sql"),
    include_str!("plain/q05.sql"),
    include_str!("plain/q06.sql"),
    include_str!("plain/q07.sql"),
    include_str!("plain/q08.sql"),
    include_str!("plain/q09.sql"),
    include_str!("plain/q10.sql"),
    include_str!("subqueries/q11.sql"),
    include_str!("plain/q12.sql"),
    include_str!("plain/q13.sql"),
    include_str!("plain/q14.sql"),
    include_str!("subqueries/q15.sql"),
    include_str!("subqueries/q16.sql"),
    include_str!("subqueries/q17.sql"),
    include_str!("subqueries/q18.sql"),
    include_str!("plain/q19.sql"),
    include_str!("subqueries/q20.sql"),
    include_str!("subqueries/q21.sql"),
    include_str!("subqueries/q22.sql"),
];

/// A query takes well under a second.
const SCALE: f64 = 0.1;
const PARTITIONS: usize = 4;

fn scale() -> f64 {
    std::env::var("BOWTIE_TPCH_SF").map_or(SCALE, |scale| {
        scale.parse().expect("BOWTIE_TPCH_SF is a number")
    })
}

/// Registers the batches of a table, dealt to some partitions.
fn register(ctx: &SessionContext, name: &str, batches: impl RecordBatchReader) {
    let schema = batches.schema();
    let mut partitions = vec![vec![]; PARTITIONS];
    for (i, batch) in batches.enumerate() {
        partitions[i % PARTITIONS].push(batch.unwrap());
    }
    register_partitions(ctx, name, schema, partitions);
}

fn tables(scale: f64, rule: Rule) -> SessionContext {
    let ctx = session_by(rule);
    macro_rules! table {
        ($name:literal, $arrow:ident, $generator:ident) => {
            let rows = $arrow::new($generator::new(scale, 1, 1)).with_batch_size(8192);
            register(&ctx, $name, rows);
        };
    }
    table!("nation", NationArrow, NationGenerator);
    table!("region", RegionArrow, RegionGenerator);
    table!("part", PartArrow, PartGenerator);
    table!("supplier", SupplierArrow, SupplierGenerator);
    table!("partsupp", PartSuppArrow, PartSuppGenerator);
    table!("customer", CustomerArrow, CustomerGenerator);
    table!("orders", OrderArrow, OrderGenerator);
    table!("lineitem", LineItemArrow, LineItemGenerator);
    ctx
}

#[tokio::test]
async fn all_queries() {
    all_by(Rule::of_tests(), &[(1, "auto"), (4, "auto"), (4, "64MB")]).await;
}

/// In plans that are distributed and ordered already.
#[tokio::test]
async fn all_queries_in_stages() {
    all_by(Rule::Stages, &[(4, "auto")]).await;
}

/// In plans that are cut at their exchanges: partial and final aggregations, and joins by partition.
#[tokio::test]
async fn all_queries_in_cut_stages() {
    all_by(Rule::CutStages, &[(1, "auto"), (4, "auto"), (4, "64MB")]).await;
}

/// In plans that are sent before they run.
#[tokio::test]
async fn all_queries_that_are_sent() {
    let ctx = tables(0.01, Rule::Early);
    // Values of scalar subqueries that are computed apart are not sent.
    let apart = "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery";
    set(&ctx, apart, "false");
    let tuning = Tuning {
        partitions: 4,
        ..Tuning::PLAIN
    };
    for (i, sql) in QUERIES.iter().enumerate() {
        let stock = stock(&ctx, sql).await.unwrap();
        let given = forced_and_sent(&ctx, sql, &tuning).await;
        let given = given.unwrap_or_else(|error| panic!("Q{}: {error}", i + 1));
        if let Err(difference) = similar_rows(&stock, &given) {
            panic!("Q{}\n{}\n{difference}", i + 1, given.plan);
        }
    }
}

async fn all_by(rule: Rule, tunings: &[(usize, &'static str)]) {
    let ctx = tables(scale(), rule);
    for (i, sql) in QUERIES.iter().enumerate() {
        let query = i + 1;
        let stock = stock(&ctx, sql).await.unwrap();
        for (partitions, device_memory) in tunings.iter().copied() {
            let tuning = Tuning {
                partitions,
                device_memory,
                ..Tuning::PLAIN
            };
            let given = forced(&ctx, sql, &tuning).await;
            let given = given.unwrap_or_else(|e| panic!("Q{query} {tuning:?}: {e}"));
            if let Err(difference) = similar_rows(&stock, &given) {
                panic!("Q{query} {tuning:?}\n{}\n{difference}", given.plan);
            }
            let left: Vec<&str> = given
                .plan
                .lines()
                .map(str::trim_start)
                .filter(|line| line.contains("JoinExec") || line.contains("AggregateExec"))
                .filter(|line| !line.starts_with("Bowtie"))
                .collect();
            assert!(left.is_empty(), "Q{query} leaves {left:?}");
        }
    }
}

/// Rows are resident between the scans and the last sort: one upload for each scan, and one download for each query and subquery that
/// runs by itself. The device evaluates the predicates on text (Q7, Q8, Q12, Q14, Q16, Q19) and substrings (Q22).
#[tokio::test]
async fn each_scan_is_uploaded_once() {
    let ctx = tables(0.01, Rule::Early);
    for (query, scans, downloads) in [
        (3, 3, 1),
        (5, 6, 1),
        (7, 6, 1),
        (8, 8, 1),
        (9, 6, 1),
        (10, 4, 1),
        (12, 2, 1),
        (14, 2, 1),
        (16, 3, 1),
        (18, 4, 1),
        (19, 2, 1),
        (22, 3, 2),
    ] {
        let tuning = Tuning {
            partitions: 4,
            ..Tuning::PLAIN
        };
        let plan = forced(&ctx, QUERIES[query - 1], &tuning)
            .await
            .unwrap()
            .plan;
        let lines = |name: &str| plan.lines().filter(|line| line.contains(name)).count();
        assert_eq!(lines("DataSourceExec"), scans, "Q{query}\n{plan}");
        assert_eq!(lines("BowtieUploadExec"), scans, "Q{query}\n{plan}");
        assert_eq!(lines("BowtieDownloadExec"), downloads, "Q{query}\n{plan}");
    }
}
