//! [`Prefetch`]: the streamed side, whose next chunk is read and sent to the device while the one at hand is joined.

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

/// A chunk, and its needed columns on their way to the device, if there was room for them.
#[derive(Debug)]
pub(crate) struct Prefetched {
    pub chunk: InputChunk,
    pub uploaded: Option<DeviceBatch>,
}

/// A chunk is sent ahead if so many of its kind would fit half of the budget: what it takes must not shorten the tile at hand.
const AHEAD_SHARE: u64 = 8;

type Reading = SpawnedTask<Result<Option<(Prefetched, InputStream)>>>;

/// Reads one chunk ahead.
pub(crate) struct Prefetch {
    chunks: Option<InputStream>,
    reading: Option<Reading>,
    upload: Upload,
    spilling: Option<Spilling>,
    /// The last chunk was crowded; what tells who reads beside to try again.
    memory_pressure: bool,
    room: Arc<Notify>,
}

/// What uploads a chunk.
#[derive(Clone)]
struct Upload {
    device: Arc<dyn Device>,
    needed: Arc<[Need]>,
    metrics: DeviceMetrics,
}

impl Prefetch {
    /// Of `chunks` the columns that are needed at once are uploaded; where that takes long, the next one is read meanwhile.
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

    /// Begins to read the next chunk.
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

    /// The next chunk; the one after it is being read from then on, while the memory pool has room. A crowded one has no rows: what
    /// the reader holds has to leave the pool before it asks again.
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

/// The same chunks, read on a task of their own, which ends with the stream. `room` is told when a crowded one was seen, and
/// the next one is asked for.
fn beside(mut chunks: InputStream, room: Arc<Notify>) -> InputStream {
    let (sender, receiver) = mpsc::channel(1);
    let task = SpawnedTask::spawn(async move {
        while let Some(chunk) = chunks.next().await {
            let failed = chunk.is_err();
            let memory_pressure = matches!(&chunk, Ok(chunk) if chunk.is_memory_pressure());
            // Nobody reads any more, or nothing may follow.
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
            // The sender is gone; a task that panicked sent no error.
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
    fn start(&self, chunk: InputChunk) -> crate::error::Result<Prefetched> {
        let staged = match &chunk {
            InputChunk::Staged(staged) if !staged.memory_pressure => staged,
            // It is there, or nothing is.
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
        // The chunk at hand, about as long, still has to take its room, and this one more later.
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
