//! [`Prefetch`]: the streamed side of a node. It reads the next chunk and uploads its needed columns while the current
//! chunk is processed.

use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::{Notify, mpsc};

use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::IfItFits as _;
use crate::exec::blocking::{joined, spawn, spawn_blocking};
use crate::exec::chunk::chunk_limits::ChunkLimits;
use crate::exec::input::chunk::{Input, InputChunk, InputStream};
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::metrics::DeviceMetrics;

/// Prefetch a chunk only if memory is not scarce with this number of chunks of its size, so that it does not force the
/// current tile to be cut.
const AHEAD_SHARE: u64 = 8;

/// The task that reads and uploads the next chunk.
type Reading = SpawnedTask<Result<Option<(Input, InputStream)>>>;

/// Reads a stream of chunks one ahead.
pub(crate) struct Prefetch {
    chunks: Option<InputStream>,
    reading: Option<Reading>,
    upload: Upload,
    spilling: Option<Spilling>,
    /// Whether the last call of `next` told of memory pressure.
    memory_pressure: bool,
    /// Tells the task that reads ahead to go on after memory pressure.
    resume: Arc<Notify>,
}

/// Uploads the needed columns of chunks.
#[derive(Clone)]
struct Upload {
    device: Arc<dyn Device>,
    needed: Arc<[Need]>,
    metrics: DeviceMetrics,
}

impl Prefetch {
    /// Prefetches `chunks`. The columns that are needed at once are uploaded ahead. On a device where uploads take
    /// long, a second chunk is read ahead.
    pub(crate) fn new(
        chunks: InputStream,
        device: Arc<dyn Device>,
        needed: &[Need],
        spilling: Option<Spilling>,
        metrics: DeviceMetrics,
    ) -> Self {
        let resume = Arc::new(Notify::new());
        Self {
            chunks: Some(
                match device.profile().prefetches && needed.iter().any(Need::is_any) {
                    true => beside(chunks, Arc::clone(&resume)),
                    false => chunks,
                },
            ),
            reading: None,
            spilling,
            memory_pressure: false,
            resume,
            upload: Upload {
                device,
                needed: needed.into(),
                metrics,
            },
        }
    }

    /// Begins to read the next chunk, unless that has begun.
    pub(crate) fn start(&mut self) {
        let Some(mut chunks) = self.chunks.take() else {
            return;
        };
        let upload = self.upload.clone();
        self.reading = Some(spawn(async move {
            let chunk = match chunks.try_next().await? {
                Some(Input::Chunk(chunk)) => chunk,
                Some(Input::MemoryPressure) => return Ok(Some((Input::MemoryPressure, chunks))),
                None => return Ok(None),
            };
            let chunk = joined(spawn_blocking(move || upload.start(chunk))).await??;
            Ok(Some((Input::Chunk(chunk), chunks)))
        }));
    }

    /// The next chunk. From then on the one after it is read, if the memory pool has memory. After a signal of memory
    /// pressure the reader frees memory before it calls again.
    pub(crate) async fn next(&mut self) -> Result<Option<Input>> {
        if std::mem::take(&mut self.memory_pressure) {
            self.resume.notify_one();
        }
        self.start();
        let Some(reading) = self.reading.take() else {
            return Ok(None);
        };
        let read = joined(reading).await??;
        let Some((input, chunks)) = read else {
            return Ok(None);
        };
        self.chunks = Some(chunks);
        let tight = self.spilling.as_ref().is_some_and(Spilling::pool_is_tight);
        self.memory_pressure = matches!(input, Input::MemoryPressure);
        if !tight && !self.memory_pressure {
            self.start();
        }
        Ok(Some(input))
    }
}

/// The same chunks, read by a task that ends with the stream. After a signal of memory pressure the task waits for
/// `resume`.
fn beside(mut chunks: InputStream, resume: Arc<Notify>) -> InputStream {
    let (sender, receiver) = mpsc::channel(1);
    let task = spawn(async move {
        while let Some(input) = chunks.next().await {
            let failed = input.is_err();
            let memory_pressure = matches!(input, Ok(Input::MemoryPressure));
            // The reader is gone, or the stream has failed and ends.
            if sender.send(input).await.is_err() || failed {
                return;
            }
            if memory_pressure {
                resume.notified().await;
            }
        }
    });
    stream::unfold(
        (receiver, Some(task)),
        |(mut receiver, mut task)| async move {
            if let Some(input) = receiver.recv().await {
                return Some((input, (receiver, task)));
            }
            // The sender was dropped. A task that panicked sent no error.
            match task.take()?.join_unwind().await {
                Ok(()) => None,
                Err(e) => Some((
                    Err(DataFusionError::ExecutionJoin(Box::new(e))),
                    (receiver, None),
                )),
            }
        },
    )
    .boxed()
}

impl Upload {
    /// Starts the upload of a staged chunk, if it leaves enough memory for the current one. A resident chunk needs none,
    /// and a spilled one is read when it is used.
    fn start(&self, chunk: InputChunk) -> crate::error::Result<InputChunk> {
        if !matches!(chunk, InputChunk::Staged(_)) {
            return Ok(chunk);
        }
        let mut bytes = 0;
        for (column, needed) in self.needed.iter().enumerate() {
            if needed.is_now() {
                bytes += chunk.mean_bytes(column)? * chunk.rows() as u64;
            }
        }
        // The current chunk of about the same size still has to allocate memory, and this one needs more later.
        let work = bytes + ChunkLimits::WORK_BYTES_PER_ROW * chunk.rows() as u64;
        if bytes == 0 || self.device.budget().is_scarce(AHEAD_SHARE * work) {
            return Ok(chunk);
        }
        let device = self.device.as_ref();
        let prefetched = step::shared(device, OnRefusal::Defer, |_| {
            chunk.prefetch(device, &self.needed, &self.metrics)
        });
        prefetched.if_it_fits()?;
        Ok(chunk)
    }
}
