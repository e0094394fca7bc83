//! Ballista: a scheduler and three executors.

use std::time::Duration;

use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieOptions;
use datafusion_bowtie_distributed::client::connect;
use futures::StreamExt;

use crate::cluster::Executors;
use crate::data;
use crate::queries::{JOINS, SLOW, TPCH};
use crate::rows::{assert_same, rows, set};
use crate::workers::{idle, single_node};

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
    let executors = Executors::start(folder.path(), &[&[], &[], &[]]);
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
    }
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
