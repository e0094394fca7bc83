//! Clusters of pairs that a join leaves on the device.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{clusters, expected};
use crate::support::answer::{analyzed, answer, declines, forced, plan_of, shown};
use crate::support::key_types::orderable_types;
use crate::support::pool::{greedy, released_within};
use crate::support::session::{device, session, session_in, session_without_files, set};
use crate::support::snapshot;
use crate::support::tables::{keyed_table, register, register_whole};
use crate::support::tuning::Tuning;

const NODE: &str = "BowtieClustersExec: device=";

/// The pairs of `pairs`, by a join that keeps each of them once.
const JOINED: &str = "SELECT p.k, p.l FROM pairs p JOIN ats ON p.at = ats.at";

fn of(query: &str) -> String {
    format!("SELECT * FROM bowtie_clusters('{query}')")
}

fn register_pairs(ctx: &SessionContext, k: ArrayRef, l: ArrayRef) {
    let at: ArrayRef = Arc::new(Int64Array::from_iter_values(0..k.len() as i64));
    let pairs = [("at", Arc::clone(&at)), ("k", k), ("l", l)];
    let pairs = RecordBatch::try_from_iter_with_nullable(
        pairs.map(|(name, column)| (name, column, name != "at")),
    );
    register(ctx, "pairs", &pairs.unwrap());
    register_whole(
        ctx,
        "ats",
        RecordBatch::try_from_iter([("at", at)]).unwrap(),
    );
}

/// Checks the clusters of pairs, made on the device.
async fn check(ctx: &SessionContext, k: &ArrayRef, l: &ArrayRef, tuning: &Tuning, what: &str) {
    register_pairs(ctx, Arc::clone(k), Arc::clone(l));
    tuning.apply(ctx);
    set(ctx, "bowtie.offload", "force");
    let plan = shown(&plan_of(ctx, &of(JOINED)).await.unwrap());
    assert!(plan.contains(NODE), "{what}\n{plan}");
    let (_, given) = clusters(ctx, &of(JOINED)).await;
    assert_eq!(given, expected(k, l), "{what}, {tuning:?}");
}

type Pairs = Vec<(i64, i64)>;

/// Paths, cycles, stars and random pairs of `n` > 0 nodes.
fn graphs(n: i64, seed: u64) -> Vec<(&'static str, Pairs)> {
    let rng = &mut StdRng::seed_from_u64(seed);
    let up = || (1..n).map(|i| (i - 1, i));
    let mut random = |pairs: i64| -> Pairs {
        let node = |rng: &mut StdRng| rng.random_range(0..n) - n / 2;
        (0..pairs).map(|_| (node(rng), node(rng))).collect()
    };
    vec![
        ("a path", up().collect()),
        (
            "a path backwards",
            up().map(|(a, b)| (b, a)).rev().collect(),
        ),
        ("a cycle", up().chain([(n - 1, 0)]).collect()),
        ("a star", (0..n).map(|i| (n / 2, i)).collect()),
        ("pairs of one id", (0..n).map(|i| (i, i)).collect()),
        ("few pairs", random(n / 3)),
        ("some pairs", random(n / 2 + 1)),
        ("many pairs", random(2 * n)),
    ]
}

fn columns(pairs: &Pairs) -> [ArrayRef; 2] {
    let side = |of: fn(&(i64, i64)) -> i64| {
        Arc::new(Int64Array::from_iter_values(pairs.iter().map(of))) as ArrayRef
    };
    [side(|pair| pair.0), side(|pair| pair.1)]
}

/// The same ids as text, whose order is another one, some of them NULL.
fn texts(columns: &[ArrayRef; 2], nulls: usize) -> [ArrayRef; 2] {
    let mut at = 0;
    columns.each_ref().map(|column| {
        let numbers = column.as_any().downcast_ref::<Int64Array>().unwrap();
        let texts = numbers.iter().map(|number| {
            at += 1;
            let is_null = nulls > 0 && at % nulls == 0;
            number.filter(|_| !is_null).map(|n| format!("id {n}"))
        });
        Arc::new(texts.collect::<StringArray>()) as ArrayRef
    })
}

