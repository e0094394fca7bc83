//! One query, with each of its calls failing in turn.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use datafusion_bowtie::Fault;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::memory::faults::check::Trial;
use crate::memory::faults::queries::Query;
use crate::support::session::device;

/// Whether each query has calls of this kind.
fn happens(fault: Fault) -> bool {
    match fault {
        Fault::Allocation | Fault::Load | Fault::Pin | Fault::Stream | Fault::Event => {
            device() != "host"
        }
        Fault::Copy => false,
        _ => true,
    }
}

/// Calls that succeed before those that fail, after `before` have: one by one at first, later fewer.
fn next(before: u64, times: u64) -> u64 {
    let (one_by_one, share) = match device().as_str() {
        "host" => (60, 3),
        _ => (3, 3),
    };
    match times {
        // Each may be retried for half a second.
        u64::MAX => 8 * before + 7,
        _ if before < one_by_one => before + 1,
        _ => before + before / share + 1,
    }
}

/// How many calls fail in succession. An allocation and a kernel are asked for twice.
fn times(fault: Fault) -> &'static [u64] {
    match fault {
        Fault::Allocation | Fault::Load => &[1, 2, u64::MAX],
        _ => &[1, u64::MAX],
    }
}

const LIMIT: Duration = Duration::from_secs(60);

/// On a GPU a refused allocation evicts stored columns of the whole card, those of other tests too.
static CARD: Mutex<()> = Mutex::new(());

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Nobody else's tests while a test uses the card.
fn alone() -> Option<MutexGuard<'static, ()>> {
    (device() != "host").then(|| CARD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs each query with each of its calls failing.
pub(crate) fn sweep(queries: &[Query]) {
    let _alone = alone();
    queries.iter().for_each(sweep_one);
}

/// Runs each query under `auto` with each of its calls failing: DataFusion's nodes give the rows.
pub(crate) fn sweep_by_auto(queries: &[Query]) {
    let _alone = alone();
    let runtime = runtime();
    for query in queries {
        let trial = runtime.block_on(Trial::new(query));
        let mut went_back = 0;
        for fault in Fault::ALL {
            for times in [1, u64::MAX] {
                let mut before = 0;
                loop {
                    let run =
                        async { timeout(LIMIT, trial.run_by_auto(fault, before, times)).await };
                    let tried = runtime.block_on(run).expect("a query hangs");
                    if tried.struck == 0 {
                        break;
                    }
                    went_back += u64::from(!tried.has_rows);
                    before = next(before, times);
                }
            }
        }
        // The pairs of clusters are a plan of their own, which was optimised before.
        let has_way_back = query.node != "BowtieClustersExec";
        assert_eq!(went_back > 0, has_way_back, "{query:?}");
        // Of a card that failed; the CPU backend is never left alone.
        if has_way_back && query.node == "BowtieJoinExec" && device() != "host" {
            let stayed = runtime.block_on(trial.runs_after_a_failure());
            assert_eq!(stayed, [false, true], "{query:?}");
        }
        println!("{went_back} went back: {}", query.sql);
    }
}

/// Runs a query with calls of a kind failing, `times` in succession, after every number of others.
pub(crate) fn each_call(query: &Query, fault: Fault, times: u64) {
    let _alone = alone();
    let runtime = runtime();
    let trial = runtime.block_on(Trial::new(query));
    let mut before = 0;
    loop {
        let run = async { timeout(LIMIT, trial.run(fault, before, times)).await };
        let tried = runtime.block_on(run).expect("a query hangs");
        if tried.struck == 0 {
            break;
        }
        before += 1;
    }
    assert_eq!(before > 0, happens(fault), "{query:?}");
}

fn sweep_one(query: &Query) {
    let runtime = runtime();
    let trial = runtime.block_on(Trial::new(query));
    for fault in Fault::ALL {
        for &times in times(fault) {
            let mut before = 0;
            let (mut tries, mut rows) = (0, 0);
            loop {
                let run = async { timeout(LIMIT, trial.run(fault, before, times)).await };
                let tried = runtime.block_on(run);
                let Ok(tried) = tried else {
                    // Threads that hang are left alone, or nobody would read this.
                    runtime.shutdown_background();
                    panic!("{query:?} hangs: {fault:?} {before} {times}");
                };
                if tried.struck == 0 {
                    break;
                }
                tries += 1;
                rows += u64::from(tried.has_rows);
                before = next(before, times);
            }
            assert!(tries > 0 || !happens(fault), "no {fault:?}: {query:?}");
            let is_retried = matches!(fault, Fault::Reservation | Fault::Load | Fault::Pin);
            if is_retried && times == 1 {
                assert_eq!(rows, tries, "not retried: {fault:?}, {query:?}");
            }
            println!(
                "{fault:?} x {times}: {before} calls, {tries} tries, {rows} with rows: {}",
                query.sql
            );
        }
    }
}
