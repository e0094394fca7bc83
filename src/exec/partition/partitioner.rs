//! [`Partitioner`]: hash-partitions the chunks of an input, round by round. Rows with equal keys go to the same
//! partition, so a partition is processed without the others.
//!
//! ```text
//! chunks ──► Scatter, several at a time ──► partition 0 ──┐
//!                                      └──► partition 1 ──┼──► at the end of a round its chunks, partition by partition
//!                                      └──► …           ──┘
//! ```
//!
//! A round ends with the input, when it is as long as its reader wants, or when the memory pool is full. If the pool is
//! full earlier, partitions are spilled. With a limited pool and without files nothing is partitioned, since the
//! gathered rows could not be stored.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::Time;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinError;

use crate::exec::blocking::{blocking_task, spawn_blocking};
use crate::exec::chunk::chunk_limits::ChunkLimits;
use crate::exec::input::chunk::{Input, InputChunk, InputStream};
use crate::exec::memory::spill::Spilling;
use crate::exec::partition::hash_partition::HashPartition;
use crate::exec::partition::keys::Keys;
use crate::exec::partition::limits::Limits;
use crate::exec::partition::scatter::{DoesNotFit, Scatter, Scattered};
use crate::exec::transfer::chunker::has_small_dictionary;

/// An input of fewer chunks is not partitioned: a join has few tiles without, and the groups of an aggregation are merged.
pub(crate) const LEAST_CHUNKS: usize = 3;

/// The target size of a partition in quarters of a chunk, since hashes do not make partitions equally large.
pub(crate) const TARGET_QUARTERS: u64 = 3;

/// The partitions of an input and the state of the current round.
pub(crate) struct Partitioner {
    memory_limits: Arc<Limits>,
    /// Chunks that are copied concurrently.
    tasks: usize,
    scatter: Arc<Scatter>,
    /// `None` at the end.
    chunks: Option<InputStream>,
    /// Running copies, in the order of their chunks.
    copied: VecDeque<SpawnedTask<std::result::Result<Scattered, DoesNotFit>>>,
    partitions: Vec<HashPartition>,
    /// Rows of the round.
    rows: usize,
    /// The number of rows that ends a round.
    most: usize,
    /// The number of rows that ends a round when the memory pool is full.
    enough: usize,
    /// Finished rounds.
    rounds: usize,
    /// Whether no round follows the finished one.
    is_last: bool,
    /// Whether short partitions may share a chunk, if there is only one round.
    combines: bool,
    /// Chunks of the finished round that the reader has not read yet.
    ready: VecDeque<InputChunk>,
    /// Whether memory pressure is passed on to the reader, after the round or within it.
    memory_pressure: bool,
    time: Time,
}

impl Partitioner {
    /// Partitions `chunks` in a single round.
    pub(crate) fn new(
        memory_limits: &Arc<Limits>,
        keys: Keys,
        limits: ChunkLimits,
        chunks: InputStream,
    ) -> Self {
        let partition = |number| HashPartition::new(number, limits, &memory_limits.reservation);
        Self {
            partitions: (0..keys.partitions).map(partition).collect(),
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
            memory_pressure: false,
        }
    }

    /// With rounds of about `most` rows, or of at least `enough` when the memory pool is full.
    pub(crate) fn in_rounds(self, most: usize, enough: usize) -> Self {
        Self {
            most,
            enough,
            ..self
        }
    }

    /// With short partitions together in a chunk, if there is only one round. For readers that do not need the
    /// partition of a chunk.
    pub(crate) fn combined(self) -> Self {
        Self {
            combines: true,
            ..self
        }
    }

    pub(crate) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    pub(crate) fn into_stream(self) -> InputStream {
        let chunks = stream::try_unfold(self, |mut partitioner| async move {
            let input = partitioner.next().await?;
            Ok(input.map(|input| (input, partitioner)))
        });
        chunks.boxed()
    }

    /// Whether the next chunk is of the same partition.
    pub(crate) fn continues_with(&self, partition: u32) -> bool {
        self.ready
            .front()
            .is_some_and(|chunk| chunk.partition() == partition)
    }

    /// Whether no further rows of `partition` can follow. `partition` is the partition of the last chunk that was returned.
    pub(crate) fn is_at_end_of(&self, partition: u32) -> bool {
        self.is_last && !self.continues_with(partition)
    }

