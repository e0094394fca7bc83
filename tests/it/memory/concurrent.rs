//! Concurrent queries and sessions on one small device: they share its budget, and a step waits for memory that others hold.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_bowtie::{BowtieRuntime, BowtieSessionExt};

use crate::memory::spill::check::{register, rows};
use crate::memory::spill::staged::{QUERIES, ROWS};
use crate::support::answer::shown;
use crate::support::session::{device, session, set};
use crate::support::tuning::Tuning;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_on_one_device() {
    for device_memory in ["1MB", "2MB"] {
        let ctx = session();
        Tuning::PLAIN.apply(&ctx);
        set(&ctx, "datafusion.optimizer.join_reordering", "false");
        set(&ctx, "bowtie.device_memory", device_memory);
        register(&ctx, "t", ROWS);
        register(&ctx, "few", 2_000);
        set(&ctx, "bowtie.offload", "off");
        let mut expected = vec![];
        for sql in QUERIES {
            expected.push(rows(&ctx, sql).await.unwrap().0);
        }
        set(&ctx, "bowtie.offload", "force");
        let queries = QUERIES.map(|sql| {
            let ctx = ctx.clone();
            tokio::spawn(async move { rows(&ctx, sql).await })
        });
        for ((sql, expected), query) in QUERIES.iter().zip(expected).zip(queries) {
            let given = query.await.unwrap();
            let (given, plan) = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
            assert_eq!(expected, given, "{sql}");
            assert!(shown(&plan).contains("Bowtie"), "{sql}\n{}", shown(&plan));
        }
    }
}

const SESSIONS: usize = 16;

/// The root budget.
const MEMORY: u64 = 2 << 20;

/// Limits of sessions: below, at and above the root budget.
const SESSION_LIMITS: [&str; 4] = ["auto", "1MB", "2MB", "1GB"];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_sessions_on_one_device() {
    let runtime = BowtieRuntime::with_device_memory(MEMORY);
    let new = |n: usize| {
        let state = SessionStateBuilder::new()
            .with_default_features()
            .with_bowtie_runtime(Arc::clone(&runtime))
            .unwrap()
            .build();
        let ctx = SessionContext::new_with_state(state);
        set(&ctx, "bowtie.device", &device());
        Tuning::PLAIN.apply(&ctx);
        set(&ctx, "datafusion.optimizer.join_reordering", "false");
        set(&ctx, "bowtie.device_memory", SESSION_LIMITS[n % 4]);
        register(&ctx, "t", ROWS);
        register(&ctx, "few", 2_000);
        ctx
    };
    let alone = new(0);
    set(&alone, "bowtie.offload", "off");
    let mut expected = vec![];
    for sql in QUERIES {
        expected.push(rows(&alone, sql).await.unwrap().0);
    }
    assert!(runtime.device_memory().is_empty(), "nothing was offloaded");

    let sessions = (0..SESSIONS).map(|n| {
        let ctx = new(n);
        set(&ctx, "bowtie.offload", "force");
        tokio::spawn(async move {
            let mut found = vec![];
            // Each session starts with another query, and runs two.
            for at in [n, n + SESSIONS / 2].map(|at| at % QUERIES.len()) {
                found.push((at, rows(&ctx, QUERIES[at]).await));
            }
            found
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        for (at, found) in session.await.unwrap() {
            let sql = QUERIES[at];
            let (found, plan) = found.unwrap_or_else(|error| panic!("{sql}\n{error}"));
            assert_eq!(expected[at], found, "{sql}");
            assert!(shown(&plan).contains("Bowtie"), "{sql}\n{}", shown(&plan));
        }
    }

    // A task of a query that is done may hold memory a little longer. Columns of tables that are gone go when somebody looks.
    for _ in 0..500 {
        let stored = "SELECT count(*) FROM bowtie_cache()";
        rows(&alone, stored).await.unwrap();
        if runtime
            .device_memory()
            .iter()
            .all(|memory| memory.in_use == 0)
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let [memory] = &runtime.device_memory()[..] else {
        panic!("one device was used: {:?}", runtime.device_memory())
    };
    assert_eq!(memory.limit, MEMORY);
    assert!(memory.peak <= MEMORY, "{memory:?}");
    assert!(
        memory.peak > MEMORY / 2,
        "they were not in each other's way: {memory:?}"
    );
    assert_eq!(memory.in_use, 0, "{memory:?}");
}

/// Planning asks the driver for its devices, but opens none: no context, and no kernels.
#[tokio::test]
async fn planning_opens_no_device() {
    let runtime = BowtieRuntime::with_device_memory(MEMORY);
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie_runtime(Arc::clone(&runtime))
        .unwrap()
        .build();
    let ctx = SessionContext::new_with_state(state);
    set(&ctx, "bowtie.device", &device());
    register(&ctx, "t", ROWS);
    register(&ctx, "few", 2_000);
    for offload in ["auto", "force"] {
        set(&ctx, "bowtie.offload", offload);
        for sql in QUERIES {
            let plan = ctx.sql(sql).await.unwrap();
            plan.create_physical_plan().await.unwrap();
            let explained = format!(
                "SELECT * FROM bowtie_explain('{}')",
                sql.replace('\'', "''")
            );
            for sql in [format!("EXPLAIN {sql}"), explained] {
                rows(&ctx, &sql).await.unwrap();
            }
        }
    }
    assert!(runtime.device_memory().is_empty(), "no device was opened");
    let (_, plan) = rows(&ctx, QUERIES[0]).await.unwrap();
    let shown = shown(&plan);
    assert!(shown.contains("Bowtie"), "{shown}");
    assert_eq!(runtime.device_memory().len(), 1);
}
