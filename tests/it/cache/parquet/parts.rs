//! Scans of parts of files, as a task of a distributed query has: the row groups that begin in ranges of bytes.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_bowtie::{BowtieRuntime, BowtieStageRule};
use tempfile::tempdir;

use crate::cache::parquet::{create, listing_session, write};
use crate::cache::{batch, stock_lines};
use crate::support::answer::{plan_of, shown};
use crate::support::session::set;

type Plan = Arc<dyn ExecutionPlan>;

/// A plan as one of `tasks` tasks has it: of the ranges to which its files are cut, every `tasks`-th one, beginning with number `task`.
fn task_of(plan: Plan, task: usize, tasks: usize, ranges: u64) -> Plan {
    let cut = |node: Plan| {
        let Some(source) = node.downcast_ref::<DataSourceExec>() else {
            return Ok(Transformed::no(node));
        };
        let config = source.data_source();
        let config = config.downcast_ref::<FileScanConfig>().unwrap();
        let files = config.file_groups.iter().flat_map(FileGroup::iter);
        let parts = files.flat_map(|file| parts_of(file, ranges));
        let parts = parts.enumerate().filter(|(i, _)| i % tasks == task);
        let groups: Vec<FileGroup> = parts.map(|(_, part)| FileGroup::new(vec![part])).collect();
        let config = FileScanConfigBuilder::from(config.clone()).with_file_groups(groups);
        Ok(Transformed::yes(
            DataSourceExec::from_data_source(config.build()) as Plan,
        ))
    };
    plan.transform_up(cut).data().unwrap()
}

fn parts_of(file: &PartitionedFile, ranges: u64) -> Vec<PartitionedFile> {
    let size = file.object_meta.size;
    let bound = |i: u64| i64::try_from(size * i / ranges).unwrap();
    let part = |i| file.clone().with_range(bound(i), bound(i + 1));
    (0..ranges).map(part).collect()
}

/// The rows of a plan in order, and the bytes of files and of the device that were read.
async fn rows(ctx: &SessionContext, plan: &Plan) -> (Vec<String>, usize, usize) {
    let batches = collect(Arc::clone(plan), ctx.task_ctx()).await.unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&batches).unwrap();
    let text = text.to_string();
    let mut rows: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .map(String::from)
        .collect();
    rows.sort();
    let (mut read, mut resident) = (0, 0);
    plan.apply(|node| {
        let metrics = node.metrics().unwrap_or_default();
        let of = |name| metrics.sum_by_name(name).map_or(0, |sum| sum.as_usize());
        read += of("read_bytes");
        resident += of("resident_bytes");
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    (rows, read, resident)
}

async fn check(ctx: &SessionContext, runtime: &Arc<BowtieRuntime>, sql: &str, ranges: u64) {
    const TASKS: usize = 3;
    let mut expected = stock_lines(ctx, sql).await;
    expected.sort();
    set(ctx, "bowtie.offload", "off");
    let whole = plan_of(ctx, sql).await.unwrap();
    set(ctx, "bowtie.offload", "force");
    let rule = BowtieStageRule::new(Arc::clone(runtime));
    for round in 0..2 {
        let mut all = vec![];
        for task in 0..TASKS {
            // A scan runs once.
            let of_task = || task_of(Arc::clone(&whole), task, TASKS, ranges);
            let (own, ..) = rows(ctx, &of_task()).await;
            let state = ctx.state();
            let offloaded = rule.optimize(of_task(), state.config_options()).unwrap();
            let (found, read, resident) = rows(ctx, &offloaded).await;
            let plan = shown(&offloaded);
            assert!(
                found == own,
                "task {task} of {sql}: {} of {} rows\n{plan}",
                found.len(),
                own.len()
            );
            if round == 1 && !found.is_empty() {
                assert_eq!(read, 0, "task {task} of {sql} reads its files again");
                assert!(resident > 0, "task {task} of {sql} reads nothing");
            }
            all.extend(found);
        }
        all.sort();
        assert!(
            all == expected,
            "{sql}: {} of {} rows",
            all.len(),
            expected.len()
        );
    }
}

#[tokio::test]
async fn the_second_query_reads_nothing() {
    let (ctx, runtime) = listing_session(64 << 20, "32MB").await;
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[batch(0, 5_000)], 256);
    write(&files.path().join("b.parquet"), &[batch(5_000, 370)], 10);
    write(&files.path().join("c.parquet"), &[batch(0, 0)], 10);
    write(&files.path().join("d.parquet"), &[batch(5_370, 1)], 10);
    create(&ctx, &files).await;
    for ranges in [1, 5, 16] {
        for sql in [
            "SELECT v, count(t), min(k) FROM r WHERE v % 5 <> 1 AND t LIKE '%1%' GROUP BY v",
            "SELECT v + 1 AS w, k, max(t) FROM r WHERE v BETWEEN 100 AND 4000 GROUP BY v, k",
        ] {
            check(&ctx, &runtime, sql, ranges).await;
        }
    }
}
