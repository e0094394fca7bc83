//! Rows in *parts* by the hashes of their keys, where there are more than the device has room for: rows whose keys are equal are in the
//! same part, and a part is done without the others. [`Partitioner`] copies the chunks of an input to parts, round by round:
//!
//! ```text
//! chunks ──► Scatter, several at a time ──► Part 0 ──┐
//!                                      └──► Part 1 ──┼──► at the end of a round its chunks, part by part
//!                                      └──► …      ──┘
//! ```
//!
//! A round ends where the input does, where it is as long as its reader wants, or where the memory pool is full; parts go to files
//! where it is full before. Where a pool is limited and no files are allowed, rows that were read could go nowhere: then there are no parts.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::Time;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinError;

use crate::exec::blocking::blocking_task;
use crate::exec::input::chunk::{InputChunk, InputStream};
use crate::exec::memory::spill::Spilling;
use crate::exec::partition::hash_partition::HashPartition;
use crate::exec::partition::keys::Keys;
use crate::exec::partition::limits::Limits;
use crate::exec::partition::scatter::{DoesNotFit, Scatter, Scattered};
use crate::exec::transfer::chunk_limits::ChunkLimits;
use crate::exec::transfer::chunker::has_small_dictionary;

/// A part is meant to have so many fourths of a chunk, as hashes do not make them equally long.
pub(crate) const TARGET_QUARTERS: u64 = 3;

/// The chunks of an input on their way to parts.
pub(crate) struct Partitioner {
    memory_limits: Arc<Limits>,
    tasks: usize,
    scatter: Arc<Scatter>,
    /// None once they are at their end.
    chunks: Option<InputStream>,
    copied: VecDeque<SpawnedTask<std::result::Result<Scattered, DoesNotFit>>>,
    parts: Vec<HashPartition>,
    /// Rows of the round.
    rows: usize,
    /// So many end it.
    most: usize,
    /// So many where the memory pool has no room.
    enough: usize,
    /// Rounds that were given out, and whether no other follows.
    rounds: usize,
    is_last: bool,
    /// Whether a chunk may have several parts, where these are of the only round.
    combines: bool,
    /// Chunks of the last round that are to be given out.
    ready: VecDeque<InputChunk>,
    /// The pool had no room, which the reader is told: after the round, or while it goes on.
    memory_pressure: Option<InputChunk>,
    time: Time,
}

impl Partitioner {
    /// All chunks are of one round.
    pub(crate) fn new(
        memory_limits: &Arc<Limits>,
        keys: Keys,
        limits: ChunkLimits,
        chunks: InputStream,
    ) -> Self {
        let part = |number| HashPartition::new(number, limits, &memory_limits.reservation);
        Self {
            parts: (0..keys.parts).map(part).collect(),
            scatter: Arc::new(Scatter {
                keys,
                reservation: Arc::clone(&memory_limits.reservation),
            }),
            tasks: memory_limits.tasks(&limits),
            time: memory_limits.metrics.partition_time(),
            memory_limits: Arc::clone(memory_limits),
            chunks: Some(chunks),
            copied: VecDeque::new(),
            rows: 0,
            most: usize::MAX,
            enough: usize::MAX,
            rounds: 0,
            is_last: false,
            combines: false,
            ready: VecDeque::new(),
            memory_pressure: None,
        }
    }

    /// With rounds of `most` rows, about, or of `enough` where the memory pool is full.
    pub(crate) fn in_rounds(self, most: usize, enough: usize) -> Self {
        Self {
            most,
            enough,
            ..self
        }
    }

    /// With short parts together in a chunk, where they are of the only round: for who does not ask which part rows are of.
    pub(crate) fn combined(self) -> Self {
        Self {
            combines: true,
            ..self
        }
    }

    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    pub(crate) fn into_stream(self) -> InputStream {
        let chunks = stream::try_unfold(self, |mut parting| async move {
            let chunk = parting.next().await?;
            Ok(chunk.map(|chunk| (chunk, parting)))
        });
        chunks.boxed()
    }

    /// Whether the chunk that is given out next is of this part too.
    pub(crate) fn continues_with(&self, part: u32) -> bool {
        self.ready.front().is_some_and(|chunk| chunk.part() == part)
    }

    /// Whether it is known that no rows of a part follow, whose chunk was given out last.
    pub(crate) fn is_at_end_of(&self, part: u32) -> bool {
        self.is_last && !self.continues_with(part)
    }

