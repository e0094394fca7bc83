//! A worker and a coordinator of datafusion-distributed.

use std::net::SocketAddr;

use clap::Args;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bowtie::BowtieOptions;
use datafusion_bowtie_distributed::workers::{coordinator, worker};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use url::Url;

use crate::commands::exposure::Exposure;
use crate::commands::statements::Statements;
use crate::commands::{Done, runtime};

#[derive(Args)]
pub(crate) struct Worker {
    /// The address to listen on; port 0 takes one that is free.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The most bytes of host memory for all queries.
    #[arg(long)]
    memory: Option<usize>,
    #[command(flatten)]
    exposure: Exposure,
}

impl Worker {
    pub(crate) async fn run(self) -> Done {
        let (ip, port) = (self.listen.ip(), self.listen.port());
        self.exposure.check(ip, &[port])?;
        let mut runtime = runtime(self.exposure.allow_http);
        if let Some(bytes) = self.memory {
            runtime = runtime.with_memory_limit(bytes, 1.0);
        }
        let worker = worker(runtime.build_arc()?, BowtieOptions::from_env()?);
        let listener = TcpListener::bind(self.listen).await?;
        println!("listening on http://{}", listener.local_addr()?);
        // Small messages do not wait for others to be sent with.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let stop = async {
            // Without a handler for the signal the process ends by it.
            let _ = tokio::signal::ctrl_c().await;
        };
        Server::builder()
            .add_service(worker.into_worker_server())
            .serve_with_incoming_shutdown(incoming, stop)
            .await?;
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Coordinator {
    /// The workers' addresses, such as http://localhost:8080,http://localhost:8081.
    #[arg(long, value_delimiter = ',', required = true)]
    workers: Vec<Url>,
    #[command(flatten)]
    statements: Statements,
}

impl Coordinator {
    pub(crate) async fn run(self) -> Done {
        let config = SessionConfig::new().with_information_schema(true);
        let session = SessionStateBuilder::new()
            .with_config(config)
            // Whoever runs the coordinator writes the URLs, too.
            .with_runtime_env(runtime(true).build_arc()?)
            .with_default_features();
        let session = coordinator(session, self.workers, BowtieOptions::from_env()?)?;
        let context = SessionContext::new_with_state(session.build()).enable_url_table();
        self.statements.run(&context).await
    }
}
