//! Coalesces the pieces of a device node to chunks of the size that its reader wants. In: device chunks. Out:
//! [`InputChunk`]s, on the device if memory allows, otherwise on the host or in files.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};

use crate::device::data::batch::DeviceBatch;
use crate::device::data::batch_column::BatchColumn;
use crate::device::primitives::device::Device;
use crate::error::IfItFits as _;
use crate::exec::blocking::{joined, spawn_blocking};
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::input::chunk::{Input, InputChunk, InputStream, slices};
use crate::exec::memory::make_way::or_make_way;
use crate::exec::memory::spill::{Spilling, spilled_rows};
use crate::exec::memory::spilled_chunk::ChunkWriter;
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::node::DeviceNode;
use crate::exec::transfer::chunk_limits::{ChunkLimits, Role};
use crate::exec::transfer::chunker::has_small_dictionary;
use crate::exec::transfer::sizes::batch_bytes;
use crate::exec::transfer::staged_chunk::StagedChunk;
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

/// The pieces of the next chunk, and the chunks that are ready.
pub(crate) struct Waiting {
    pub(crate) on_device: Vec<DeviceBatch>,
    pub(crate) on_host: Vec<RecordBatch>,
    /// Of pieces on the device and on the host together.
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    pub(crate) schema: SchemaRef,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) reservation: MemoryReservation,
    pub(crate) spilling: Option<Spilling>,
    /// The spilled chunk that is being written. Its rows come before those of the waiting pieces.
    pub(crate) in_file: Option<ChunkWriter>,
    pub(crate) limits: ChunkLimits,
    /// What the reader has not read yet.
    pub(crate) ready: VecDeque<Input>,
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
            let (waiting, next) = or_make_way(&device, waiting, next, Waiting::make_way).await?;
            self.waiting = waiting;
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
        // Half of the budget is kept for work, including that of the nodes below.
        let budget = self.waiting.device.budget();
        if budget.in_use_by_all() > budget.limit() / 2 || self.waiting.in_file.is_some() {
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

impl Waiting {
    fn push(&mut self, batch: DeviceBatch, rows: usize, bytes: usize) {
        self.on_device.push(batch);
        self.rows += rows;
        self.bytes += bytes;
    }

    /// Moves all state out, so that a blocking thread can own it.
    fn take(&mut self) -> Self {
        Self {
            on_device: std::mem::take(&mut self.on_device),
            on_host: std::mem::take(&mut self.on_host),
            rows: std::mem::take(&mut self.rows),
            bytes: std::mem::take(&mut self.bytes),
            schema: Arc::clone(&self.schema),
            device: Arc::clone(&self.device),
            reservation: self.reservation.take(),
            spilling: self.spilling.clone(),
            in_file: self.in_file.take(),
            limits: self.limits,
            ready: std::mem::take(&mut self.ready),
        }
    }

    /// Cuts a staged chunk to the size that the reader wants. Finished groups arrive as one chunk.
    fn cut(&self, chunk: StagedChunk) -> crate::error::Result<Vec<InputChunk>> {
        let row_bytes = (0..self.schema.fields().len().min(chunk.shape().columns()))
            .map(|column| chunk.mean_bytes(column))
            .sum::<crate::error::Result<u64>>()? as usize;
        let mut most = self.limits.most_rows;
        // An upload makes chunks of about the right size.
        if chunk.rows().saturating_mul(row_bytes) / 2 > self.limits.bytes {
            most = most.min((self.limits.bytes / row_bytes.max(1)).max(1));
        }
        let chunks = chunk.cut(most)?.into_iter();
        Ok(chunks.map(InputChunk::Staged).collect())
    }

    /// Spills the chunks that the reader has not read yet.
    fn leave_host(&mut self) -> crate::error::Result<()> {
        if let Some(spilling) = &self.spilling {
            for input in &mut self.ready {
                if let Input::Chunk(chunk) = input {
                    chunk.leave_host(spilling)?;
                }
            }
        }
        Ok(())
    }

    /// Downloads the waiting pieces, if there are any.
    fn make_way(&mut self) -> crate::error::Result<()> {
        if self.on_device.is_empty() {
            return Ok(());
        }
        let device = Arc::clone(&self.device);
        step::shared(device.as_ref(), OnRefusal::Shrink, |_| self.download())
    }

    /// Downloads the waiting pieces. They are spilled if the memory pool refuses them.
    fn download(&mut self) -> crate::error::Result<()> {
        if self.in_file.is_some() {
            return self.spill();
        }
        while !self.on_device.is_empty() {
            let bytes = self.on_device[0].bytes() as usize;
            let reserved = self.reserve(bytes);
            if let (Err(_), Some(_)) = (&reserved, &self.spilling) {
                return self.spill();
            }
            reserved?;
            let batch = self.on_device.remove(0);
            let batch = batch.download(self.device.as_ref(), &self.schema)?;
            // Buffers that views and dictionaries share are counted once.
            let more = batch_bytes(&batch).saturating_sub(bytes);
            let grown = self.reserve(more);
            self.on_host.push(batch);
            if let (Err(_), Some(_)) = (&grown, &self.spilling) {
                return self.spill();
            }
            grown?;
        }
        Ok(())
    }

    /// Rows without columns take no memory; a full pool would refuse even 0 bytes.
    fn reserve(&self, bytes: usize) -> Result<()> {
        match bytes {
            0 => Ok(()),
            bytes => self.reservation.try_grow(bytes),
        }
    }

    /// Appends the waiting pieces to the spilled chunk, which is finished once it is long enough.
    fn spill(&mut self) -> crate::error::Result<()> {
        // Rows without columns take no memory, and a file cannot hold them.
        if self.schema.fields().is_empty() {
            return Ok(());
        }
        for batch in std::mem::take(&mut self.on_host) {
            let rows = batch.num_rows();
            let each = spilled_rows(batch_bytes(&batch) / rows.max(1));
            for from in (0..rows).step_by(each) {
                let part = batch.slice(from, each.min(rows - from));
                self.write(part.columns().to_vec())?;
            }
        }
        let device = Arc::clone(&self.device);
        for batch in std::mem::take(&mut self.on_device) {
            slices(device.as_ref(), &batch, &mut |columns| self.write(columns))?;
        }
        (self.rows, self.bytes) = (0, 0);
        self.reservation.free();
        Ok(())
    }

    /// Appends a batch to the spilled chunk, which is created if there is none.
    fn write(&mut self, columns: Vec<ArrayRef>) -> crate::error::Result<()> {
        if self.in_file.is_none() {
            let types = columns.iter().map(|array| array.data_type().clone());
            if let Some(spilling) = &self.spilling {
                self.in_file = ChunkWriter::create(types, spilling)?;
            }
        }
        let Some(file) = &mut self.in_file else {
            return Err(crate::error::BowtieError::Internal(
                "rows without columns are spilled".into(),
            ));
        };
        file.append(columns)?;
        if file.rows() >= self.limits.rows || file.bytes() >= self.limits.bytes {
            self.finish_file()?;
        }
        Ok(())
    }

    fn finish_file(&mut self) -> crate::error::Result<()> {
        let chunk = match self.in_file.take() {
            Some(file) => file.finish(vec![], &self.reservation)?,
            None => None,
        };
        let chunk = chunk.map(InputChunk::Spilled);
        self.ready.extend(chunk.map(Input::Chunk));
        Ok(())
    }

    /// Makes the last chunks.
    fn finish(&mut self) -> crate::error::Result<()> {
        self.put_together()?;
        self.finish_file()
    }

    /// Makes one chunk of all waiting pieces: on the device if they are resident and a copy of them fits, otherwise on
    /// the host.
    fn put_together(&mut self) -> crate::error::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if self.on_host.is_empty()
            && self.in_file.is_none()
            && let Some(batch) = self.on_device().if_it_fits()?
        {
            let outgrew = batch.bytes() > self.bytes as u64;
            (self.rows, self.bytes) = (0, 0);
            self.on_device.clear();
            let reservation = self.reservation.take();
            let mut chunk = InputChunk::of_batch(batch, &self.device, &self.schema, reservation);
            // Half of the budget is kept for work.
            let budget = self.device.budget();
            if outgrew && budget.in_use_by_all() > budget.limit() / 2 {
                chunk.evict(self.spilling.as_ref());
            }
            self.ready.push_back(Input::Chunk(chunk));
            return Ok(());
        }
        self.download()?;
        if self.rows == 0 {
            // All rows were spilled.
            return Ok(());
        }
        let columns = (0..self.schema.fields().len()).map(|i| {
            let parts = self.on_host.iter();
            parts.map(|batch| Arc::clone(batch.column(i))).collect()
        });
        let columns = columns.collect();
        self.on_host.clear();
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let reservation = Arc::new(self.reservation.take());
        let chunk = StagedChunk::of_parts(rows, columns, reservation);
        let chunk = InputChunk::Staged(chunk);
        self.ready.push_back(Input::Chunk(chunk));
        Ok(())
    }

    /// The waiting pieces as one batch on the device.
    fn on_device(&self) -> crate::error::Result<DeviceBatch> {
        if let [batch] = self.on_device.as_slice() {
            return Ok(batch.clone());
        }
        let columns = (0..self.schema.fields().len()).map(|i| {
            let parts = self.on_device.iter();
            let parts = parts.map(|batch| batch.any(i));
            let parts = parts.collect::<crate::error::Result<Vec<_>>>()?;
            BatchColumn::concat(self.device.as_ref(), &parts).map(Some)
        });
        Ok(DeviceBatch::new(
            self.rows,
            columns.collect::<crate::error::Result<_>>()?,
        ))
    }
}
