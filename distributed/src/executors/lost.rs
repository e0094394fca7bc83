//! Jobs that lose an executor end: [`LostExecutors`] stands before the state of the cluster.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::ExecutorHeartbeat;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_scheduler::cluster::{
    BallistaCluster, BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot, JobState,
};
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::create_scheduler;
use ballista_scheduler::scheduler_server::SchedulerServer;
use ballista_scheduler::state::task_manager::JobInfoCache;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};

use crate::executors::gpus::{Executors, with_broadcasts};

/// Ballista's scheduler of logical plans.
pub type Scheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// Starts what `config` describes, without serving it yet: `scheduler_process::start_grpc_service` does. The jobs that run when an executor is lost
/// are cancelled: their clients get an error.
///
/// Ballista 55 means to run the lost executor's tasks again. But where it had rows of an earlier stage, which have to be made again, a job may read
/// these rows twice, and the other executors never get back the slots of the tasks that are begun anew.
///
/// # Errors
/// As `create_scheduler`.
pub async fn start_scheduler(config: SchedulerConfig) -> Result<Scheduler> {
    let known = Executors::default();
    let config = with_broadcasts(config, &known);
    let cluster = BallistaCluster::new_from_config(&config).await?;
    // Neither this nor the scheduler below was set before.
    let _ = known.set(cluster.cluster_state());
    let executors = Arc::new(LostExecutors {
        inner: cluster.cluster_state(),
        jobs: cluster.job_state(),
        scheduler: OnceLock::new(),
    });
    let watched = BallistaCluster::new(
        Arc::clone(&executors) as Arc<dyn ClusterState>,
        cluster.job_state(),
    );
    let scheduler = create_scheduler(watched, Arc::new(config)).await?;
    let _ = executors.scheduler.set(scheduler.clone());
    Ok(scheduler)
}

/// The executors, of which one that is removed takes the running jobs with it: these are cancelled before the scheduler learns that it is gone, and so
/// find their tasks as they were.
struct LostExecutors {
    inner: Arc<dyn ClusterState>,
    jobs: Arc<dyn JobState>,
    scheduler: OnceLock<Scheduler>,
}

impl LostExecutors {
    async fn cancel_jobs(&self, executor: &str) {
        let Some(scheduler) = self.scheduler.get() else {
            return;
        };
        for job in self.jobs.get_all_jobs().await.unwrap_or_default() {
            let status = self.jobs.get_job_status(&job).await.ok().flatten();
            // One that is planned yet has no tasks.
            if !matches!(
                status.and_then(|status| status.status),
                Some(Status::Running(_))
            ) {
                continue;
            }
            log::error!("executor {executor} is lost: job {job} is cancelled");
            if let Err(error) = scheduler.cancel_job(job.clone()).await {
                log::error!("job {job} could not be cancelled: {error}");
            }
        }
    }
}

#[async_trait]
impl ClusterState for LostExecutors {
    async fn init(&self) -> Result<()> {
        self.inner.init().await
    }

    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        let inner = &self.inner;
        inner
            .bind_schedulable_tasks(distribution, jobs, executors)
            .await
    }

    async fn unbind_tasks(&self, slots: Vec<ExecutorSlot>) -> Result<()> {
        self.inner.unbind_tasks(slots).await
    }

    async fn register_executor(
        &self,
        metadata: ExecutorMetadata,
        spec: ExecutorData,
    ) -> Result<()> {
        self.inner.register_executor(metadata, spec).await
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        self.inner.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, executor: &str) -> Result<ExecutorMetadata> {
        self.inner.get_executor_metadata(executor).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.inner.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.inner.save_executor_heartbeat(heartbeat).await
    }

    async fn remove_executor(&self, executor: &str) -> Result<()> {
        // It may be removed twice.
        if self.inner.get_executor_metadata(executor).await.is_ok() {
            self.cancel_jobs(executor).await;
        }
        self.inner.remove_executor(executor).await
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.inner.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, executor: &str) -> Option<ExecutorHeartbeat> {
        self.inner.get_executor_heartbeat(executor)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.inner.cluster_state_events().await
    }
}
