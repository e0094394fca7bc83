//! Sorts of more rows than the device or the host's memory pool holds: sorted runs, merged on the host.

use std::sync::Arc;

use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;

use crate::memory::spill::check::{MIB, check_as, compare, register};
use crate::sort::check::Sorted;
use crate::support::answer::plan_of;
use crate::support::pool::greedy;
use crate::support::session::{session, set};
use crate::support::tuning::Tuning;

const SORTED: &str =
    "SELECT v, s, k FROM (SELECT k, v, s FROM t GROUP BY k, v, s) ORDER BY v DESC, s, k";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_merged() {
    let ctx = session();
    register(&ctx, "t", 30_000);
    for (memory, partitions) in [("1MB", 1), ("3MB", 2), ("1GB", 2)] {
        for sql in [
            SORTED.to_string(),
            format!("{SORTED} LIMIT 10"),
            format!("{SORTED} LIMIT 20000"),
            "SELECT t.s, t.v, few.v, t.k FROM t JOIN t AS few ON t.k = few.k ORDER BY t.s, t.v, few.v, t.k".into(),
            "SELECT t.v * 2 - t.k, t.s, t.v FROM t JOIN t AS few ON t.k = few.k ORDER BY t.v * 2 - t.k, t.s, t.v LIMIT 40000".into(),
        ] {
            let tuning = Tuning {
                device_memory: memory,
                partitions,
                ..Tuning::PLAIN
            };
            let sorted = Sorted {
                sql: &sql,
                keys: 3,
                limited: true,
                nodes: &["BowtieSortExec"],
            };
            sorted.check(&ctx, &tuning).await;
        }
    }
}

/// Runs, and chunks that wait, are spilled where the pool is small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_spill() {
    let joined =
        "SELECT t.v, t.s, u.v AS w, t.k FROM t JOIN t AS u ON t.k = u.k ORDER BY t.v, t.s, w, t.k";
    let on =
        |memory: &'static str| move |ctx: &SessionContext| set(ctx, "bowtie.device_memory", memory);
    check_as(joined, 60_000, greedy(12 * MIB), on("4MB")).await;
    let fair = Arc::new(FairSpillPool::new(16 * MIB));
    check_as(joined, 60_000, fair, on("4MB")).await;
    // They stay on the device.
    compare(joined, 60_000, greedy(12 * MIB), on("1GB")).await;
}

/// A stream that is dropped before its end releases its memory.
#[tokio::test]
async fn a_limit_above_ends_early() {
    let ctx = session();
    register(&ctx, "t", 20_000);
    set(&ctx, "bowtie.offload", "force");
    let sql = format!("SELECT v FROM ({SORTED}) LIMIT 3");
    for _ in 0..2 {
        let plan = plan_of(&ctx, &sql).await.unwrap();
        let batches = collect(plan, ctx.task_ctx()).await.unwrap();
        assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), 3);
    }
}
