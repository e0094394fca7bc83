//! Runs a query under a memory pool, and checks that it spills and gives the rows of a session without a limit.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;

use crate::support::answer::{plan_of, shown};
use crate::support::session::{session, session_in, set};
use crate::support::tables::register_batches;
use crate::support::tuning::Tuning;

pub(crate) const MIB: usize = 1 << 20;

/// Registers `t(k, v, s)` with `rows` rows, in batches of 8,000; each key has two or three rows.
pub(crate) fn register(ctx: &SessionContext, name: &str, rows: i64) {
    let keys = rows * 2 / 5;
    let piece = |from: i64| {
        let ids = from..(from + 8_000).min(rows);
        let ints = |f: &dyn Fn(i64) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(ids.clone().map(f)))
        };
        let text: StringArray = ids
            .clone()
            .map(|i| (i % 11 > 0).then(|| format!("text {}", i * 7919 % rows)))
            .collect();
        RecordBatch::try_from_iter([
            ("k", ints(&|i| i * 7919 % keys)),
            ("v", ints(&|i| i * 31 % 1_000_003)),
            ("s", Arc::new(text) as ArrayRef),
        ])
        .unwrap()
    };
    let pieces: Vec<_> = (0..rows).step_by(8_000).map(piece).collect();
    register_batches(ctx, name, pieces);
}

/// Spill files, spilled bytes and spilled rows of all nodes of a plan.
pub(crate) fn spilled(plan: &Arc<dyn ExecutionPlan>) -> [usize; 3] {
    let own = plan.metrics().unwrap_or_default();
    let own = [own.spill_count(), own.spilled_bytes(), own.spilled_rows()];
    let mut all = own.map(Option::unwrap_or_default);
    for below in plan.children().into_iter().map(spilled) {
        for (all, below) in all.iter_mut().zip(below) {
            *all += below;
        }
    }
    all
}

pub(crate) async fn rows(
    ctx: &SessionContext,
    sql: &str,
) -> Result<(String, Arc<dyn ExecutionPlan>)> {
    let plan = plan_of(ctx, sql).await?;
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    let rows = arrow::util::pretty::pretty_format_batches(&batches)?;
    Ok((rows.to_string(), plan))
}

/// Runs the query under `pool`, forced; checks that it spills, and its rows.
pub(crate) async fn check(sql: &str, table_rows: i64, pool: Arc<dyn MemoryPool>) {
    check_as(sql, table_rows, pool, |_| ()).await;
}

pub(crate) async fn check_as(
    sql: &str,
    table_rows: i64,
    pool: Arc<dyn MemoryPool>,
    tune: impl Fn(&SessionContext),
) {
    let plan = compare(sql, table_rows, pool, tune).await;
    let shown = DisplayableExecutionPlan::with_metrics(plan.as_ref());
    let shown = shown.indent(false).to_string();
    assert!(
        spilled(&plan).iter().all(|spilled| *spilled > 0),
        "{sql}\n{shown}"
    );
}

/// Runs the query under `pool`, forced; checks its rows, and that it releases all memory.
pub(crate) async fn compare(
    sql: &str,
    table_rows: i64,
    pool: Arc<dyn MemoryPool>,
    tune: impl Fn(&SessionContext),
) -> Arc<dyn ExecutionPlan> {
    let free = session();
    set(&free, "bowtie.offload", "off");
    let limited = session_in(Arc::clone(&pool));
    Tuning::PLAIN.apply(&limited);
    set(&limited, "bowtie.offload", "force");
    for ctx in [&free, &limited] {
        tune(ctx);
        register(ctx, "t", table_rows);
        register(ctx, "few", 2_000);
    }
    let (expected, _) = rows(&free, sql).await.unwrap();
    let (given, plan) = rows(&limited, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"));
    assert_eq!(expected, given, "{sql}\n{}", shown(&plan));
    assert_eq!(pool.reserved(), 0, "{sql}");
    plan
}
