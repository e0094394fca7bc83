//! Rows in *parts* by the hashes of their keys, where there are more than the device has room for: rows whose keys are equal are in the
//! same part, and a part is done without the others. [`Parting`] copies the chunks of an input to parts, round by round:
//!
//! ```text
//! chunks ──► Scatter, several at a time ──► Part 0 ──┐
//!                                      └──► Part 1 ──┼──► at the end of a round its chunks, part by part
//!                                      └──► …      ──┘
//! ```
//!
//! A round ends where the input does, where it is as long as its reader wants, or where the memory pool is full; parts go to files
//! where it is full before.

mod part;
mod scatter;

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::physical_plan::metrics::Time;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinError;

use super::input::{InputChunk, InputStream};
use super::metrics::DeviceMetrics;
use super::spill::Spilling;
use crate::stream::ChunkLimits;
use part::Part;
use scatter::{Refused, Scatter, Scattered};

/// Parts at most: of a longer input they have several chunks.
pub(super) const MOST_PARTS: u32 = 256;
/// A part is meant to have so many fourths of a chunk, as hashes do not make them equally long.
pub(super) const FOURTHS: u64 = 3;
/// The share of the memory pool that chunks may take beside it while their rows are copied to parts.
const SHARE_OF_POOL: usize = 8;

/// What parts of a node's inputs are made with.
pub(super) struct Room {
    spilling: Option<Spilling>,
    reservation: Arc<MemoryReservation>,
    /// Chunks that are copied at the same time, if they are not long.
    threads: usize,
    pool: MemoryLimit,
    metrics: DeviceMetrics,
}

impl Room {
    pub(super) fn new(
        context: &TaskContext,
        spilling: Option<&Spilling>,
        metrics: &DeviceMetrics,
    ) -> Self {
        let pool = context.memory_pool();
        Self {
            spilling: spilling.cloned(),
            reservation: Arc::new(MemoryConsumer::new("BowtieParts").register(pool)),
            threads: context.session_config().target_partitions(),
            pool: pool.memory_limit(),
            metrics: metrics.clone(),
        }
    }

    fn tasks(&self, limits: &ChunkLimits) -> usize {
        let most = match self.pool {
            MemoryLimit::Finite(limit) => limit / SHARE_OF_POOL / limits.bytes.max(1),
            _ => usize::MAX,
        };
        self.threads.min(most).max(1)
    }
}

/// By what, and how far apart, the rows of an input are.
pub(super) struct Keys {
    /// Columns of the input.
    pub columns: Vec<usize>,
    /// Whether keys of which one is NULL may equal others.
    pub null_equal: bool,
    pub parts: u32,
}

/// The first chunks of an input, by which it is decided what becomes of all.
pub(super) struct First {
    pub chunks: Vec<InputChunk>,
    /// `None` where there are no others.
    rest: Option<InputStream>,
}

impl First {
    /// At most so many; fewer where there are no more, or whoever makes room has to come before.
    pub(super) async fn of(input: InputStream, most: usize) -> Result<Self> {
        let first = Self {
            chunks: vec![],
            rest: Some(input),
        };
        first.up_to(most).await
    }

    /// The same with more of them.
    pub(super) async fn up_to(mut self, most: usize) -> Result<Self> {
        while self.chunks.len() < most
            && let Some(rest) = &mut self.rest
        {
            match rest.try_next().await? {
                Some(chunk) => self.chunks.push(chunk),
                None => self.rest = None,
            }
            if self.chunks.last().is_some_and(InputChunk::is_crowded) {
                break;
            }
        }
        Ok(self)
    }

    /// Whether there are no others.
    pub(super) fn are_all(&self) -> bool {
        self.rest.is_none()
    }

    /// All chunks in their order.
    pub(super) fn all(self) -> InputStream {
        let rest = self.rest.unwrap_or_else(|| stream::empty().boxed());
        stream::iter(self.chunks.into_iter().map(Ok))
            .chain(rest)
            .boxed()
    }
}

