//! [`Connections`]: an executor's connections to others, which are kept for a while. Ballista's own are private.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::client::BallistaClient;
use ballista_core::client_pool::{BallistaClientPool, PooledClient};
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::utils::GrpcClientConfig;
use parking_lot::Mutex;

type Host = (String, u16, GrpcClientConfig);

/// Each since when nobody uses it.
type Idle = HashMap<Host, Vec<(Instant, BallistaClient)>>;

#[derive(Clone)]
pub(super) struct Connections {
    idle: Arc<Mutex<Idle>>,
    idle_for: Duration,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

impl Connections {
    pub(super) fn idle_for(idle_for: Duration) -> Arc<dyn BallistaClientPool> {
        Arc::new(Self {
            idle: Arc::default(),
            idle_for,
        })
    }
}

#[async_trait]
impl BallistaClientPool for Connections {
    async fn acquire(
        &self,
        host: &str,
        port: u16,
        config: &GrpcClientConfig,
        customize: Option<Arc<BallistaConfigGrpcEndpoint>>,
    ) -> ballista_core::error::Result<PooledClient> {
        self.evict_idle().await;
        let key = (host.to_string(), port, config.clone());
        let known = self.idle.lock().get_mut(&key).and_then(Vec::pop);
        let client = match known {
            Some((_, client)) => client,
            None => {
                BallistaClient::try_new(
                    host,
                    port,
                    config.max_message_size,
                    config.use_tls,
                    customize,
                    config.io_retries_times,
                    config.io_retry_wait_time_ms,
                    config.initial_connection_window_size,
                    config.initial_stream_window_size,
                )
                .await?
            }
        };
        let idle = Arc::clone(&self.idle);
        let give_back = move |client| {
            let mut idle = idle.lock();
            idle.entry(key).or_default().push((Instant::now(), client));
        };
        Ok(PooledClient::new(client, Box::new(give_back)))
    }

    async fn evict_idle(&self) {
        let mut idle = self.idle.lock();
        idle.retain(|_, clients| {
            clients.retain(|(since, _)| since.elapsed() < self.idle_for);
            !clients.is_empty()
        });
    }
}
