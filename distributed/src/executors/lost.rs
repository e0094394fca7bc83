//! Jobs that lose an executor end.

use std::collections::HashSet;
use std::time::Duration;

use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};

/// Between two looks at the executors.
const PAUSE: Duration = Duration::from_millis(500);

/// Cancels the jobs that run when an executor is lost: their clients get an error. It runs until it is dropped.
///
/// Ballista 55 means to run the lost executor's tasks again. But where it had rows of an earlier stage, which have to be made again, a job of the
/// adaptive planner waits for ever, and one of the static planner may read these rows twice.
pub async fn end_jobs_of_lost_executors(
    cluster: BallistaCluster,
    scheduler: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>,
) {
    let (executors, jobs) = (cluster.cluster_state(), cluster.job_state());
    let mut known: HashSet<String> = HashSet::new();
    loop {
        let now = executors.registered_executor_metadata().await.into_iter();
        let now: HashSet<String> = now.map(|executor| executor.id.to_string()).collect();
        let lost: Vec<&String> = known.difference(&now).collect();
        if !lost.is_empty() {
            let mut running = jobs.get_all_jobs().await.unwrap_or_default();
            // The former has those that have ended, too.
            for ended in jobs.get_jobs().await.unwrap_or_default() {
                running.remove(&ended);
            }
            for job in running {
                log::error!("executors {lost:?} are lost: job {job} is cancelled");
                if let Err(error) = scheduler.cancel_job(job.clone()).await {
                    log::error!("job {job} could not be cancelled: {error}");
                }
            }
        }
        known = now;
        tokio::time::sleep(PAUSE).await;
    }
}
