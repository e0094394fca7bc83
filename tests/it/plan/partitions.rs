//! Partitions of a stage whose reader takes one after the other, as a task that is sent to another machine may.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use crate::support::answer::{plan_of, shown};
use crate::support::session::{Rule, session_by, set};
use crate::support::tables::{permuted_table, register};

const QUERIES: [&str; 4] = [
    // DataFusion's projection has partitions again, above a device node that has one.
    "SELECT reverse(CAST(a.id AS VARCHAR)) AS r, b.a FROM t a JOIN t b ON a.id BETWEEN b.id - 1 AND b.id + 1",
    "SELECT a.id, b.a FROM t a JOIN t b ON a.id BETWEEN b.id - 1 AND b.id + 1",
    "SELECT a.id, b.a FROM t a JOIN t b ON a.id = b.id",
    "SELECT a % 7 AS g, count(*) FROM t GROUP BY g",
];

/// Each partition to its end before the next one begins.
async fn one_by_one(
    ctx: &SessionContext,
    plan: &Arc<dyn ExecutionPlan>,
    down: bool,
) -> Vec<String> {
    let mut partitions: Vec<usize> = (0..plan.output_partitioning().partition_count()).collect();
    if down {
        partitions.reverse();
    }
    let mut batches: Vec<RecordBatch> = vec![];
    for partition in partitions {
        let rows = plan.execute(partition, ctx.task_ctx()).unwrap();
        batches.extend(rows.try_collect::<Vec<_>>().await.unwrap());
    }
    lines(&batches)
}

fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let text = pretty_format_batches(batches).unwrap().to_string();
    let rows = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut rows: Vec<String> = rows.map(String::from).collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn one_after_the_other() {
    let ctx = session_by(Rule::Stages);
    set(&ctx, "datafusion.execution.target_partitions", "4");
    set(&ctx, "datafusion.execution.batch_size", "64");
    register(&ctx, "t", &permuted_table(1000, 6));
    for sql in QUERIES {
        set(&ctx, "bowtie.offload", "off");
        let expected = ctx.sql(sql).await.unwrap().collect().await.unwrap();
        let expected = lines(&expected);
        set(&ctx, "bowtie.offload", "force");
        let mut parted = false;
        for down in [false, true] {
            let plan = plan_of(&ctx, sql).await.unwrap();
            let text = shown(&plan);
            assert!(text.contains("BowtieStageExec"), "{text}");
            parted |= plan.output_partitioning().partition_count() > 1;
            assert_eq!(one_by_one(&ctx, &plan, down).await, expected, "{text}");
        }
        assert!(parted, "{sql} has one partition");
    }
}