/// The chunks of an input on their way to parts.
pub(super) struct Parting {
    room: Arc<Room>,
    tasks: usize,
    scatter: Arc<Scatter>,
    /// None once they are at their end.
    chunks: Option<InputStream>,
    copied: VecDeque<SpawnedTask<std::result::Result<Scattered, Refused>>>,
    parts: Vec<Part>,
    /// Rows of the round.
    rows: usize,
    /// So many end it.
    most: usize,
    /// So many where the memory pool has no room.
    enough: usize,
    /// Rounds that were given out, and whether no other follows.
    rounds: usize,
    is_last: bool,
    /// Chunks of the last round that are to be given out.
    ready: VecDeque<InputChunk>,
    /// The pool had no room: the reader is told after the round.
    crowded: Option<InputChunk>,
    time: Time,
}

impl Parting {
    /// All chunks are of one round.
    pub(super) fn new(
        room: &Arc<Room>,
        keys: Keys,
        limits: ChunkLimits,
        chunks: InputStream,
    ) -> Self {
        let part = |number| Part::new(number, limits, &room.reservation);
        Self {
            parts: (0..keys.parts).map(part).collect(),
            scatter: Arc::new(Scatter {
                keys,
                reservation: Arc::clone(&room.reservation),
            }),
            tasks: room.tasks(&limits),
            time: room.metrics.parting_time(),
            room: Arc::clone(room),
            chunks: Some(chunks),
            copied: VecDeque::new(),
            rows: 0,
            most: usize::MAX,
            enough: usize::MAX,
            rounds: 0,
            is_last: false,
            ready: VecDeque::new(),
            crowded: None,
        }
    }

    /// With rounds of `most` rows, about, or of `enough` where the memory pool is full.
    pub(super) fn in_rounds(self, most: usize, enough: usize) -> Self {
        Self {
            most,
            enough,
            ..self
        }
    }

    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn into_stream(self) -> InputStream {
        let chunks = stream::try_unfold(self, |mut parting| async move {
            let chunk = parting.next().await?;
            Ok(chunk.map(|chunk| (chunk, parting)))
        });
        chunks.boxed()
    }

    /// Whether it is known that no rows of a part follow, whose chunk was given out last.
    pub(super) fn is_at_end_of(&self, part: u32) -> bool {
        let next = self.ready.front();
        self.is_last && next.is_none_or(|chunk| chunk.part() != part)
    }

