//! Which workers have a GPU, and what plans for these look like: they say so behind their version.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use datafusion::config::{ConfigOptions, OptimizerOptions};
use datafusion_bowtie::{BowtieOptions, DeviceChoice, Offload, devices};
use datafusion_distributed::{ChannelResolver, GetWorkerInfoRequest};
use futures::future::join_all;
use parking_lot::Mutex;
use url::Url;

use crate::workers::channels::Channels;

/// The build metadata of the version of a worker with a GPU.
const GPU: &str = "+gpu";

/// How long the coordinator waits for a worker's version.
const ANSWER: Duration = Duration::from_secs(2);

/// How long it is believed.
const KNOWN: Duration = Duration::from_secs(60);

/// The bytes of a row that is sent to all workers, where DataFusion counts bytes.
const ROW_BYTES: usize = 64;

/// The version that a worker with these options tells.
pub(super) fn version(own: &BowtieOptions) -> String {
    let has_gpu = match own.device {
        DeviceChoice::Host => false,
        DeviceChoice::Cuda(_) => true,
        _ => {
            let mut devices = devices().into_iter();
            devices.any(|device| device.is_default && device.device != "host")
        }
    };
    let gpu = if has_gpu { GPU } else { "" };
    format!("{}{gpu}", env!("CARGO_PKG_VERSION"))
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

/// The options of a query whose plan is for GPUs: sides of equi-joins of up to `bowtie.broadcast_rows` rows, or their bytes where DataFusion knows
/// these, are sent to all workers. These index them in no time, while the rows of the other side stay where they are, in columns that the GPU may
/// have. Where cores join, exchanging both sides costs less. `None` if the session has other limits than DataFusion's.
pub(super) fn with_broadcasts(options: &ConfigOptions) -> Option<ConfigOptions> {
    let bowtie = options.extensions.get::<BowtieOptions>()?;
    let (default, set) = (OptimizerOptions::default(), &options.optimizer);
    if bowtie.offload == Offload::Off
        || bowtie.device == DeviceChoice::Host
        || set.hash_join_single_partition_threshold != default.hash_join_single_partition_threshold
        || set.hash_join_single_partition_threshold_rows
            != default.hash_join_single_partition_threshold_rows
    {
        return None;
    }
    let rows = usize::try_from(bowtie.broadcast_rows.get()).unwrap_or(usize::MAX);
    let mut options = options.clone();
    let set = &mut options.optimizer;
    set.hash_join_single_partition_threshold_rows =
        rows.max(default.hash_join_single_partition_threshold_rows);
    set.hash_join_single_partition_threshold = rows
        .saturating_mul(ROW_BYTES)
        .max(default.hash_join_single_partition_threshold);
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(set: &[(&str, &str)]) -> ConfigOptions {
        let mut options = ConfigOptions::new();
        options.extensions.insert(BowtieOptions::default());
        for (key, value) in set {
            options.set(key, value).unwrap();
        }
        options
    }

    /// The limits in bytes and rows.
    fn limits(set: &[(&str, &str)]) -> Option<(usize, usize)> {
        let raised = with_broadcasts(&options(set))?.optimizer;
        Some((
            raised.hash_join_single_partition_threshold,
            raised.hash_join_single_partition_threshold_rows,
        ))
    }

    #[test]
    fn short_sides_are_sent_to_all_gpus_unless_the_session_says_otherwise() {
        assert_eq!(limits(&[]), Some((256_000_000, 4_000_000)));
        let ten = [("bowtie.broadcast_rows", "10000000")];
        assert_eq!(limits(&ten), Some((640_000_000, 10_000_000)));
        // DataFusion's own limits.
        let none = [("bowtie.broadcast_rows", "0")];
        assert_eq!(limits(&none), Some((1 << 20, 128 << 10)));
        for set in [
            ("bowtie.offload", "off"),
            ("bowtie.device", "host"),
            (
                "datafusion.optimizer.hash_join_single_partition_threshold",
                "0",
            ),
            (
                "datafusion.optimizer.hash_join_single_partition_threshold_rows",
                "7",
            ),
        ] {
            assert_eq!(limits(&[set]), None, "{set:?}");
        }
    }

    #[test]
    fn a_worker_says_whether_it_has_a_gpu() {
        let of = |device| version(&BowtieOptions::default().with_device(device));
        assert_eq!(of(DeviceChoice::Host), env!("CARGO_PKG_VERSION"));
        assert!(of(DeviceChoice::Cuda(1)).ends_with("+gpu"));
    }
}
