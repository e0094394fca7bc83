//! A session whose small limit refuses its joins, beside one without a limit: the steps of the first keep none of the second waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_bowtie::{BowtieRuntime, BowtieSessionExt};

use crate::memory::spill::check::{register, rows};
use crate::memory::spill::staged::{QUERIES, ROWS};
use crate::support::answer::shown;
use crate::support::session::{cache, device, set};
use crate::support::tuning::Tuning;

/// Of both sessions together: far more than they need.
const MEMORY: u64 = 512 << 20;

/// Joins of the limited session at the same time.
const JOINS: usize = 16;

/// Queries of the other session, alone and then beside the joins.
const RUNS: usize = 100;

/// What a machine of few cores adds to a wait: the thread that is woken has no core at once.
const SCHEDULING: Duration = Duration::from_millis(10);

const SMALL_JOIN: &str =
    "SELECT count(*), sum(a.v), sum(b.v) FROM few a JOIN few b ON a.v = b.v AND a.k <= b.k";

fn limited(runtime: &Arc<BowtieRuntime>, device_memory: &str) -> SessionContext {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie_runtime(Arc::clone(runtime))
        .unwrap()
        .build();
    let ctx = SessionContext::new_with_state(state);
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.device", &device());
    set(&ctx, "bowtie.cache", &cache());
    set(&ctx, "datafusion.optimizer.join_reordering", "false");
    set(&ctx, "bowtie.device_memory", device_memory);
    set(&ctx, "bowtie.offload", "force");
    register(&ctx, "t", ROWS);
    register(&ctx, "few", 2_000);
    ctx
}

/// The sum of a metric of all nodes of a plan.
fn sum(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name));
    let below = plan.children().into_iter().map(|child| sum(child, name));
    own.map_or(0, |own| own.as_usize()) + below.sum::<usize>()
}

/// Latencies of queries, and for how long they waited for device memory.
struct Latencies {
    took: Vec<Duration>,
    waited: Vec<Duration>,
}

impl Latencies {
    /// Of the small join, again and again.
    async fn of_runs(ctx: &SessionContext, expected: &str) -> Self {
        let (mut took, mut waited) = (vec![], vec![]);
        for _ in 0..RUNS {
            let begun = Instant::now();
            let (found, plan) = rows(ctx, SMALL_JOIN).await.unwrap();
            took.push(begun.elapsed());
            assert_eq!(found, expected);
            let nanoseconds = sum(&plan, "memory_wait_time");
            waited.push(Duration::from_nanos(nanoseconds as u64));
        }
        took.sort();
        waited.sort();
        Self { took, waited }
    }

    /// The percentile of sorted times.
    fn percentile(sorted: &[Duration], percent: usize) -> Duration {
        sorted[(sorted.len() * percent).div_ceil(100) - 1]
    }

    fn shown(&self) -> String {
        let all = [&self.took, &self.waited].map(|sorted| {
            let [p50, p99] = [50, 99].map(|percent| Self::percentile(sorted, percent));
            format!("p50 {p50:?}, p99 {p99:?}")
        });
        format!("latency {}; of it waited for memory {}", all[0], all[1])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_with_a_small_limit_does_not_stop_another() {
    let runtime = BowtieRuntime::with_device_memory(MEMORY);
    let bystander = limited(&runtime, "auto");
    set(&bystander, "bowtie.offload", "off");
    let (expected, _) = rows(&bystander, SMALL_JOIN).await.unwrap();
    set(&bystander, "bowtie.offload", "force");
    let (_, plan) = rows(&bystander, SMALL_JOIN).await.unwrap();
    assert!(shown(&plan).contains("Bowtie"), "{}", shown(&plan));
    let alone = Latencies::of_runs(&bystander, &expected).await;

    let ends = Arc::new(AtomicBool::new(false));
    let small = limited(&runtime, "3MB");
    let joins: Vec<_> = (0..JOINS)
        .map(|n| {
            let (ctx, ends) = (small.clone(), Arc::clone(&ends));
            let sql = QUERIES[n % QUERIES.len()];
            tokio::spawn(async move {
                let (mut retries, mut waited) = (0, 0);
                while !ends.load(Ordering::Relaxed) {
                    let done = rows(&ctx, sql).await;
                    let (_, plan) = done.unwrap_or_else(|error| panic!("{sql}\n{error}"));
                    retries += sum(&plan, "retries");
                    waited += sum(&plan, "memory_wait_time");
                }
                (retries, waited)
            })
        })
        .collect();
    let beside = Latencies::of_runs(&bystander, &expected).await;
    ends.store(true, Ordering::Relaxed);
    let (mut retries, mut waited) = (0, 0);
    for join in joins {
        let of_join = join.await.unwrap();
        retries += of_join.0;
        waited += of_join.1;
    }

    let waited = Duration::from_nanos(waited as u64);
    println!("alone: {}", alone.shown());
    println!("beside {JOINS} joins under 3 MB: {}", beside.shown());
    println!("the joins: {retries} retries, waited {waited:?} together");
    assert!(retries > 0, "the small limit refused nothing");
    // Other work takes the cores as well, so the latencies themselves depend on how many there are. A latency of at most twice that alone
    // is left for what the sessions do to one another.
    let most = Latencies::percentile(&alone.took, 99) + SCHEDULING;
    let p99 = Latencies::percentile(&beside.waited, 99);
    assert!(p99 <= most, "{p99:?} and not {most:?}: {}", beside.shown());
}