    /// The next chunk: of the finished round, or after partitioning another one.
    pub(crate) async fn next(&mut self) -> Result<Option<Input>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Ok(Some(Input::Chunk(chunk)));
            }
            if std::mem::take(&mut self.memory_pressure) {
                return Ok(Some(Input::MemoryPressure));
            }
            self.gather().await?;
            if self.ready.is_empty() && !self.memory_pressure {
                return Ok(None);
            }
        }
    }

    /// Partitions the next round.
    async fn gather(&mut self) -> Result<()> {
        loop {
            self.start_copies().await?;
            let Some(copied) = self.copied.pop_front() else {
                if self.memory_pressure && !self.is_long() {
                    // The round continues once the reader has freed memory.
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
            // Chunks that are being copied belong to the next round.
            if self.rows >= self.most || (full && self.is_long()) {
                return self.end_round().await;
            }
            if full {
                self.spill().await?;
            }
        }
    }

    /// Whether the round is long enough to end when memory is short.
    fn is_long(&self) -> bool {
        self.rows > 0 && self.rows >= self.enough
    }

    /// Starts to copy the next chunks, unless the reader must free memory first.
    async fn start_copies(&mut self) -> Result<()> {
        while self.copied.len() < self.tasks && !self.memory_pressure {
            let Some(chunks) = &mut self.chunks else {
                return Ok(());
            };
            let chunk = match chunks.try_next().await? {
                Some(Input::Chunk(chunk)) => chunk,
                Some(Input::MemoryPressure) => {
                    self.memory_pressure = true;
                    return Ok(());
                }
                None => {
                    self.chunks = None;
                    return Ok(());
                }
            };
            let (scatter, time) = (Arc::clone(&self.scatter), self.time.clone());
            let memory_limits = Arc::clone(&self.memory_limits);
            self.copied.push_back(spawn_blocking(move || {
                let _timer = time.timer();
                scatter.copy(chunk, &memory_limits)
            }));
        }
        Ok(())
    }

    /// Adds copied rows to their partitions.
    async fn take(&mut self, scattered: Scattered) -> Result<()> {
        self.rows += scattered.rows();
        let mut partitions = std::mem::take(&mut self.partitions);
        self.partitions = blocking_task(move || {
            scattered.to(&mut partitions)?;
            Ok(partitions)
        })
        .await?;
        Ok(())
    }

    /// If the memory pool refused the copy of a chunk, spills the round, and copies and spills the chunk a few rows at
    /// a time.
    async fn refused(&mut self, DoesNotFit { chunk, error }: DoesNotFit) -> Result<()> {
        if !error.is_out_of_host_memory() || self.memory_limits.spilling.is_none() {
            return Err(error.into());
        }
        self.spill().await?;
        self.rows += chunk.rows();
        let (scatter, mut partitions) = (
            Arc::clone(&self.scatter),
            std::mem::take(&mut self.partitions),
        );
        let memory_limits = Arc::clone(&self.memory_limits);
        self.partitions = blocking_task(move || {
            scatter.copy_concurrently(&chunk, &mut |scattered| {
                scattered.to(&mut partitions)?;
                spill(&mut partitions, &memory_limits)
            })?;
            Ok(partitions)
        })
        .await?;
        Ok(())
    }

    /// Spills the round, if files are allowed.
    async fn spill(&mut self) -> Result<()> {
        let (mut partitions, memory_limits) = (
            std::mem::take(&mut self.partitions),
            Arc::clone(&self.memory_limits),
        );
        self.partitions =
            blocking_task(move || spill(&mut partitions, &memory_limits).map(|()| partitions))
                .await?;
        Ok(())
    }

    /// Ends the round. Partitions are returned in ascending order in one round and in descending order in the next, so
    /// that the last one is still resident.
    async fn end_round(&mut self) -> Result<()> {
        let (mut partitions, memory_limits) = (
            std::mem::take(&mut self.partitions),
            Arc::clone(&self.memory_limits),
        );
        self.is_last = self.chunks.is_none() && self.copied.is_empty();
        let combines = self.combines && self.is_last && self.rounds == 0;
        let (partitions, mut chunks) = blocking_task(move || {
            if combines {
                combine(&mut partitions);
            }
            let chunks = partitions.iter_mut().map(|partition| {
                memory_limits.device.check_cancelled()?;
                partition.finish()
            });
            let chunks = chunks.collect::<crate::error::Result<Vec<_>>>()?;
            Ok((partitions, chunks))
        })
        .await?;
        self.partitions = partitions;
        if self.rounds % 2 == 1 {
            chunks.reverse();
        }
        self.ready = chunks.into_iter().flatten().collect();
        self.rounds += usize::from(self.rows > 0);
        self.rows = 0;
        Ok(())
    }
}

/// Moves the rows of short partitions to a preceding one.
fn combine(partitions: &mut [HashPartition]) {
    let mut open = 0;
    for next in 1..partitions.len() {
        let (before, rest) = partitions.split_at_mut(next);
        if !before[open].absorb(&mut rest[0]) {
            open = next;
        }
    }
}

fn spill(partitions: &mut [HashPartition], memory_limits: &Limits) -> crate::error::Result<()> {
    let Some(spilling) = &memory_limits.spilling else {
        return Ok(());
    };
    for partition in partitions {
        memory_limits.device.check_cancelled()?;
        partition.spill(spilling)?;
    }
    Ok(())
}

/// Whether copies of some rows of these columns are free of the other rows' values, and can be concatenated again.
pub(crate) fn can_partition(schema: &Schema) -> bool {
    let mut fields = schema.fields().iter();
    !fields.any(|field| {
        let data_type = field.data_type();
        has_small_dictionary(data_type) || keeps_all(data_type)
    })
}

/// Whether a few rows of this type keep the values of all rows alive.
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
