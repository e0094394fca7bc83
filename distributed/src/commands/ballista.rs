//! A scheduler, an executor and a client of Ballista.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_grpc_service_with_listener;
use clap::Args;
use datafusion_bowtie::BowtieOptions;
use datafusion_bowtie_distributed::client::{configuration, connect_with};
use datafusion_bowtie_distributed::executors::{executor, scheduler_with, start_scheduler};
use tokio::net::TcpListener;

use crate::commands::exposure::Exposure;
use crate::commands::private_folder::private;
use crate::commands::statements::Statements;
use crate::commands::{Done, runtime};

#[derive(Args)]
pub(crate) struct Scheduler {
    /// The address to listen on; port 0 takes one that is free.
    #[arg(long, default_value = "127.0.0.1:50050")]
    listen: SocketAddr,
    /// The name by which executors reach this machine.
    #[arg(long, default_value = "localhost")]
    host: String,
    /// Seconds without a sign of life after which an executor is lost.
    #[arg(long, default_value_t = 180)]
    executor_timeout: u64,
    #[command(flatten)]
    exposure: Exposure,
}

impl Scheduler {
    pub(crate) async fn run(self) -> Done {
        let (ip, port) = (self.listen.ip(), self.listen.port());
        self.exposure.check(ip, &[port])?;
        let runtime = runtime(self.exposure.allow_http).build_arc()?;
        let listener = TcpListener::bind(self.listen).await?;
        let address = listener.local_addr()?;
        let mut config = scheduler_with(SchedulerConfig::default(), runtime)
            .with_hostname(self.host)
            .with_port(address.port());
        config.executor_timeout_seconds = self.executor_timeout;
        config.expire_dead_executor_interval_seconds = (self.executor_timeout / 6).clamp(1, 15);
        config.no_executors_grace_period_seconds = self.executor_timeout;
        let scheduler = start_scheduler(config).await?;
        println!("listening on df://{address}");
        start_grpc_service_with_listener(listener, scheduler).await?;
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Executor {
    /// The scheduler's host.
    #[arg(long, default_value = "localhost")]
    scheduler_host: String,
    #[arg(long, default_value_t = 50050)]
    scheduler_port: u16,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// The name by which others reach this machine: the address that the scheduler sees, if none is given.
    #[arg(long)]
    host: Option<String>,
    /// The port of rows.
    #[arg(long, default_value_t = 50051)]
    port: u16,
    /// The port of tasks: the next one, if none is given.
    #[arg(long)]
    task_port: Option<u16>,
    /// The folder of shuffled rows, one for each executor, which no other user may read; by default a new one among the temporary files of this machine.
    #[arg(long)]
    work_dir: Option<PathBuf>,
    /// The most partitions that run at the same time; by default one for each core.
    #[arg(long)]
    slots: Option<usize>,
    /// The most bytes of host memory for all tasks.
    #[arg(long)]
    memory: Option<u64>,
    /// Seconds between signs of life.
    #[arg(long, default_value_t = 60)]
    heartbeat: u64,
    #[command(flatten)]
    exposure: Exposure,
}

impl Executor {
    pub(crate) async fn run(self) -> Done {
        let next = self.port.checked_add(1);
        let task_port = self
            .task_port
            .or(next)
            .ok_or("no port is above 65535: name one by --task-port")?;
        self.exposure.check(self.bind, &[self.port, task_port])?;
        // Its own folder is there until it ends.
        let (folder, _own) = match self.work_dir {
            Some(folder) => (private(&folder)?, None),
            None => {
                let own = own_folder()?;
                (own.path().to_path_buf(), Some(own))
            }
        };
        let allow_http = self.exposure.allow_http;
        let mut config = ExecutorProcessConfig {
            // A port follows it.
            bind_host: match self.bind {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            },
            external_host: self.host,
            port: self.port,
            grpc_port: task_port,
            scheduler_host: self.scheduler_host,
            scheduler_port: self.scheduler_port,
            scheduler_connect_timeout_seconds: 30,
            work_dir: Some(folder.to_string_lossy().into_owned()),
            memory_pool_size: self.memory,
            executor_heartbeat_interval_seconds: self.heartbeat,
            job_data_clean_up_interval_seconds: 600,
            ..ExecutorProcessConfig::default()
        };
        if let Some(slots) = self.slots {
            config.vcores = slots;
        }
        config.override_runtime_producer = Some(Arc::new(move |_| {
            let runtime = runtime(allow_http).with_temp_file_path(folder.clone());
            runtime.build_arc()
        }));
        let config = executor(config, BowtieOptions::from_env()?)?;
        start_executor_process(Arc::new(config)).await?;
        Ok(())
    }
}

/// A new folder that no other user reads.
fn own_folder() -> std::io::Result<tempfile::TempDir> {
    let mut folder = tempfile::Builder::new();
    folder.prefix("bowtie-executor-");
    #[cfg(unix)]
    folder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    folder.tempdir()
}

#[derive(Args)]
pub(crate) struct Client {
    /// The scheduler's address.
    #[arg(long, default_value = "df://localhost:50050")]
    scheduler: String,
    #[command(flatten)]
    statements: Statements,
}

impl Client {
    pub(crate) async fn run(self) -> Done {
        let config = configuration();
        // Whoever runs the client writes the URLs, too.
        let (runtime, options) = (runtime(true).build_arc()?, BowtieOptions::default());
        let context = connect_with(&self.scheduler, config, runtime, options).await?;
        // Files can be named in FROM.
        self.statements.run(&context.enable_url_table()).await
    }
}
