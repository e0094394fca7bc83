//! [`CancelOnDrop`]: a query whose job ends when nobody reads its rows any more. Ballista's client lets it run.

use std::fmt;
use std::sync::Arc;

use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::CancelJobParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
};
use datafusion_proto::protobuf::LogicalPlanNode;
use futures::{StreamExt, stream};
use tokio::runtime::Handle;

type Plan = Arc<dyn ExecutionPlan>;

/// A query that the scheduler runs.
#[derive(Debug)]
pub(super) struct CancelOnDrop {
    query: Plan,
    scheduler: String,
}

impl CancelOnDrop {
    pub(super) fn new(query: Plan, scheduler: String) -> Self {
        Self { query, scheduler }
    }
}

impl DisplayAs for CancelOnDrop {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.query.fmt_as(t, f)
    }
}

impl ExecutionPlan for CancelOnDrop {
    fn name(&self) -> &str {
        self.query.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.query.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.query.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Plan>) -> Result<Plan> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let options = context.session_config().ballista_config();
        let unread = Unread {
            query: Arc::clone(&self.query),
            scheduler: self.scheduler.clone(),
            config: GrpcClientConfig::from(&options),
            // Who drops the rows may be no thread of a runtime.
            runtime: Handle::try_current().ok(),
            ended: false,
        };
        let rows = self.query.execute(partition, context)?;
        let rows = stream::unfold((rows, unread), |(mut rows, mut unread)| async move {
            let next = rows.next().await;
            unread.ended |= !matches!(next, Some(Ok(_)));
            next.map(|batch| (batch, (rows, unread)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            rows.boxed(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.query.metrics()
    }
}

/// A job whose rows are still to be read.
struct Unread {
    query: Plan,
    scheduler: String,
    config: GrpcClientConfig,
    runtime: Option<Handle>,
    ended: bool,
}

impl Drop for Unread {
    fn drop(&mut self) {
        let query = self
            .query
            .downcast_ref::<DistributedQueryExec<LogicalPlanNode>>();
        let job = query.and_then(|query| query.job_id());
        let (false, Some(job), Some(runtime)) = (self.ended, job, self.runtime.take()) else {
            return;
        };
        log::debug!("nobody reads the rows of job {job}: it is cancelled");
        let (scheduler, config) = (self.scheduler.clone(), self.config.clone());
        runtime.spawn(async move {
            let cancelled = async {
                let endpoint = create_grpc_client_endpoint(scheduler, Some(&config))?;
                let channel = endpoint.connect().await?;
                let job = CancelJobParams {
                    job_id: job.to_string(),
                };
                SchedulerGrpcClient::new(channel).cancel_job(job).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            };
            if let Err(error) = cancelled.await {
                log::warn!("a job whose rows nobody reads could not be cancelled: {error}");
            }
        });
    }
}
