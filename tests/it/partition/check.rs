//! Runs a query whose chunks are so short that its rows are hash-partitioned, and checks that they were.

use std::sync::Arc;

use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;

use crate::support::answer::{Answer, assert_offloaded, plan_of, shown, stock};
use crate::support::compare::similar_rows;
use crate::support::metrics::Counts;
use crate::support::session::{session, set};
use crate::support::tuning::Tuning;

/// Short chunks.
pub(crate) const SHORT: Tuning = Tuning {
    chunk_rows: "7",
    ..Tuning::PLAIN
};

/// The forced answer under the options as they are, and the number of partitions.
pub(crate) async fn run_partitioned(ctx: &SessionContext, sql: &str) -> (Answer, usize) {
    set(ctx, "bowtie.offload", "force");
    let plan = plan_of(ctx, sql).await.unwrap();
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await;
    let batches = batches.unwrap_or_else(|error| panic!("{sql}\n{}\n{error}", shown(&plan)));
    let answer = Answer {
        plan: shown(&plan),
        schema: plan.schema(),
        batches,
    };
    assert_offloaded(sql, &answer.plan, &["Bowtie"]);
    let counts = Counts::of(&plan);
    let partitions = counts.get("partitions");
    assert_eq!(
        partitions > 0,
        counts.get("partition_time") > 0,
        "{sql}: {counts:?}"
    );
    (answer, partitions)
}

/// Checks that the query is partitioned, and gives DataFusion's rows.
pub(crate) async fn check(ctx: &SessionContext, sql: &str, tuning: Tuning) {
    let stock = stock(ctx, sql).await.unwrap();
    tuning.apply(ctx);
    let (given, parts) = run_partitioned(ctx, sql).await;
    assert!(parts > 0, "not partitioned: {sql}\n{}", given.plan);
    if let Err(difference) = similar_rows(&stock, &given) {
        panic!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan);
    }
}

/// A session without key bitmaps, which need no partitions.
pub(crate) fn hashing() -> SessionContext {
    let ctx = session();
    set(&ctx, "bowtie.equi_join_strategy", "hash");
    // Otherwise the shorter side becomes the left one, and has too few chunks.
    set(&ctx, "datafusion.optimizer.join_reordering", "false");
    ctx
}