#[tokio::test]
async fn graphs_of_few_ids() {
    let ctx = session();
    for (n, seed) in [(1, 1), (2, 2), (9, 3), (70, 4)] {
        for (which, (graph, pairs)) in graphs(n, seed).into_iter().enumerate() {
            let numbers = columns(&pairs);
            let tuning = Tuning::nth(7 * which + n as usize);
            let what = format!("{graph} of {n} ids");
            check(&ctx, &numbers[0], &numbers[1], &tuning, &what).await;
            let texts = texts(&numbers, [0, 5][which % 2]);
            check(&ctx, &texts[0], &texts[1], &tuning, &what).await;
        }
    }
}

#[tokio::test]
async fn graphs_of_many_ids() {
    let ctx = session();
    for (which, (graph, pairs)) in graphs(5_000, 5).into_iter().enumerate() {
        let numbers = columns(&pairs);
        let several = Tuning {
            chunk_rows: ["512", "auto"][which % 2],
            device_memory: ["auto", "1MB", "8MB"][which % 3],
            ..Tuning::PLAIN
        };
        check(&ctx, &numbers[0], &numbers[1], &several, graph).await;
        let texts = texts(&numbers, 11);
        check(&ctx, &texts[0], &texts[1], &several, graph).await;
    }
}

#[tokio::test]
async fn no_pairs() {
    let ctx = session();
    let nulls: ArrayRef = Arc::new(Int64Array::new_null(40));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40));
    for [k, l] in [
        [&nulls, &nulls],
        [&nulls, &ids],
        [&ids.slice(0, 0), &ids.slice(0, 0)],
    ] {
        for tuning in [Tuning::PLAIN, Tuning::nth(1)] {
            check(&ctx, k, l, &tuning, "NULLs").await;
        }
    }
}

/// Floats and intervals are clustered on the host.
#[tokio::test]
async fn every_type() {
    let ctx = session();
    for (seed, data_type) in orderable_types().into_iter().enumerate() {
        let on_host = data_type.is_floating() || matches!(data_type, DataType::Interval(_));
        if matches!(data_type, DataType::Dictionary(..)) {
            continue;
        }
        for (rows, nulls) in [(3, 0.0), (4, 0.3), (40, 0.1)] {
            let pairs = keyed_table(&data_type, rows, nulls, seed as u64);
            let [k, l] = ["k", "l"].map(|name| pairs.column_by_name(name).unwrap());
            if !on_host {
                check(&ctx, k, l, &Tuning::nth(seed), &format!("{data_type}")).await;
                continue;
            }
            register_pairs(&ctx, Arc::clone(k), Arc::clone(l));
            set(&ctx, "bowtie.offload", "force");
            let plan = shown(&plan_of(&ctx, &of(JOINED)).await.unwrap());
            assert!(!plan.contains(NODE), "{plan}");
            let (_, given) = clusters(&ctx, &of(JOINED)).await;
            assert_eq!(given, expected(k, l), "{data_type}");
        }
    }
}

/// Clusters 1, 2, 3; 5, 6; 8; 9.
fn few(ctx: &SessionContext) {
    let k = [Some(2), Some(1), Some(6), Some(8), None, None, Some(5)];
    let l = [Some(3), Some(2), Some(5), Some(8), Some(9), None, Some(6)];
    let [k, l] = [k, l].map(|ids| Arc::new(Int64Array::from_iter(ids)) as ArrayRef);
    register_pairs(ctx, k, l);
    set(ctx, "bowtie.offload", "force");
}

#[tokio::test]
async fn parts_of_the_answer() {
    let ctx = session();
    few(&ctx);
    let clusters = format!("bowtie_clusters('{JOINED}')");
    for (sql, expected) in [
        (
            format!("SELECT * FROM {clusters}"),
            "1 1\n2 1\n3 1\n5 5\n6 5\n8 8\n9 9",
        ),
        (
            format!("SELECT cluster FROM {clusters}"),
            "1\n1\n1\n5\n5\n8\n9",
        ),
        (format!("SELECT id FROM {clusters}"), "1\n2\n3\n5\n6\n8\n9"),
        (format!("SELECT count(*) FROM {clusters}"), "7"),
        (
            format!("SELECT cluster, id FROM {clusters} WHERE id <> cluster"),
            "1 2\n1 3\n5 6",
        ),
        (
            format!("SELECT cluster, count(*) FROM {clusters} GROUP BY cluster"),
            "1 3\n5 2\n8 1\n9 1",
        ),
        (
            format!("SELECT * FROM {clusters} ORDER BY id DESC LIMIT 2 OFFSET 1"),
            "6 5\n8 8",
        ),
        (
            format!("SELECT p.k, c.cluster FROM pairs p JOIN {clusters} c ON p.k = c.id"),
            "1 1\n2 1\n5 5\n6 5\n8 8",
        ),
        // The clusters of clusters are the same.
        (
            format!("SELECT * FROM bowtie_clusters('SELECT * FROM bowtie_clusters($${JOINED}$$)')"),
            "1 1\n2 1\n3 1\n5 5\n6 5\n8 8\n9 9",
        ),
    ] {
        let plan = shown(&plan_of(&ctx, &sql).await.unwrap());
        assert!(plan.contains(NODE), "{sql}\n{plan}");
        assert!(!plan.contains(" ClustersExec"), "{sql}\n{plan}");
        assert_eq!(snapshot::answer(&ctx, &sql).await, expected, "{sql}");
    }
    for (limit, rows) in [(0, 0), (1, 1), (5, 5), (7, 7), (100, 7)] {
        let sql = format!("SELECT * FROM {clusters} LIMIT {limit}");
        let answer = answer(&ctx, &sql).await.unwrap();
        let found: usize = answer.batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(found, rows, "{sql}");
    }
}

