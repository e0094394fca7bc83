//! [`ClustersOperator`]: the connected components of the pairs that a device node has for rows. In: device chunks of two columns of one
//! type. Out: chunks of ids with their clusters, once all pairs were read.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryFutureExt, TryStreamExt, stream};

use crate::exec::blocking::blocking;
use crate::exec::chunk::chunk_limits::Role;
use crate::exec::chunk::sizes::batch_bytes;
use crate::exec::chunk::staged_chunk::StagedChunk;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::clusters::components::Clusters;
use crate::exec::clusters::on_device::DeviceClusters;
use crate::exec::clusters::run::{ClusterRun, Clustered};
use crate::exec::input::chunk::{Input, InputStream};
use crate::exec::input::coalesce::inputs;
use crate::exec::memory::on_request::await_or_evict;
use crate::exec::metrics::{ClusterCounts, DeviceMetrics};
use crate::exec::node::{DeviceOperator, Execution, OneInput};
use crate::spec::clusters::ClustersSpec;
use crate::spec::operator_kind::OperatorKind;

/// The connected components of pairs on a device.
///
/// Execution Flow: chunks of pairs are gathered on the device. When all are read, their ids are numbered together, the pairs of numbers
/// are merged to components, and the least id of each is found.
///
/// Memory: all pairs, and some 60 bytes for each of their ids. Pairs that do not fit are clustered on the host as they come, as by
/// [`ClustersExec`](crate::exec::clusters::exec::ClustersExec).
#[derive(Debug)]
pub(crate) struct ClustersOperator(pub(crate) Arc<ClustersSpec>);

impl DeviceOperator for ClustersOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::Clusters
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let ids = &self.0.data_type;
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "device={device}, ids={ids}")?;
                match self.0.fetch {
                    Some(fetch) => write!(f, ", fetch={fetch}"),
                    None => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                writeln!(f, "ids={ids}")?;
                match self.0.fetch {
                    Some(fetch) => writeln!(f, "fetch={fetch}"),
                    None => Ok(()),
                }
            }
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        self.0.schema()
    }

    fn emission(&self, _: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        (EmissionType::Final, Boundedness::Bounded)
    }

    fn fetch(&self) -> Option<usize> {
        self.0.fetch
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn DeviceOperator>> {
        Some(Arc::new(Self(Arc::new(self.0.with_fetch(fetch)))))
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let counts = ClusterCounts::new(execution.metrics);
        let OneInput {
            input,
            device,
            context,
            spilling,
            metrics,
        } = execution.of_one_input()?;
        let input = inputs(input, &device, Role::Sorted, &context, spilling.as_ref())?;
        let run = ClusterRun {
            spec: Arc::clone(&self.0),
            device,
            spilling,
            pool: Arc::clone(context.memory_pool()),
            metrics: metrics.clone(),
            counts,
            chunks: vec![],
            components: None,
        };
        let batch_size = context.session_config().batch_size().max(1);
        let clusters = clusters(run, input, self.schema()?, batch_size, metrics.clone());
        Ok(clusters
            .try_flatten_stream()
            .inspect_ok(move |chunk| metrics.baseline.record_output(chunk.rows()))
            .boxed())
    }
}

/// The stream of all ids with their clusters.
async fn clusters(
    mut run: ClusterRun,
    mut input: InputStream,
    schema: SchemaRef,
    batch_size: usize,
    metrics: DeviceMetrics,
) -> Result<DeviceStream> {
    let device = Arc::clone(&run.device);
    let (spec, pool) = (Arc::clone(&run.spec), Arc::clone(&run.pool));
    loop {
        let next;
        (run, next) = await_or_evict(&device, run, input.try_next()).await?;
        let Some(input) = next else {
            break;
        };
        let step = |run: &mut ClusterRun| match input {
            Input::Chunk(chunk) => run.push(chunk),
            Input::MemoryPressure => run.leave_pool(),
        };
        run = blocking(&metrics, run, step).await?.0;
    }
    drop(input);
    let (_, clustered) = blocking(&metrics, run, ClusterRun::finish).await?;
    Ok(match clustered {
        Clustered::Nothing => stream::empty().boxed(),
        Clustered::OnDevice(clusters) => pieces(clusters, metrics),
        Clustered::OnHost(clusters) => batches(clusters, spec, schema, batch_size, pool),
    })
}

/// The pieces of clusters on the device.
fn pieces(clusters: Box<DeviceClusters>, metrics: DeviceMetrics) -> DeviceStream {
    let next = |(clusters, metrics): (Box<DeviceClusters>, DeviceMetrics)| async move {
        let (clusters, piece) = blocking(&metrics, clusters, |c| c.next_piece()).await?;
        let piece = piece.map(DeviceChunk::Resident);
        Ok(piece.map(|piece| (piece, (clusters, metrics))))
    };
    stream::try_unfold((clusters, metrics), next).boxed()
}

/// The batches of clusters on the host.
fn batches(
    clusters: Box<Clusters>,
    spec: Arc<ClustersSpec>,
    schema: SchemaRef,
    batch_size: usize,
    pool: Arc<dyn MemoryPool>,
) -> DeviceStream {
    let rows = clusters.ids().min(spec.fetch.unwrap_or(usize::MAX));
    let staged = move |batch: &RecordBatch| {
        let reservation = MemoryConsumer::new("BowtieClusters[output]").register(&pool);
        // Where the pool has no room for it beside the clusters, one batch goes unreserved to its reader.
        let _ = reservation.try_grow(batch_bytes(batch));
        DeviceChunk::Staged(StagedChunk::of(batch, reservation))
    };
    let batches = (0..rows).step_by(batch_size).map(move |from| {
        let range = from..rows.min(from.saturating_add(batch_size));
        let batch = clusters.batch(range, &spec.columns, &schema)?;
        Ok(staged(&batch))
    });
    stream::iter(batches).boxed()
}
