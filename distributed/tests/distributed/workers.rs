//! datafusion-distributed: a coordinator and three workers.

use std::time::{Duration, Instant};

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionContext, col};
use datafusion_bowtie::{BowtieContextExt, BowtieOptions, BowtieSessionExt};
use datafusion_bowtie_distributed::workers::coordinator;
use futures::StreamExt;
use url::Url;

use crate::cluster::{Workers, device};
use crate::queries::{JOINS, ORDERED, SLOW, TPCH};
use crate::rows::{analyzed, assert_same, ordered_rows, rows, set};
use crate::{data, rows as answers};

/// A coordinator for small files.
async fn session(workers: Vec<Url>) -> SessionContext {
    let state = SessionStateBuilder::new().with_default_features();
    let state = coordinator(state, workers, BowtieOptions::default()).unwrap();
    let context = SessionContext::new_with_state(state.build());
    let settings = [
        // The bytes of files that are a task's: few, so that all workers have one.
        ("distributed.file_scan_config_bytes_per_partition", "1"),
        ("bowtie.offload", "force"),
    ];
    set(&context, &settings).await;
    context
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_give_the_rows_of_a_single_node() {
    let folder = data::write();
    // One of them has no GPU, whatever the others have.
    let workers = Workers::start(&[&[], &[("BOWTIE_DEVICE", "host")], &[]]);
    let context = session(workers.urls.clone()).await;
    data::register(&context, folder.path()).await.unwrap();
    let single = single_node();
    data::register(&single, folder.path()).await.unwrap();
    // EXPLAIN ANALYZE of the engine may wait for ever where a stage ends early; metrics are looked at in `options_reach_the_workers`.
    for sql in TPCH.iter().chain(&JOINS) {
        let expected = rows(&single, sql).await.unwrap();
        let given = rows(&context, sql).await;
        let given = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_same(sql, &expected, &given);
    }
    ordered(&context, &single).await;
    joins_by_ranges(&context, &single).await;
    // Both sides of equi-joins are exchanged.
    let short = "datafusion.optimizer.hash_join_single_partition_threshold";
    set(&context, &[(short, "0"), (&format!("{short}_rows"), "0")]).await;
    for sql in TPCH.iter().chain(&JOINS) {
        let expected = rows(&single, sql).await.unwrap();
        let given = rows(&context, sql).await;
        let given = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_same(sql, &expected, &given);
    }
}

/// Whatever number of groups DataFusion makes of the files, all tasks have as many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_dealt_out_to_tasks() {
    let folder = data::write();
    let pieces = folder.path().join("pieces");
    std::fs::create_dir(&pieces).unwrap();
    let single = single_node();
    data::register(&single, folder.path()).await.unwrap();
    for piece in 0..16 {
        let of_points = format!("SELECT id FROM points WHERE id / 375 = {piece} ORDER BY id");
        let path = pieces.join(format!("{piece:02}.parquet"));
        let copy = format!(
            "COPY ({of_points}) TO '{}' STORED AS PARQUET",
            path.display()
        );
        rows(&single, &copy).await.unwrap();
    }
    for count in [2, 3] {
        let workers = Workers::start(&vec![&[][..]; count]);
        for partitions in 1..10 {
            let context = session(workers.urls.clone()).await;
            let partitions = partitions.to_string();
            set(
                &context,
                &[("datafusion.execution.target_partitions", &partitions)],
            )
            .await;
            // Groups of files in an order are not divided.
            let order = vec![vec![col("id").sort(true, false)]];
            let options = ParquetReadOptions::default().file_sort_order(order);
            let path = format!("{}/", pieces.display());
            context
                .register_parquet("pieces", &path, options)
                .await
                .unwrap();
            let given = rows(&context, "SELECT count(*), sum(id) FROM pieces").await;
            assert_eq!(given.unwrap(), ["6000|17997000"], "{partitions} partitions");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_may_not_be_divided() {
    let folder = data::write();
    let workers = Workers::start(&[&[], &[]]);
    let context = session(workers.urls.clone()).await;
    data::register(&context, folder.path()).await.unwrap();
    data::register_lines(&context, folder.path()).await.unwrap();
    data::register_compressed(&context, folder.path())
        .await
        .unwrap();
    for table in ["lines", "packed"] {
        let sql = format!("SELECT count(*), sum(id) FROM {table}");
        let given = rows(&context, &sql).await.unwrap();
        assert_eq!(given, ["3000|4498500"], "{table}");
        let sql = format!(
            "SELECT {table}.id % 3 AS g, count(*), sum(points.id) FROM {table} JOIN points ON {table}.id = points.id GROUP BY g"
        );
        let given = rows(&context, &sql).await.unwrap();
        assert_eq!(
            given,
            ["0|1000|1498500", "1|1000|1499500", "2|1000|1500500"]
        );
    }
    // Its rows would be exchanged.
    let short = "datafusion.optimizer.hash_join_single_partition_threshold";
    set(&context, &[(short, "0"), (&format!("{short}_rows"), "0")]).await;
    let sql = "SELECT count(*) FROM packed JOIN points ON packed.id = points.id";
    let error = rows(&context, sql).await.unwrap_err().to_string();
    assert!(error.contains("compressed CSV"), "{error}");
}

/// Queries whose rows come in an order.
pub(crate) async fn ordered(context: &SessionContext, single: &SessionContext) {
    for sql in ORDERED {
        let expected = ordered_rows(single, sql).await.unwrap();
        let given = tokio::time::timeout(Duration::from_secs(60), ordered_rows(context, sql)).await;
        let given = given.unwrap_or_else(|_| panic!("{sql}\nhangs"));
        let given = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_same(sql, &expected, &given);
    }
}

/// Joins that are exchanged by ranges, as far as their conditions allow it.
pub(crate) async fn joins_by_ranges(context: &SessionContext, single: &SessionContext) {
    set(context, &[("bowtie.broadcast_rows", "0")]).await;
    let plan = analyzed(context, BAND).await.unwrap();
    assert!(plan.contains("bowtie_range"), "{plan}");
    for sql in JOINS {
        let expected = rows(single, sql).await.unwrap();
        let given = tokio::time::timeout(Duration::from_secs(60), rows(context, sql)).await;
        let given = given.unwrap_or_else(|_| panic!("{sql}\nhangs"));
        let given = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_same(sql, &expected, &given);
    }
}

/// DataFusion alone, with bowtie's functions.
pub(crate) fn single_node() -> SessionContext {
    let state = SessionStateBuilder::new().with_default_features();
    SessionContext::new_with_state(state.with_bowtie_coordinator().unwrap().build())
}

/// A band join of all points.
pub(crate) const BAND: &str =
    "SELECT count(*), sum(a.w) FROM points a JOIN points b ON abs(a.at - b.at) <= 3";

/// The metric that counts partitions on the workers' device.
pub(crate) fn on_device() -> String {
    match device().split_once(':') {
        Some((kind, number)) => format!("on_{kind}_{number}="),
        None if device() == "cuda" => "on_cuda_0=".into(),
        None => format!("on_{}=", device()),
    }
}

/// Checks that nodes of bowtie execute something of a query. Not of one with a limit: where a limit ends a stage early, its workers may not tell
/// their metrics, and EXPLAIN ANALYZE of datafusion-distributed waits for them for ever.
pub(crate) async fn assert_offloaded(context: &SessionContext, sql: &str) {
    let words = sql.to_uppercase();
    if words.contains("LIMIT") || words.contains("OFFSET") {
        return;
    }
    let plan = analyzed(context, sql).await.unwrap();
    assert!(is_offloaded(&plan), "{sql}\n{plan}");
}

/// Whether nodes of bowtie executed something of a plan with metrics, on the tests' device or on the worker that has no GPU: a task is anyone's.
/// Ballista's metrics have the executor in their names.
fn is_offloaded(plan: &str) -> bool {
    let device = on_device();
    let device = device.trim_start_matches("on_");
    let metrics = plan.split([' ', ',', '[', ']']);
    let mut metrics = metrics.filter(|metric| metric.starts_with("on_"));
    metrics.any(|metric| {
        let (name, count) = metric.split_once('=').unwrap_or_default();
        let is_ours = name.ends_with(device.trim_end_matches('=')) || name.ends_with("host");
        is_ours && count.parse::<u64>().is_ok_and(|count| count > 0)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_reach_the_workers_and_metrics_come_back() {
    let folder = data::write();
    let workers = Workers::start(&[&[], &[], &[]]);
    let context = session(workers.urls.clone()).await;
    data::register(&context, folder.path()).await.unwrap();
    // Each worker has a third of the probe side.
    let plan = analyzed(&context, BAND).await.unwrap();
    assert!(plan.contains(&on_device()), "{plan}");
    let joins = plan
        .split("Stage ")
        .filter(|stage| stage.contains("NestedLoopJoinExec"));
    assert_eq!(
        joins.filter(|stage| stage.contains("tasks=3")).count(),
        1,
        "{plan}"
    );
    let expected = rows(&context, BAND).await.unwrap();
    set(&context, &[("bowtie.offload", "off")]).await;
    let plan = analyzed(&context, BAND).await.unwrap();
    assert!(!plan.contains(&on_device()), "{plan}");
    assert_same(BAND, &expected, &rows(&context, BAND).await.unwrap());
    set(&context, &[("bowtie.offload", "force")]).await;

    // What the devices of this machine would do.
    let report = format!("SELECT * FROM bowtie_explain('{BAND}')");
    let report = format!("{:?}", rows(&context, &report).await.unwrap());
    assert!(report.contains("BowtieJoinAggregateExec"), "{report}");

    // One task, which the coordinator's own process has.
    let full = "SELECT count(*), sum(b.w) FROM (SELECT p.at FROM points p JOIN spans s ON p.id = s.id AND p.at < s.start) a FULL JOIN points b ON abs(a.at - b.at) <= 3";
    let plan = analyzed(&context, full).await.unwrap();
    let (head, _) = plan.split_once("Stage ").expect(&plan);
    assert!(
        head.contains("join_type=Full") && head.contains("on_"),
        "{plan}"
    );

    set(&context, &[("bowtie.device", "cuda:99")]).await;
    let error = rows(&context, BAND).await.unwrap_err().to_string();
    assert!(
        error.contains("cuda:99") && error.contains("worker http://"),
        "{error}"
    );
    // The workers' own devices count again.
    let state = context.state();
    let reset = state.create_logical_plan("RESET bowtie.device").await;
    let done = context.execute_bowtie_reset(&reset.unwrap()).unwrap();
    assert!(done.is_some());
    assert_same(BAND, &expected, &rows(&context, BAND).await.unwrap());
    set(&context, &[("bowtie.strict", "true")]).await;
    let unsupported = "SELECT k, array_agg(w) FROM points GROUP BY k";
    let error = rows(&context, unsupported).await.unwrap_err().to_string();
    assert!(
        error.contains("bowtie.strict") && error.contains("array_agg"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_differ() {
    let folder = data::write();
    // One with a device that is nearly full, and one without a device that it may use.
    let little = [("BOWTIE_DEVICE_MEMORY", "2MB")];
    let workers = Workers::start(&[&[], &little, &[("BOWTIE_OFFLOAD", "off")]]);
    let context = session(workers.urls.clone()).await;
    // A worker's own counts where the session has the default.
    set(&context, &[("bowtie.offload", "auto")]).await;
    data::register(&context, folder.path()).await.unwrap();
    let single = single_node();
    data::register(&single, folder.path()).await.unwrap();
    for sql in JOINS.iter().chain(&[BAND]) {
        let expected = rows(&single, sql).await.unwrap();
        let given = rows(&context, sql).await;
        let given = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_same(sql, &expected, &given);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_ends_its_queries() {
    let folder = data::write();
    let mut workers = Workers::start(&[&[], &[], &[]]);
    let context = session(workers.urls.clone()).await;
    data::register(&context, folder.path()).await.unwrap();
    let query = {
        let context = context.clone();
        tokio::spawn(async move { answers::rows(&context, SLOW).await })
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!query.is_finished());
    let begun = Instant::now();
    workers.processes[1].kill();
    let ended = tokio::time::timeout(Duration::from_secs(40), query).await;
    let error = ended.expect("it ends").unwrap().unwrap_err().to_string();
    assert!(
        error.contains(workers.urls[1].as_str().trim_end_matches('/')),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(30));
    // The others serve on.
    let rest = vec![workers.urls[0].clone(), workers.urls[2].clone()];
    let context = session(rest).await;
    data::register(&context, folder.path()).await.unwrap();
    assert_eq!(
        rows(&context, "SELECT count(*) FROM spans").await.unwrap(),
        ["5000"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_dropped_ends_on_the_workers() {
    let folder = data::write();
    let workers = Workers::start(&[&[], &[]]);
    let context = session(workers.urls.clone()).await;
    data::register(&context, folder.path()).await.unwrap();
    let mut stream = context
        .sql(SLOW)
        .await
        .unwrap()
        .execute_stream()
        .await
        .unwrap();
    let polled = tokio::time::timeout(Duration::from_secs(2), stream.next()).await;
    assert!(polled.is_err(), "it is slow");
    drop(stream);
    for process in &workers.processes {
        idle(process).await;
    }
    assert_eq!(
        rows(&context, "SELECT count(*) FROM spans").await.unwrap(),
        ["5000"]
    );
}

/// Waits until a process computes nothing.
pub(crate) async fn idle(process: &crate::cluster::Process) {
    let begun = Instant::now();
    loop {
        let before = process.ticks();
        tokio::time::sleep(Duration::from_millis(500)).await;
        if process.ticks() - before <= 5 {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it computes on");
    }
}
