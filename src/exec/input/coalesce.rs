//! Coalesces the pieces of a device node to chunks of the size that its reader wants. In: device chunks. Out:
//! [`InputChunk`](crate::exec::input::chunk::InputChunk)s, on the device if memory allows, otherwise on the host or in files.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};

use crate::device::batches::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::exec::blocking::{joined, spawn_blocking};
use crate::exec::chunk::chunk_limits::{ChunkLimits, Role};
use crate::exec::chunk::staged_chunk::StagedChunk;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::input::chunk::{Input, InputStream};
use crate::exec::input::waiting::Waiting;
use crate::exec::memory::on_request::await_or_evict;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::node::DeviceNode;
use crate::exec::transfer::chunker::has_small_dictionary;
use crate::options::BowtieOptions;

/// The chunks of device node `node`, for a reader on `device`, in the size for its `role`.
pub(crate) fn inputs(
    node: &Arc<dyn ExecutionPlan>,
    device: &Arc<dyn Device>,
    role: Role,
    context: &Arc<TaskContext>,
    spilling: Option<&Spilling>,
) -> Result<InputStream> {
    let chunks = DeviceNode::of(node)?.execute_on(Arc::clone(device), Arc::clone(context))?;
    Ok(coalesced(
        chunks,
        &node.schema(),
        device,
        role,
        context,
        spilling,
    ))
}

/// The chunks of such a stream, coalesced as those of [`inputs`].
pub(crate) fn coalesced(
    chunks: DeviceStream,
    schema: &SchemaRef,
    device: &Arc<dyn Device>,
    role: Role,
    context: &Arc<TaskContext>,
    spilling: Option<&Spilling>,
) -> InputStream {
    gathered(chunks, schema, device, role, context, spilling, false)
}

/// As [`inputs`], but each piece of the node is a chunk.
pub(crate) fn pieces(
    node: &Arc<dyn ExecutionPlan>,
    device: &Arc<dyn Device>,
    context: &Arc<TaskContext>,
    spilling: Option<&Spilling>,
) -> Result<InputStream> {
    let chunks = DeviceNode::of(node)?.execute_on(Arc::clone(device), Arc::clone(context))?;
    let (schema, role) = (node.schema(), Role::Right);
    Ok(gathered(
        chunks, &schema, device, role, context, spilling, true,
    ))
}

fn gathered(
    chunks: DeviceStream,
    schema: &SchemaRef,
    device: &Arc<dyn Device>,
    role: Role,
    context: &Arc<TaskContext>,
    spilling: Option<&Spilling>,
    apart: bool,
) -> InputStream {
    let options = BowtieOptions::of(context.session_config().options());
    let pool = context.memory_pool();
    let chunk_rows = options.chunk_rows.0;
    let limits = ChunkLimits::new(device.as_ref(), schema, chunk_rows, role, pool.as_ref());
    let fields = schema.fields().iter();
    let gathering = Gathering {
        chunks: Some(chunks),
        waiting: Waiting {
            device: Arc::clone(device),
            reservation: MemoryConsumer::new(format!("BowtieInput[{role}]")).register(pool),
            on_device: vec![],
            on_host: vec![],
            rows: 0,
            bytes: 0,
            schema: Arc::clone(schema),
            spilling: spilling.cloned(),
            in_file: None,
            limits,
            ready: VecDeque::new(),
        },
        apart: apart
            || fields
                .into_iter()
                .any(|f| has_small_dictionary(f.data_type())),
        streamed: role.is_streamed(),
    };
    let chunks = futures::stream::try_unfold(gathering, |mut gathering| async move {
        let chunk = gathering.next().await?;
        Ok(chunk.map(|chunk| (chunk, gathering)))
    });
    chunks.boxed()
}

/// Coalesces the chunks of a device node.
pub(crate) struct Gathering {
    /// `None` at the end.
    pub(crate) chunks: Option<DeviceStream>,
    pub(crate) waiting: Waiting,
    /// Do not coalesce: the reader wants single pieces, or the values of several pieces may overflow the small keys of
    /// a dictionary.
    pub(crate) apart: bool,
    /// Whether the reader takes one chunk after the other. A reader that gathers all chunks spills staged ones itself.
    pub(crate) streamed: bool,
}