    /// The next chunk of the round that is given out.
    pub(super) async fn next(&mut self) -> Result<Option<InputChunk>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Ok(Some(chunk));
            }
            if let Some(crowded) = self.crowded.take() {
                return Ok(Some(crowded));
            }
            self.gather().await?;
            if self.ready.is_empty() && self.crowded.is_none() {
                return Ok(None);
            }
        }
    }

    /// Gathers the next round.
    async fn gather(&mut self) -> Result<()> {
        loop {
            self.start_copies().await?;
            let Some(copied) = self.copied.pop_front() else {
                if self.crowded.is_some() && !self.is_long() && self.spill().await? {
                    // There is room again.
                    self.crowded = None;
                    continue;
                }
                return self.end_round().await;
            };
            match copied.join_unwind().await.map_err(joined)? {
                Ok(scattered) => self.take(scattered).await?,
                Err(refused) => self.refused(refused).await?,
            }
            let spilling = self.room.spilling.as_ref();
            let full = spilling.is_some_and(Spilling::pool_is_full);
            // Those that are being copied are of the next round.
            if self.rows >= self.most || (full && self.is_long()) {
                return self.end_round().await;
            }
            if full {
                self.spill().await?;
            }
        }
    }

    /// Whether the round may end because there is no room.
    fn is_long(&self) -> bool {
        self.rows > 0 && (self.rows >= self.enough || self.room.spilling.is_none())
    }

    /// Starts to copy the next chunks to parts, until the reader has to make room.
    async fn start_copies(&mut self) -> Result<()> {
        while self.copied.len() < self.tasks && self.crowded.is_none() {
            let Some(chunks) = &mut self.chunks else {
                return Ok(());
            };
            let Some(chunk) = chunks.try_next().await? else {
                self.chunks = None;
                return Ok(());
            };
            if chunk.is_crowded() {
                self.crowded = Some(chunk);
                return Ok(());
            }
            let (scatter, time) = (Arc::clone(&self.scatter), self.time.clone());
            let spilling = self.room.spilling.clone();
            self.copied.push_back(SpawnedTask::spawn_blocking(move || {
                let _timer = time.timer();
                scatter.copy(chunk, spilling.as_ref())
            }));
        }
        Ok(())
    }

    async fn take(&mut self, scattered: Scattered) -> Result<()> {
        self.rows += scattered.rows();
        let mut parts = std::mem::take(&mut self.parts);
        self.parts = blocking(move || {
            scattered.to(&mut parts)?;
            Ok(parts)
        })
        .await?;
        Ok(())
    }

    /// Where the pool had no room to copy a chunk, the round goes to files, and the chunk too, a few rows at a time.
    async fn refused(&mut self, Refused { chunk, error }: Refused) -> Result<()> {
        let spilling = self.room.spilling.clone();
        let Some(spilling) = spilling.filter(|_| error.is_out_of_host_memory()) else {
            return Err(error.into());
        };
        self.rows += chunk.rows();
        let (scatter, mut parts) = (Arc::clone(&self.scatter), std::mem::take(&mut self.parts));
        self.parts = blocking(move || {
            for part in &mut parts {
                part.spill(&spilling)?;
            }
            scatter.copy_beside(&chunk, &mut |scattered| {
                scattered.to(&mut parts)?;
                parts
                    .iter_mut()
                    .try_for_each(|part| part.spill(&spilling).map(|_| ()))
            })?;
            Ok(parts)
        })
        .await?;
        Ok(())
    }

    /// Takes the round to files; false where it takes no room.
    async fn spill(&mut self) -> Result<bool> {
        let Some(spilling) = self.room.spilling.clone() else {
            return Ok(false);
        };
        let mut parts = std::mem::take(&mut self.parts);
        let (parts, spilled) = blocking(move || {
            let mut spilled = false;
            for part in &mut parts {
                spilled |= part.spill(&spilling)?;
            }
            Ok((parts, spilled))
        })
        .await?;
        self.parts = parts;
        Ok(spilled)
    }

    /// Gives the round out: the parts one way, and those of the next round the other way, so that the last part is still there.
    async fn end_round(&mut self) -> Result<()> {
        let mut parts = std::mem::take(&mut self.parts);
        let (parts, mut chunks) = blocking(move || {
            let chunks = parts.iter_mut().map(Part::finish);
            let chunks = chunks.collect::<crate::error::Result<Vec<_>>>()?;
            Ok((parts, chunks))
        })
        .await?;
        self.parts = parts;
        if self.rounds % 2 == 1 {
            chunks.reverse();
        }
        self.ready = chunks.into_iter().flatten().collect();
        self.rounds += usize::from(self.rows > 0);
        self.rows = 0;
        self.is_last = self.chunks.is_none() && self.copied.is_empty();
        Ok(())
    }
}

fn joined(error: JoinError) -> DataFusionError {
    DataFusionError::ExecutionJoin(Box::new(error))
}

/// Does `step` on a thread that may block.
async fn blocking<T: Send + 'static>(
    step: impl FnOnce() -> crate::error::Result<T> + Send + 'static,
) -> Result<T> {
    let done = SpawnedTask::spawn_blocking(step).join_unwind().await;
    Ok(done.map_err(joined)??)
}