#[tokio::test]
async fn plans_and_metrics() {
    let ctx = session();
    few(&ctx);
    let limited = format!("{} LIMIT 3", of(JOINED));
    let plan = shown(&plan_of(&ctx, &limited).await.unwrap());
    let node = format!("{NODE}{}, ids=Int64, fetch=3", shown_device());
    assert!(plan.contains(&node), "{plan}");
    let plan = analyzed(&ctx, &of(JOINED)).await;
    let node = plan.lines().find(|line| line.contains(NODE));
    let node = node.unwrap_or_else(|| panic!("{plan}"));
    for metric in ["output_rows=7", "input_pairs=7", "clusters=4", "chunks=1"] {
        assert!(node.contains(metric), "no {metric}: {node}");
    }
    assert!(!node.contains("host_pairs"), "{node}");
    let explained = format!(
        "SELECT runs_on, decision, reason FROM bowtie_explain($${}$$) WHERE node = 'BowtieClustersExec'",
        of(JOINED)
    );
    let reasons = snapshot::answer(&ctx, &explained).await;
    let reason =
        "offloaded its pairs stay on the device, and only ids with their clusters are downloaded";
    assert_eq!(reasons, format!("{} {reason}", shown_device()));
}

/// What computes ids of the join's rows is on the device as well, though the query alone would divide it into partitions.
#[tokio::test]
async fn computed_ids() {
    let ctx = session();
    few(&ctx);
    for partitions in ["1", "4"] {
        set(&ctx, "datafusion.execution.target_partitions", partitions);
        for ids in [
            "p.k * 10 AS k, p.l * 10 AS l",
            "CAST(p.k * 10 AS INT) AS k, CAST(p.l * 10 AS INT) AS l",
        ] {
            let sql = of(&JOINED.replace("p.k, p.l", ids));
            let plan = shown(&plan_of(&ctx, &sql).await.unwrap());
            assert!(plan.contains(NODE), "{plan}");
            let rows = "10 10\n20 10\n30 10\n50 50\n60 50\n80 80\n90 90";
            assert_eq!(snapshot::answer(&ctx, &sql).await, rows, "{sql}");
        }
    }
}

/// The device as plans name it.
fn shown_device() -> String {
    match device().as_str() {
        "cuda" => "cuda:0".into(),
        other => other.into(),
    }
}

#[tokio::test]
async fn why_on_the_host() {
    let ctx = session();
    few(&ctx);
    let reasons = |query: &str| {
        let reasons = format!(
            "SELECT reason FROM bowtie_explain($${}$$) WHERE node = 'ClustersExec'",
            of(query)
        );
        let ctx = ctx.clone();
        async move { snapshot::answer(&ctx, &reasons).await }
    };
    let table = "SELECT k, l FROM pairs";
    let stays = "clusters are made on a device only of pairs that are there";
    assert_eq!(reasons(table).await, stays);
    set(&ctx, "bowtie.offload", "off");
    assert_eq!(reasons(JOINED).await, "bowtie.offload is 'off'");
    set(&ctx, "bowtie.offload", "auto");
    set(&ctx, "bowtie.device", "host");
    let [k, l] = path(1_000);
    register_pairs(&ctx, k, l);
    let above_range =
        "SELECT a.at AS k, b.at AS l FROM pairs a JOIN ats b ON a.at BETWEEN b.at - 1 AND b.at";
    let reason = reasons(above_range).await;
    assert!(
        reason.starts_with("the CPU backend would keep all pairs"),
        "{reason}"
    );
    set(&ctx, "bowtie.device", &device());
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values([1.0, 2.0, 0.0]));
    register_pairs(&ctx, Arc::clone(&floats), floats);
    declines(
        &ctx,
        &of(JOINED).replace('\'', "$$"),
        "BowtieClustersExec",
        "ids of type Float64 are clustered on the host alone",
    )
    .await;
    set(&ctx, "bowtie.offload", "force");
    set(&ctx, "bowtie.strict", "true");
    let message = snapshot::refusal(&ctx, &of(JOINED)).await;
    let refused = "bowtie.strict = true, and ClustersExec cannot be offloaded: ids of type Float64 are clustered on the host alone";
    assert!(message.contains(refused), "{message}");
}

