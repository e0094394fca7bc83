//! The Rust of the guide's page on workers compiles: each block stands here as it does there, in a function that has the names that it reads.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_grpc_service;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use tonic::transport::Server;

#[rustfmt::skip]
async fn workers(address: SocketAddr) -> Result<SessionContext, Box<dyn Error>> {
use datafusion_bowtie::BowtieOptions;
use datafusion_bowtie_distributed::workers::{coordinator, worker};

// A worker.
let worker = worker(RuntimeEnv::default().into(), BowtieOptions::from_env()?);
Server::builder().add_service(worker.into_worker_server()).serve(address).await?;

// A coordinator. Queries that the engine does not divide run in its own process.
let session = SessionStateBuilder::new().with_default_features();
let session = coordinator(session, vec!["http://localhost:8080".parse()?, "http://localhost:8081".parse()?], BowtieOptions::default())?;
let ctx = SessionContext::new_with_state(session.build());
    Ok(ctx)
}

#[rustfmt::skip]
async fn executors(address: SocketAddr) -> Result<SessionContext, Box<dyn Error>> {
use datafusion_bowtie::BowtieOptions;
use datafusion_bowtie_distributed::client::connect;
use datafusion_bowtie_distributed::executors::{executor, scheduler, start_scheduler};

// A scheduler and an executor: Ballista's own configurations, with bowtie.
let scheduler = start_scheduler(scheduler(SchedulerConfig::default())).await?;
start_grpc_service(address, scheduler).await?;
let config = executor(ExecutorProcessConfig::default(), BowtieOptions::from_env()?)?;
start_executor_process(Arc::new(config)).await?;

// A client.
let ctx = connect("df://localhost:50050", BowtieOptions::default()).await?;
    Ok(ctx)
}

/// The lines of the page's blocks are lines of this file, one after the other. Nothing is served: a future that is dropped does nothing.
#[test]
fn blocks_are_those_of_the_page() {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    drop(workers(address));
    drop(executors(address));
    let lines = |text: &str| -> String {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty());
        lines.map(|line| format!("{line}\n")).collect()
    };
    let here = lines(include_str!("guide.rs"));
    let page = include_str!("../../../docs/guide/workers.md");
    let blocks = page.split("```rust\n").skip(1);
    let blocks: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert!(here.contains(&lines(block)), "not in this file:\n{block}");
    }
}
