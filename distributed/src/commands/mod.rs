//! What the binary can do.

mod ballista;
mod distributed;
mod exposure;
mod private_folder;
mod statements;

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion_bowtie_distributed::stores::LazyStores;

/// datafusion-bowtie on several machines. Options of bowtie for a process are read from its environment: BOWTIE_DEVICE, BOWTIE_DEVICE_MEMORY and so on.
/// What a statement SETs reaches all workers.
#[derive(Parser)]
#[command(name = "bowtie-cluster", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A worker of datafusion-distributed.
    Worker(distributed::Worker),
    /// Runs SQL on workers of datafusion-distributed.
    Coordinator(distributed::Coordinator),
    /// A scheduler of Ballista.
    Scheduler(ballista::Scheduler),
    /// An executor of Ballista.
    Executor(ballista::Executor),
    /// Runs SQL on executors of Ballista.
    Client(ballista::Client),
}

/// Object stores by their URLs, with the credentials of the environment; those by `http://` if `allow_http`. Files are listed for each query.
fn runtime(allow_http: bool) -> RuntimeEnvBuilder {
    let stores = LazyStores::new(vec![]).with_allow_http(allow_http);
    RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::new(stores))
        .with_object_list_cache_limit(0)
}

pub(crate) type Done = Result<(), Box<dyn Error>>;

pub(crate) fn run(arguments: Arguments) -> Done {
    match arguments.command {
        Command::Worker(worker) => on_threads(worker.run()),
        Command::Coordinator(coordinator) => on_threads(coordinator.run()),
        Command::Scheduler(scheduler) => on_threads(scheduler.run()),
        Command::Executor(executor) => on_threads(executor.run()),
        Command::Client(client) => on_threads(client.run()),
    }
}

/// Deep plans are planned recursively.
fn on_threads(work: impl Future<Output = Done>) -> Done {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let runtime = threads.enable_all().thread_stack_size(16 << 20).build()?;
    runtime.block_on(work)
}
