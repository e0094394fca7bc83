//! How long bowtie's rule takes to plan: `cargo test --lib -- --ignored --nocapture planning_times`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::MemTable;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;

use crate::plan::choose::policy::tests::{H200, session};
use crate::plan::choose::policy::tpch::tables;
use crate::plan::rule::BowtieRule;
use crate::runtime::session_devices::SessionDevices;

/// The plan that the rule is given.
async fn before(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    // A join that produces a dynamic filter already is not recognised.
    for option in [
        "bowtie.offload = 'off'",
        "datafusion.optimizer.enable_dynamic_filter_pushdown = false",
    ] {
        let set = context.sql(&format!("SET {option}")).await;
        set.unwrap().collect().await.unwrap();
    }
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await;
    let auto = context.sql("SET bowtie.offload = 'auto'").await;
    auto.unwrap().collect().await.unwrap();
    plan.unwrap()
}

fn shortest(rule: &BowtieRule, plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Duration {
    let times = (0..7).map(|_| {
        let begun = Instant::now();
        rule.optimize(Arc::clone(plan), config).unwrap();
        begun.elapsed()
    });
    times.min().unwrap()
}

#[tokio::test]
#[ignore = "a measurement"]
async fn planning_times() {
    let rule = BowtieRule::new(Arc::new(SessionDevices::default())).deciding_for(H200);
    let host = BowtieRule::new(Arc::new(SessionDevices::default()));
    let context = tables();
    let mut all = [Duration::ZERO; 2];
    for query in 1..=22 {
        let text = ["plain", "subqueries"].iter().find_map(|folder| {
            let root = env!("CARGO_MANIFEST_DIR");
            let path = format!("{root}/tests/it/tpch/{folder}/q{query:02}.sql");
            std::fs::read_to_string(path).ok()
        });
        let text = text.unwrap_or_else(|| panic!("no query {query}"));
        let Some(sql) = text
            .split(';')
            .find(|sql| sql.to_lowercase().contains("select"))
        else {
            continue;
        };
        if sql.to_lowercase().contains("create view") {
            continue;
        }
        let plan = before(&context, sql).await;
        let state = context.state();
        for (all, rule) in all.iter_mut().zip([&rule, &host]) {
            *all += shortest(rule, &plan, state.config_options());
        }
    }
    println!(
        "TPC-H: {:?} as for a GPU, {:?} as for the host",
        all[0], all[1]
    );

    let context = session(H200);
    let batch = |i: i64| {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter([Some(i), None, Some(i + 1)]));
        let text: ArrayRef = Arc::new(StringArray::from_iter([Some("a"), None, Some("b")]));
        RecordBatch::try_from_iter([("k", Arc::clone(&keys)), ("x", keys), ("t", text)]).unwrap()
    };
    let batches: Vec<_> = (0..49_000).map(batch).collect();
    let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    context.register_table("batches", Arc::new(table)).unwrap();
    let sql = "SELECT b.x, r.x FROM batches b JOIN r ON b.k > r.k AND b.x < r.x AND b.t <> 'c'";
    let plan = before(&context, sql).await;
    let state = context.state();
    let times = [&rule, &host].map(|rule| shortest(rule, &plan, state.config_options()));
    println!(
        "49,000 batches: {:?} as for a GPU, {:?} as for the host",
        times[0], times[1]
    );
}
