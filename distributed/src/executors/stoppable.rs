//! [`StoppableStage`]: a stage that ends when its task is cancelled. Ballista drops the task's future, but what that has spawned runs on, and
//! holds its device memory.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_executor::execution_engine::QueryStageExecutor;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::exec_datafusion_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
};
use futures::{StreamExt, future, stream};
use tokio::sync::watch;

use crate::executors::place::Place;

type Plan = Arc<dyn ExecutionPlan>;

/// The engine's own stage, above a [`StoppableExec`].
pub(super) struct StoppableStage {
    pub(super) inner: Arc<dyn QueryStageExecutor>,
    pub(super) stop: Arc<watch::Sender<bool>>,
    /// Why it cannot run.
    pub(super) failure: Option<Arc<DataFusionError>>,
    /// How many nodes of the stage have metrics, on the scheduler too.
    pub(super) nodes: usize,
    pub(super) place: Place,
}

struct StopOnDrop<'a>(&'a watch::Sender<bool>);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

impl fmt::Debug for StoppableStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for StoppableStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl QueryStageExecutor for StoppableStage {
    async fn execute_query_stage(
        &self,
        task: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        if let Some(error) = &self.failure {
            return Err(DataFusionError::Shared(Arc::clone(error)));
        }
        let _stop = StopOnDrop(&self.stop);
        self.inner.execute_query_stage(task, context).await
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        let metrics = self.inner.collect_plan_metrics();
        // With those of other nodes than it knows of the scheduler would not take note of the task's end.
        match metrics.len() == self.nodes {
            true => metrics.iter().map(|node| self.place.named(node)).collect(),
            false => vec![],
        }
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.inner.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.inner.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.inner.collect_column_stats()
    }
}

/// The rows of its input, until they are not wanted any more. They have its schema: a batch of a union may say of a column that it is never NULL, which
/// Ballista's writer takes for another schema.
#[derive(Debug)]
pub(super) struct StoppableExec {
    input: Plan,
    stop: Arc<watch::Sender<bool>>,
}

impl StoppableExec {
    pub(super) fn new(input: Plan, stop: Arc<watch::Sender<bool>>) -> Self {
        Self { input, stop }
    }
}

impl DisplayAs for StoppableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoppableExec")
    }
}

impl ExecutionPlan for StoppableExec {
    fn name(&self) -> &str {
        "StoppableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Plan>) -> Result<Plan> {
        let input = children.swap_remove(0);
        Ok(Arc::new(Self::new(input, Arc::clone(&self.stop))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let rows = self.input.execute(partition, context)?;
        let declared = move |batch: Result<RecordBatch>| {
            let batch = batch?;
            let same = batch.clone().with_schema(Arc::clone(&schema));
            Ok(same.unwrap_or(batch))
        };
        let rows = rows.map(declared);
        let (mut stop, stopped) = (self.stop.subscribe(), self.stop.subscribe());
        // An error of the channel says that nobody can stop it any more.
        let wanted = async move { stop.wait_for(|stop| *stop).await.map(|_| ()) };
        let end = stream::once(async move { *stopped.borrow() }).filter_map(|stopped| {
            let error = || Err(exec_datafusion_err!("the task was cancelled"));
            future::ready(stopped.then(error))
        });
        let rows = rows.take_until(wanted).chain(end);
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            rows.boxed(),
        )))
    }
}