fn path(n: i64) -> [ArrayRef; 2] {
    columns(&(1..=n).map(|i| (i - 1, i)).collect())
}

/// Pairs that do not fit on the device are clustered on the host, and those behind them.
#[tokio::test]
async fn pairs_beyond_the_device() {
    let ctx = session();
    let [k, l] = path(20_000);
    for (which, chunk_rows) in ["auto", "4096"].into_iter().enumerate() {
        let tuning = Tuning {
            device_memory: "1MB",
            chunk_rows,
            ..Tuning::PLAIN
        };
        let ids = [[k.clone(), l.clone()], texts(&[k.clone(), l.clone()], 0)];
        let [k, l] = &ids[which];
        check(&ctx, k, l, &tuning, "a long path").await;
        let plan = analyzed(&ctx, &of(JOINED)).await;
        let node = plan.lines().find(|line| line.contains(NODE)).unwrap();
        assert!(node.contains("host_pairs=20.00 K"), "{node}");
        assert!(node.contains("clusters=1"), "{node}");
    }
}

/// Without files the host's memory pool must have room for what is clustered there.
#[tokio::test]
async fn a_small_pool_refuses() {
    let pool: Arc<dyn MemoryPool> = greedy(3 << 20);
    let ctx = session_without_files(Arc::clone(&pool));
    let [k, l] = path(60_000);
    register_pairs(&ctx, k, l);
    let small = Tuning {
        device_memory: "1MB",
        ..Tuning::PLAIN
    };
    match forced(&ctx, &of(JOINED), &small).await {
        Ok(answer) => {
            let rows: usize = answer.batches.iter().map(|batch| batch.num_rows()).sum();
            assert_eq!(rows, 60_001);
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("Resources exhausted"), "{error}");
        }
    }
    released_within(Duration::from_secs(20), &pool, "a small pool").await;
}

/// Pairs that went to files, and do not fit into the pool together at the end, are clustered on the host.
#[tokio::test]
async fn spilled_pairs_of_few_ids() {
    const PAIRS: i64 = 400_000;
    let id = |at: i64, by: i64| at * by % 700 / 2 * 2;
    let pairs: Pairs = (0..PAIRS).map(|at| (id(at, 3), id(at, 11))).collect();
    let [k, l] = columns(&pairs);
    for pool_bytes in [12 << 20, 32 << 20] {
        for device_memory in ["4MB", "20MB"] {
            let pool: Arc<dyn MemoryPool> = greedy(pool_bytes);
            let ctx = session_in(Arc::clone(&pool));
            let tuning = Tuning {
                device_memory,
                chunk_rows: "20000",
                ..Tuning::PLAIN
            };
            check(&ctx, &k, &l, &tuning, "spilled").await;
            released_within(Duration::from_secs(20), &pool, device_memory).await;
        }
    }
}

/// A stream that is dropped between two pieces releases its memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stream_releases_its_memory() {
    let pool: Arc<dyn MemoryPool> = greedy(256 << 20);
    let ctx = session_in(Arc::clone(&pool));
    let [k, l] = path(30_000);
    register_pairs(&ctx, k, l);
    for device_memory in ["auto", "1MB"] {
        Tuning {
            device_memory,
            ..Tuning::PLAIN
        }
        .apply(&ctx);
        set(&ctx, "bowtie.offload", "force");
        let plan = plan_of(&ctx, &of(JOINED)).await.unwrap();
        let mut stream = execute_stream(plan, ctx.task_ctx()).unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        drop(stream);
        released_within(Duration::from_secs(20), &pool, device_memory).await;
    }
}
