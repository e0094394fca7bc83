//! [`Prefetch`]: the streamed side of a node. It reads the next chunk and uploads its needed columns while the current
//! chunk is processed.

use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::{Notify, mpsc};

use crate::device::data::batch::DeviceBatch;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::exec::input::chunk::{InputChunk, InputStream};
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::metrics::DeviceMetrics;
use crate::exec::transfer::chunk_limits::ChunkLimits;

/// A chunk, and its needed columns on the device (the copy may still run) if they were prefetched.
#[derive(Debug)]
pub(crate) struct Prefetched {
    pub chunk: InputChunk,
    pub uploaded: Option<DeviceBatch>,
}

/// Prefetch a chunk only if this number of chunks of its size fits into half of the budget, so that it does not force
/// the current tile to be cut.
const AHEAD_SHARE: u64 = 8;

/// The task that reads and uploads the next chunk.
type Reading = SpawnedTask<Result<Option<(Prefetched, InputStream)>>>;

/// Reads a stream of chunks one ahead.
pub(crate) struct Prefetch {
    chunks: Option<InputStream>,
    reading: Option<Reading>,
    upload: Upload,
    spilling: Option<Spilling>,
    /// Whether the last chunk signalled memory pressure.
    memory_pressure: bool,
    /// Tells the task that reads ahead to go on after memory pressure.
    room: Arc<Notify>,
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
        let room = Arc::new(Notify::new());
        Self {
            chunks: Some(
                match device.profile().prefetches && needed.iter().any(Need::is_any) {
                    true => beside(chunks, Arc::clone(&room)),
                    false => chunks,
                },
            ),
            reading: None,
            spilling,
            memory_pressure: false,
            room,
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
        self.reading = Some(SpawnedTask::spawn(async move {
            let Some(chunk) = chunks.try_next().await? else {
                return Ok(None);
            };
            let arriving = SpawnedTask::spawn_blocking(move || upload.start(chunk))
                .join_unwind()
                .await
                .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??;
            Ok(Some((arriving, chunks)))
        }));
    }

    /// The next chunk. From then on the one after it is read, if the memory pool has memory. A chunk that signals
    /// memory pressure has no rows: the reader must free its memory before it calls again.
    pub(crate) async fn next(&mut self) -> Result<Option<Prefetched>> {
        if std::mem::take(&mut self.memory_pressure) {
            self.room.notify_one();
        }
        self.start();
        let Some(reading) = self.reading.take() else {
            return Ok(None);
        };
        let read = reading
            .join_unwind()
            .await
            .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??;
        let Some((arriving, chunks)) = read else {
            return Ok(None);
        };
        self.chunks = Some(chunks);
        let tight = self.spilling.as_ref().is_some_and(Spilling::pool_is_tight);
        self.memory_pressure = arriving.chunk.is_memory_pressure();
        if !tight && !self.memory_pressure {
            self.start();
        }
        Ok(Some(arriving))
    }
}

/// The same chunks, read by a task that ends with the stream. After a chunk that signals memory pressure the task waits
/// for `room`.
fn beside(mut chunks: InputStream, room: Arc<Notify>) -> InputStream {
    let (sender, receiver) = mpsc::channel(1);
    let task = SpawnedTask::spawn(async move {
        while let Some(chunk) = chunks.next().await {
            let failed = chunk.is_err();
            let memory_pressure = matches!(&chunk, Ok(chunk) if chunk.is_memory_pressure());
            // The reader is gone, or the stream has failed and ends.
            if sender.send(chunk).await.is_err() || failed {
                return;
            }
            if memory_pressure {
                room.notified().await;
            }
        }
    });
    stream::unfold(
        (receiver, Some(task)),
        |(mut receiver, mut task)| async move {
            if let Some(chunk) = receiver.recv().await {
                return Some((chunk, (receiver, task)));
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
    /// Starts the upload of a staged chunk, if it leaves enough memory for the current one.
    fn start(&self, chunk: InputChunk) -> crate::error::Result<Prefetched> {
        let staged = match &chunk {
            InputChunk::Staged(staged) if !staged.memory_pressure => staged,
            // A resident chunk needs no upload. A spilled one is read when it is used.
            _ => {
                return Ok(Prefetched {
                    chunk,
                    uploaded: None,
                });
            }
        };
        let mut bytes = 0;
        for (column, needed) in self.needed.iter().enumerate() {
            if needed.is_now() {
                bytes += chunk.mean_bytes(column)? * chunk.rows() as u64;
            }
        }
        // The current chunk of about the same size still has to allocate memory, and this one needs more later.
        let work = bytes + ChunkLimits::WORK_BYTES_PER_ROW * chunk.rows() as u64;
        let budget = self.device.budget();
        if bytes == 0 || budget.in_use_by_all() + AHEAD_SHARE * work > budget.limit() / 2 {
            return Ok(Prefetched {
                chunk,
                uploaded: None,
            });
        }
        let _timer = self.metrics.upload_time.timer();
        let rows = 0..chunk.rows();
        let device = self.device.as_ref();
        let uploaded = step::shared(device, OnRefusal::Defer, |_| {
            staged.upload_async(device, &rows, &self.needed)
        });
        let uploaded = match uploaded {
            Ok(batch) => {
                self.metrics.uploaded_bytes.add(batch.bytes() as usize);
                Some(batch)
            }
            Err(error) if error.is_divisible() => None,
            Err(error) => return Err(error),
        };
        Ok(Prefetched { chunk, uploaded })
    }
}
