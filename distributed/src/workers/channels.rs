//! [`Channels`]: connections to workers. A worker that is gone is noticed, and an error says which worker it came from.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg, grpc,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http::HeaderMap;
use parking_lot::Mutex;
use tonic::transport::{Channel, Endpoint};
use url::Url;

/// Connections to workers, which notice that a worker's machine is gone.
#[derive(Debug, Clone, Default)]
pub(super) struct Channels(Arc<Mutex<HashMap<Url, Channel>>>);

impl Channels {
    async fn channel(&self, url: &Url) -> Result<Channel> {
        let known = self.0.lock().get(url).cloned();
        if let Some(channel) = known {
            return Ok(channel);
        }
        let failed = |error: tonic::transport::Error| {
            DataFusionError::External(Box::new(error)).context(format!("worker {url}"))
        };
        let endpoint = Endpoint::from_shared(url.to_string()).map_err(failed)?;
        let channel = endpoint
            .connect_timeout(Duration::from_secs(5))
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(10))
            .keep_alive_while_idle(true)
            .connect()
            .await
            .map_err(failed)?;
        // It connects again by itself.
        self.0.lock().insert(url.clone(), channel.clone());
        Ok(channel)
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let channel = grpc::BoxCloneSyncChannel::new(self.channel(url).await?);
        let inner = grpc::create_worker_client(channel);
        Ok(Box::new(Named {
            worker: format!("worker {url}"),
            inner,
        }))
    }
}

/// Names the worker in errors.
struct Named {
    worker: String,
    inner: Box<dyn WorkerChannel>,
}

#[async_trait]
impl WorkerChannel for Named {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        set_plan_request: SetPlanRequest,
        c2w_stream: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let inner = &mut self.inner;
        let messages =
            inner.coordinator_channel(headers, set_plan_request, c2w_stream, metrics, task_ctx);
        let worker = self.worker.clone();
        match messages.await {
            Ok(messages) => Ok(messages
                .map_err(move |error| error.context(worker.clone()))
                .boxed()),
            Err(error) => Err(error.context(worker)),
        }
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let partitions = self
            .inner
            .execute_task(headers, request, metrics, task_ctx)
            .await;
        let partitions = partitions.map_err(|error| error.context(self.worker.clone()))?;
        let named = |rows: BoxStream<'static, Result<RecordBatch>>| {
            let worker = self.worker.clone();
            rows.map_err(move |error| error.context(worker.clone()))
                .boxed()
        };
        Ok(partitions.into_iter().map(named).collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        let info = self.inner.get_worker_info(request).await;
        info.map_err(|error| error.context(self.worker.clone()))
    }
}