impl Gathering {
    pub(crate) async fn next(&mut self) -> Result<Option<Input>> {
        loop {
            if let Some(input) = self.waiting.ready.pop_front() {
                return Ok(Some(input));
            }
            let Some(chunks) = &mut self.chunks else {
                return Ok(None);
            };
            let (device, waiting) = (Arc::clone(&self.waiting.device), self.waiting.take());
            let next = chunks.try_next();
            let (waiting, next) = await_or_evict(&device, waiting, next).await?;
            self.waiting = waiting;
            if self.apart && self.waiting.in_file.is_some() {
                // The waiting piece was spilled meanwhile.
                self.blocking(Waiting::finish).await?;
            }
            match next {
                Some(DeviceChunk::Staged(chunk)) => self.take_staged(chunk).await?,
                Some(DeviceChunk::Resident(batch)) if batch.rows() == 0 => {}
                Some(DeviceChunk::Resident(batch)) => self.take(batch).await?,
                Some(DeviceChunk::MemoryPressure) => self.relieve_pool().await?,
                Some(DeviceChunk::LongRanges(_)) => {
                    return Err(DataFusionError::Internal(
                        "bowtie: long ranges were passed to a device node".into(),
                    ));
                }
                None => {
                    self.chunks = None;
                    self.blocking(Waiting::finish).await?;
                }
            }
        }
    }

    /// Cuts a staged chunk to the size that the reader wants. If the memory pool is full, it spills.
    async fn take_staged(&mut self, chunk: StagedChunk) -> Result<()> {
        let waiting = &mut self.waiting;
        let full = waiting
            .spilling
            .as_ref()
            .is_some_and(Spilling::pool_is_full);
        let chunks = waiting.cut(chunk)?;
        // They share one reservation, so spilling only one of them frees nothing.
        let spills = full && self.streamed && chunks.len() > 1;
        waiting.ready.extend(chunks.into_iter().map(Input::Chunk));
        match spills {
            true => self.blocking(Waiting::leave_host).await,
            false => Ok(()),
        }
    }

    /// Under memory pressure the reader frees memory before it reads on, and so do the waiting rows.
    async fn relieve_pool(&mut self) -> Result<()> {
        let waiting = &mut self.waiting;
        waiting.ready.push_back(Input::MemoryPressure);
        if waiting.spilling.is_some() && !waiting.on_host.is_empty() {
            self.blocking(Waiting::spill).await?;
            if self.apart {
                self.blocking(Waiting::finish).await?;
            }
        }
        Ok(())
    }

    /// Adds a resident piece. The waiting pieces become a chunk first if the new one would exceed its limits.
    async fn take(&mut self, batch: DeviceBatch) -> Result<()> {
        let (rows, bytes) = (batch.rows(), batch.bytes() as usize);
        let waiting = &self.waiting;
        let limits = &waiting.limits;
        let fits = waiting.rows + rows <= limits.rows
            && waiting.bytes.saturating_add(bytes) <= limits.bytes
            && !self.apart;
        if !fits && waiting.rows > 0 {
            self.blocking(Waiting::put_together).await?;
        }
        self.waiting.push(batch, rows, bytes);
        // Memory is kept for work, including that of the nodes below.
        if self.waiting.device.budget().is_scarce(0) || self.waiting.in_file.is_some() {
            self.blocking(Waiting::download).await?;
        }
        match self.apart && self.waiting.in_file.is_some() {
            true => self.blocking(Waiting::finish).await,
            false => Ok(()),
        }
    }

    /// Runs `work` as a step on a blocking thread.
    async fn blocking(&mut self, work: fn(&mut Waiting) -> crate::error::Result<()>) -> Result<()> {
        let mut waiting = self.waiting.take();
        let (waiting, done) = joined(spawn_blocking(move || {
            let device = Arc::clone(&waiting.device);
            let done = step::shared(device.as_ref(), OnRefusal::Shrink, |_| work(&mut waiting));
            (waiting, done)
        }))
        .await?;
        self.waiting = waiting;
        Ok(done?)
    }
}