    /// The next chunk of the round that is given out.
    pub(crate) async fn next(&mut self) -> Result<Option<InputChunk>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Ok(Some(chunk));
            }
            if let Some(memory_pressure) = self.memory_pressure.take() {
                return Ok(Some(memory_pressure));
            }
            self.gather().await?;
            if self.ready.is_empty() && self.memory_pressure.is_none() {
                return Ok(None);
            }
        }
    }

    /// Gathers the next round.
    async fn gather(&mut self) -> Result<()> {
        loop {
            self.start_copies().await?;
            let Some(copied) = self.copied.pop_front() else {
                if self.memory_pressure.is_some() && !self.is_long() {
                    // The round goes on once the reader has made room too.
                    return self.spill().await;
                }
                return self.end_round().await;
            };
            match copied.join_unwind().await.map_err(joined)? {
                Ok(scattered) => self.take(scattered).await?,
                Err(refused) => self.refused(refused).await?,
            }
            let spilling = self.memory_limits.spilling.as_ref();
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
        self.rows > 0 && self.rows >= self.enough
    }

    /// Starts to copy the next chunks to parts, until the reader has to make room.
    async fn start_copies(&mut self) -> Result<()> {
        while self.copied.len() < self.tasks && self.memory_pressure.is_none() {
            let Some(chunks) = &mut self.chunks else {
                return Ok(());
            };
            let Some(chunk) = chunks.try_next().await? else {
                self.chunks = None;
                return Ok(());
            };
            if chunk.is_memory_pressure() {
                self.memory_pressure = Some(chunk);
                return Ok(());
            }
            let (scatter, time) = (Arc::clone(&self.scatter), self.time.clone());
            let memory_limits = Arc::clone(&self.memory_limits);
            self.copied.push_back(SpawnedTask::spawn_blocking(move || {
                let _timer = time.timer();
                scatter.copy(chunk, &memory_limits)
            }));
        }
        Ok(())
    }

    async fn take(&mut self, scattered: Scattered) -> Result<()> {
        self.rows += scattered.rows();
        let mut parts = std::mem::take(&mut self.parts);
        self.parts = blocking_task(move || {
            scattered.to(&mut parts)?;
            Ok(parts)
        })
        .await?;
        Ok(())
    }

    /// Where the pool had no room to copy a chunk, the round goes to files, and the chunk too, a few rows at a time.
    async fn refused(&mut self, DoesNotFit { chunk, error }: DoesNotFit) -> Result<()> {
        if !error.is_out_of_host_memory() || self.memory_limits.spilling.is_none() {
            return Err(error.into());
        }
        self.spill().await?;
        self.rows += chunk.rows();
        let (scatter, mut parts) = (Arc::clone(&self.scatter), std::mem::take(&mut self.parts));
        let memory_limits = Arc::clone(&self.memory_limits);
        self.parts = blocking_task(move || {
            scatter.copy_concurrently(&chunk, &mut |scattered| {
                scattered.to(&mut parts)?;
                spill(&mut parts, &memory_limits)
            })?;
            Ok(parts)
        })
        .await?;
        Ok(())
    }

    /// Takes the round to files, where these are allowed.
    async fn spill(&mut self) -> Result<()> {
        let (mut parts, memory_limits) = (
            std::mem::take(&mut self.parts),
            Arc::clone(&self.memory_limits),
        );
        self.parts =
            blocking_task(move || spill(&mut parts, &memory_limits).map(|()| parts)).await?;
        Ok(())
    }

    /// Gives the round out: the parts one way, and those of the next round the other way, so that the last part is still there.
    async fn end_round(&mut self) -> Result<()> {
        let (mut parts, memory_limits) = (
            std::mem::take(&mut self.parts),
            Arc::clone(&self.memory_limits),
        );
        self.is_last = self.chunks.is_none() && self.copied.is_empty();
        let combines = self.combines && self.is_last && self.rounds == 0;
        let (parts, mut chunks) = blocking_task(move || {
            if combines {
                combine(&mut parts);
            }
            let chunks = parts.iter_mut().map(|part| {
                memory_limits.device.check_cancelled()?;
                part.finish()
            });
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
        Ok(())
    }
}

/// Rows of short parts go to one before them.
fn combine(parts: &mut [HashPartition]) {
    let mut open = 0;
    for next in 1..parts.len() {
        let (before, rest) = parts.split_at_mut(next);
        if !before[open].absorb(&mut rest[0]) {
            open = next;
        }
    }
}

fn spill(parts: &mut [HashPartition], memory_limits: &Limits) -> crate::error::Result<()> {
    let Some(spilling) = &memory_limits.spilling else {
        return Ok(());
    };
    for part in parts {
        memory_limits.device.check_cancelled()?;
        part.spill(spilling)?;
    }
    Ok(())
}

/// Whether rows of these columns can be copied without what the others refer to, and put together again.
pub(crate) fn can_partition(schema: &Schema) -> bool {
    let mut fields = schema.fields().iter();
    !fields.any(|field| {
        let data_type = field.data_type();
        has_small_dictionary(data_type) || keeps_all(data_type)
    })
}

/// Whether some rows of a type keep the values of all.
fn keeps_all(data_type: &DataType) -> bool {
    use DataType::*;
    let inside = |field: &FieldRef| {
        matches!(field.data_type(), Dictionary(..)) || keeps_all(field.data_type())
    };
    match data_type {
        ListView(_) | LargeListView(_) | RunEndEncoded(..) | Union(..) => true,
        List(of) | LargeList(of) | FixedSizeList(of, _) | Map(of, _) => inside(of),
        Struct(fields) => fields.iter().any(inside),
        _ => false,
    }
}

fn joined(error: JoinError) -> DataFusionError {
    DataFusionError::ExecutionJoin(Box::new(error))
}
