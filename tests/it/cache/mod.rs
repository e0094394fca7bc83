//! Columns that stay on the device between queries: they are used again, never stale, and make room.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieRuntime;

use crate::support::answer::{plan_of, shown};
use crate::support::pool::greedy;
use crate::support::session::{device, session_on, set};

mod functions;
mod host_cache;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod results;
mod reuse;
mod room;
mod snapshots;
mod stale;

const MIB: usize = 1 << 20;

/// A session of a runtime of its own, on the device of the tests, that keeps up to `cache` and offloads all it can.
fn session(memory: u64, cache: &str) -> (SessionContext, Arc<BowtieRuntime>) {
    let runtime = BowtieRuntime::with_device_memory(memory);
    let ctx = session_on(greedy(256 * MIB), Arc::clone(&runtime));
    set(&ctx, "bowtie.cache", cache);
    set(&ctx, "bowtie.offload", "force");
    (ctx, runtime)
}

/// `k`, `v` and text `t`; the numbers begin at `first`.
pub(crate) fn batch(first: i64, rows: i64) -> RecordBatch {
    let numbers = || first..first + rows;
    let text = numbers().map(|n| match n % 3 {
        0 => None,
        1 => Some(format!("{n}")),
        _ => Some(format!("a longer text with the number {n}")),
    });
    let columns: [(&str, ArrayRef); 3] = [
        (
            "k",
            Arc::new(Int64Array::from_iter_values(numbers().map(|n| n % 7))),
        ),
        ("v", Arc::new(Int64Array::from_iter_values(numbers()))),
        ("t", Arc::new(text.collect::<StringArray>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// The same rows with numbers that have no narrower codes.
fn spread(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|column| {
        let numbers = column.as_primitive_opt::<arrow::datatypes::Int64Type>();
        match numbers {
            Some(numbers) => {
                Arc::new(numbers.unary::<_, arrow::datatypes::Int64Type>(|n| n << 33)) as ArrayRef
            }
            None => Arc::clone(column),
        }
    });
    RecordBatch::try_new(batch.schema(), columns.collect()).unwrap()
}

/// Bytes of a stored column on the device of the tests: the CPU backend shares the arrays of tables in memory, a GPU has codes.
fn stored_bytes(values: usize, codes: usize) -> usize {
    match device() == "host" {
        true => values,
        false => codes,
    }
}

fn table(partitions: Vec<Vec<RecordBatch>>) -> Arc<MemTable> {
    let schema = batch(0, 0).schema();
    Arc::new(MemTable::try_new(schema, partitions).unwrap())
}

/// Waits until no device memory is in use: a task of a query that is done may hold some a little longer.
async fn released(runtime: &BowtieRuntime) {
    for _ in 0..500 {
        if runtime.device_memory()[0].in_use == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", runtime.device_memory());
}

/// The rows of a query as lines.
pub(crate) async fn lines(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&batches).unwrap();
    let text = text.to_string();
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.skip(1).map(String::from).collect()
}

/// As [`lines`], by DataFusion alone.
async fn stock_lines(ctx: &SessionContext, sql: &str) -> Vec<String> {
    set(ctx, "bowtie.offload", "off");
    let lines = lines(ctx, sql).await;
    set(ctx, "bowtie.offload", "force");
    lines
}

/// What the scans of a query read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Read {
    /// Bytes that were on the device, and bytes that were sent.
    resident: usize,
    sent: usize,
    /// Bytes of files, and values that were decoded of them.
    bytes: usize,
    values: usize,
    /// Rows of pieces that statistics excluded.
    pruned: usize,
}

/// Runs a query whose plan has a scan on the device. Checks the rows.
async fn measured(ctx: &SessionContext, sql: &str) -> Read {
    let expected = stock_lines(ctx, sql).await;
    measured_as(ctx, sql, &expected).await
}

/// As [`measured`], with other rows than DataFusion's.
async fn measured_as(ctx: &SessionContext, sql: &str, expected: &[String]) -> Read {
    let plan = plan_of(ctx, sql).await.unwrap();
    assert!(shown(&plan).contains("BowtieScanExec"), "{}", shown(&plan));
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&batches).unwrap();
    let text = text.to_string();
    let found: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .collect();
    assert_eq!(found, expected, "{sql}");
    let mut read = Read::default();
    let mut nodes = vec![&plan];
    while let Some(node) = nodes.pop() {
        if let Some(metrics) = node.metrics() {
            let of = |name| metrics.sum_by_name(name).map_or(0, |sum| sum.as_usize());
            read.resident += of("resident_bytes");
            read.sent += of("uploaded_bytes");
            if node.name() == "BowtieScanExec" {
                read.bytes += of("read_bytes");
                read.values += of("decoded_values");
                read.pruned += of("pruned_rows");
            }
        }
        nodes.extend(node.children());
    }
    read
}

/// What the scans of a query read: bytes that were on the device, and bytes that were sent. Checks the rows.
async fn read(ctx: &SessionContext, sql: &str) -> (usize, usize) {
    let read = measured(ctx, sql).await;
    (read.resident, read.sent)
}

/// The rows of a grouped query over table `r`.
const GROUPED: &str = "SELECT k, count(*), sum(v), count(t), max(v) FROM r WHERE v % 5 <> 1 AND t LIKE '%1%' GROUP BY k ORDER BY k";
