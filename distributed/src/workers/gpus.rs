//! Which workers have a GPU: they say so behind their version.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use datafusion::config::{ConfigOptions, OptimizerOptions};
use datafusion_bowtie::BowtieOptions;
use datafusion_distributed::{ChannelResolver, GetWorkerInfoRequest};
use futures::future::join_all;
use parking_lot::Mutex;
use url::Url;

use crate::gpus::{GPU, Short, suffix};
use crate::workers::channels::Channels;

/// How long the coordinator waits for a worker's version.
const ANSWER: Duration = Duration::from_secs(2);

/// How long it is believed.
const KNOWN: Duration = Duration::from_secs(60);

/// The version that a worker with these options tells.
pub(super) fn version(own: &BowtieOptions) -> String {
    format!("{}{}", env!("CARGO_PKG_VERSION"), suffix(own))
}

/// The workers of a coordinator, and what they have said.
#[derive(Debug)]
pub(super) struct Gpus {
    workers: Vec<Url>,
    channels: Channels,
    /// Until when it is known whether a worker has one. One that has not answered has none.
    known: Mutex<HashMap<Url, (bool, Instant)>>,
}

impl Gpus {
    pub(super) fn new(workers: Vec<Url>, channels: Channels) -> Self {
        Self {
            workers,
            channels,
            known: Mutex::default(),
        }
    }

    /// Whether all workers have one.
    pub(super) async fn are_everywhere(&self) -> bool {
        let mut unknown = vec![];
        for worker in &self.workers {
            match self.known(worker) {
                Some(false) => return false,
                Some(true) => (),
                None => unknown.push(self.asked(worker)),
            }
        }
        !self.workers.is_empty() && join_all(unknown).await.into_iter().all(|on| on)
    }

    fn known(&self, worker: &Url) -> Option<bool> {
        let known = self.known.lock().get(worker).copied();
        let known = known.filter(|(_, until)| Instant::now() < *until);
        known.map(|(has_gpu, _)| has_gpu)
    }

    async fn asked(&self, worker: &Url) -> bool {
        let asked = async {
            let mut client = self.channels.get_worker_client_for_url(worker).await?;
            client.get_worker_info(GetWorkerInfoRequest {}).await
        };
        let answer = tokio::time::timeout(ANSWER, asked).await;
        let has_gpu = matches!(&answer, Ok(Ok(answer)) if answer.version.ends_with(GPU));
        let until = Instant::now() + KNOWN;
        self.known.lock().insert(worker.clone(), (has_gpu, until));
        has_gpu
    }
}

/// The options of a query whose plan is for GPUs.
pub(super) fn with_broadcasts(options: &ConfigOptions) -> Option<ConfigOptions> {
    let default = Short::of(&OptimizerOptions::default());
    let short = Short::for_gpus(options, default)?;
    let mut options = options.clone();
    short.set(&mut options.optimizer);
    Some(options)
}
