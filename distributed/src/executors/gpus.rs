//! Which executors have a GPU: their ids say so.

use std::sync::{Arc, OnceLock};

use ballista::prelude::SessionConfigExt;
use ballista_core::config::BallistaConfig;
use ballista_scheduler::cluster::ClusterState;
use ballista_scheduler::config::SchedulerConfig;
use datafusion::prelude::SessionConfig;

use crate::gpus::{GPU, Short};

/// The executors of a scheduler, once they are known.
pub(super) type Executors = Arc<OnceLock<Arc<dyn ClusterState>>>;

/// A scheduler whose sessions send the short sides of equi-joins to all executors, where these have a GPU.
pub(super) fn with_broadcasts(
    mut config: SchedulerConfig,
    executors: &Executors,
) -> SchedulerConfig {
    if let Some(session) = config.override_session_builder.take() {
        let executors = Arc::clone(executors);
        config.override_session_builder = Some(Arc::new(move |config| {
            session(match have_gpus(&executors) {
                true => for_gpus(config),
                false => config,
            })
        }));
    }
    config
}

fn have_gpus(executors: &Executors) -> bool {
    let alive = executors.get().map(|known| known.executor_heartbeats());
    let alive = alive.unwrap_or_default();
    !alive.is_empty() && alive.keys().all(|id| id.ends_with(GPU))
}

/// The configuration of a session whose plans are for GPUs: limits of Ballista's that are not the default stay.
fn for_gpus(mut config: SessionConfig) -> SessionConfig {
    let default = BallistaConfig::default();
    let default = Short {
        rows: default.broadcast_join_threshold_rows(),
        bytes: default.broadcast_join_threshold_bytes(),
    };
    let set = Short {
        rows: config.ballista_broadcast_join_threshold_rows(),
        bytes: config.ballista_broadcast_join_threshold_bytes(),
    };
    if set != default {
        return config;
    }
    let Some(short) = Short::for_gpus(config.options(), default) else {
        return config;
    };
    short.set(&mut config.options_mut().optimizer);
    config
        .with_ballista_broadcast_join_threshold_rows(short.rows)
        .with_ballista_broadcast_join_threshold_bytes(short.bytes)
}

#[cfg(test)]
mod tests {
    use datafusion_bowtie::{BowtieConfigExt, BowtieOptions};

    use super::*;

    #[test]
    fn limits_of_a_session_stay() {
        let session = || {
            let session = SessionConfig::new_with_ballista();
            session.with_bowtie_options(BowtieOptions::default())
        };
        let bytes = |config: SessionConfig| {
            let config = for_gpus(config);
            let datafusion = Short::of(&config.options().optimizer).bytes;
            (config.ballista_broadcast_join_threshold_bytes(), datafusion)
        };
        assert_eq!(bytes(session()), (256_000_000, 256_000_000));
        let own = session().with_ballista_broadcast_join_threshold_bytes(7);
        assert_eq!(bytes(own).0, 7);
        let datafusion = "datafusion.optimizer.hash_join_single_partition_threshold";
        assert_eq!(bytes(session().set_u64(datafusion, 0)).1, 0);
    }
}
