//! Ballista: a scheduler and three executors.

use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieOptions;
use datafusion_bowtie_distributed::executors::client;

use crate::cluster::Executors;
use crate::data;
use crate::queries::{JOINS, TPCH};
use crate::rows::{assert_same, rows, set};

/// A client for small files, once the executors are there.
async fn session(executors: &Executors) -> SessionContext {
    let context = client(&executors.url, BowtieOptions::default())
        .await
        .unwrap();
    let settings = [
        ("datafusion.execution.target_partitions", "6"),
        ("datafusion.optimizer.repartition_file_min_size", "0"),
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
    let single = crate::workers::single_node();
    data::register(&single, folder.path()).await.unwrap();
    for sql in TPCH.iter().chain(&JOINS) {
        let expected = rows(&single, sql).await.unwrap();
        let begun = Instant::now();
        let given = tokio::time::timeout(Duration::from_secs(60), rows(&context, sql)).await;
        let given = given.unwrap_or_else(|_| panic!("{sql}\nhangs"));
        let given = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        println!("{:.2} s", begun.elapsed().as_secs_f64());
        assert_same(sql, &expected, &given);
    }
}
