//! Ballista: a scheduler and three executors.

use std::time::Duration;

use datafusion::prelude::{ParquetReadOptions, SessionContext, col};
use datafusion_bowtie::BowtieOptions;
use datafusion_bowtie_distributed::client::connect;
use futures::StreamExt;

use crate::cluster::Executors;
use crate::data;
use crate::queries::{JOINS, SLOW, TPCH};
use crate::rows::{analyzed, assert_same, ordered_rows, rows, set};
use crate::workers::{
    BAND, assert_offloaded, idle, joins_by_ranges, on_device, ordered, single_node,
};

/// A client for small files.
async fn session(executors: &Executors) -> SessionContext {
    let context = connect(&executors.url, BowtieOptions::default()).await;
    let context = context.unwrap();
    let settings = [
        ("datafusion.execution.target_partitions", "6"),
        ("datafusion.optimizer.repartition_file_min_size", "0"),
        // Of fewer rows than a batch a file is not divided.
        ("datafusion.execution.batch_size", "500"),
        ("ballista.scheduler.max_partitions_per_task", "2"),
        ("bowtie.offload", "force"),
    ];
    set(&context, &settings).await;
    context
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_give_the_rows_of_a_single_node() {
    let folder = data::write();
    // One of them has no GPU, whatever the others have.
    let executors = Executors::start(folder.path(), &[&[], &[("BOWTIE_DEVICE", "host")], &[]]);
    let context = session(&executors).await;
    data::register(&context, folder.path()).await.unwrap();
    let single = single_node();
    data::register(&single, folder.path()).await.unwrap();
    for sql in TPCH.iter().chain(&JOINS) {
        let expected = rows(&single, sql).await.unwrap();
        let given = tokio::time::timeout(Duration::from_secs(60), rows(&context, sql)).await;
        let given = given.unwrap_or_else(|_| panic!("{sql}\nhangs"));
        let given = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_same(sql, &expected, &given);
        assert_offloaded(&context, sql).await;
    }
    ordered(&context, &single).await;
    // With Ballista's own settings: small files are not divided.
    let default = connect(&executors.url, BowtieOptions::default())
        .await
        .unwrap();
    data::register(&default, folder.path()).await.unwrap();
    ordered(&default, &single).await;
    set(
        &context,
        &[("datafusion.optimizer.prefer_hash_join", "false")],
    )
    .await;
    ordered(&context, &single).await;
    joins_by_ranges(&context, &single).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_reach_the_executors_and_metrics_come_back() {
    let folder = data::write();
    let executors = Executors::start(
        folder.path(),
        &[&[], &[], &[("BOWTIE_DEVICE_MEMORY", "2MB")]],
    );
    let context = session(&executors).await;
    data::register(&context, folder.path()).await.unwrap();
    let plan = analyzed(&context, BAND).await.unwrap();
    let of_executors = executors.ports.iter().map(|port| {
        let device = on_device();
        format!(":{port}_{}", device.trim_start_matches("on_"))
    });
    let found = of_executors.filter(|metric| plan.contains(metric)).count();
    assert!(found >= 2, "{plan}");
    let expected = rows(&context, BAND).await.unwrap();
    set(&context, &[("bowtie.offload", "off")]).await;
    let plan = analyzed(&context, BAND).await.unwrap();
    assert!(
        !plan.contains(on_device().trim_start_matches("on_")),
        "{plan}"
    );
    assert_same(BAND, &expected, &rows(&context, BAND).await.unwrap());
    set(
        &context,
        &[("bowtie.offload", "force"), ("bowtie.device", "cuda:99")],
    )
    .await;
    let error = rows(&context, BAND).await.unwrap_err().to_string();
    assert!(error.contains("cuda:99"), "{error}");
    let far = "SELECT id FROM spans ORDER BY id OFFSET 4294967296";
    let error = rows(&context, far).await.unwrap_err().to_string();
    assert!(error.contains("OFFSET 4294967296"), "{error}");
    // Of tables that only this process has.
    let devices = rows(&context, "SELECT device FROM bowtie_devices() LIMIT 1").await;
    assert_eq!(devices.unwrap(), ["host"]);
}

/// Their joins give out rows in an order, until they are swapped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorted_files_and_files_that_may_not_be_divided() {
    let folder = data::write();
    let executors = Executors::start(folder.path(), &[&[], &[]]);
    let context = session(&executors).await;
    for table in ["points", "spans"] {
        let order = vec![vec![col("id").sort(true, false)]];
        let options = ParquetReadOptions::default().file_sort_order(order);
        let path = folder.path().join(format!("{table}.parquet"));
        let path = path.to_str().unwrap();
        context
            .register_parquet(table, path, options)
            .await
            .unwrap();
    }
    let whole = ("datafusion.optimizer.repartition_file_min_size", "10000000");
    set(&context, &[whole]).await;
    for (limit, first) in [("LIMIT 10", 0), ("LIMIT 10 OFFSET 30", 30)] {
        let of_points = "SELECT id * 7919 % 5000 AS k FROM points WHERE id % 7 <> 100";
        let sql = format!(
            "SELECT b.id FROM ({of_points}) a JOIN spans b ON a.k = b.id ORDER BY b.id {limit}"
        );
        let mut ids: Vec<usize> = (0..6000).map(|id| id * 7919 % 5000).collect();
        ids.sort();
        let expected: Vec<String> = ids[first..first + 10]
            .iter()
            .map(usize::to_string)
            .collect();
        let given = ordered_rows(&context, &sql).await.unwrap();
        assert_eq!(given, expected, "{sql}");
    }
    data::register_lines(&context, folder.path()).await.unwrap();
    let given = rows(&context, "SELECT count(*), sum(id) FROM lines").await;
    assert_eq!(given.unwrap(), ["3000|4498500"]);
    data::register_compressed(&context, folder.path())
        .await
        .unwrap();
    let error = rows(&context, "SELECT count(*), sum(id) FROM packed").await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("compressed CSV"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_is_killed_ends_its_jobs() {
    let folder = data::write();
    let mut executors = Executors::start(folder.path(), &[&[], &[], &[]]);
    let context = session(&executors).await;
    data::register(&context, folder.path()).await.unwrap();
    let expected = rows(&context, BAND).await.unwrap();
    let query = {
        let context = context.clone();
        tokio::spawn(async move { rows(&context, SLOW).await })
    };
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!query.is_finished());
    executors.processes[1].kill();
    // It is missed after six seconds without a sign of life.
    let ended = tokio::time::timeout(Duration::from_secs(40), query).await;
    let error = ended.expect("it ends").unwrap().unwrap_err().to_string();
    assert!(error.contains("ancelled"), "{error}");
    // The others serve on.
    assert_same(BAND, &expected, &rows(&context, BAND).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_dropped_ends_on_the_executors() {
    let folder = data::write();
    let executors = Executors::start(folder.path(), &[&[], &[]]);
    let context = session(&executors).await;
    data::register(&context, folder.path()).await.unwrap();
    assert_eq!(
        rows(&context, "SELECT count(*) FROM spans").await.unwrap(),
        ["5000"]
    );
    let frame = context.sql(SLOW).await.unwrap();
    let mut stream = frame.execute_stream().await.unwrap();
    let polled = tokio::time::timeout(Duration::from_secs(3), stream.next()).await;
    assert!(polled.is_err(), "it is slow");
    drop(stream);
    for process in &executors.processes {
        idle(process).await;
    }
    assert_eq!(
        rows(&context, "SELECT count(*) FROM spans").await.unwrap(),
        ["5000"]
    );
}
